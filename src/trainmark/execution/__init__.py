"""Carrying plans out: one runner for all commands, outcomes, and the directory that nothing measured is lost from."""

from trainmark.execution.directory import (
    ResultDirectory,
    opened,
    read_record,
    read_suite,
    write_record,
)
from trainmark.execution.prepare import NotReady, Preparer, with_expected
from trainmark.execution.runner import carry_out, name_on
from trainmark.node import Pulse

__all__ = [
    "NotReady",
    "Preparer",
    "Pulse",
    "ResultDirectory",
    "carry_out",
    "name_on",
    "opened",
    "read_record",
    "read_suite",
    "with_expected",
    "write_record",
]
