"""Carrying plans out: one runner for all commands, outcomes, and the directory that nothing measured is lost from."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.execution.directory import (
        ResultDirectory,
        opened,
        read_record,
        read_suite,
        write_record,
    )
    from trainmark.execution.prepare import NotReady, Preparer, with_expected
    from trainmark.execution.runner import carry_out
    from trainmark.node import Heartbeat

__all__ = [
    "Heartbeat",
    "NotReady",
    "Preparer",
    "ResultDirectory",
    "carry_out",
    "opened",
    "read_record",
    "read_suite",
    "with_expected",
    "write_record",
]

__getattr__ = attach(
    __name__,
    {
        ".directory": ("ResultDirectory", "opened", "read_record", "read_suite", "write_record"),
        ".prepare": ("NotReady", "Preparer", "with_expected"),
        ".runner": ("carry_out",),
        "trainmark.node": ("Heartbeat",),
    },
)
