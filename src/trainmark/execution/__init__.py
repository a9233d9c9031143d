"""Carrying plans out: processes, limits, outcomes, and the directory that nothing measured is lost from."""

from trainmark.execution.directory import SUITE, ResultDirectory, opened, read_suite
from trainmark.execution.record import read_record, write_record
from trainmark.execution.signals import held
from trainmark.execution.supervise import LOG, Pulse, carry_out
from trainmark.words.outcome import OutcomeRecord

__all__ = [
    "LOG",
    "SUITE",
    "OutcomeRecord",
    "Pulse",
    "ResultDirectory",
    "carry_out",
    "held",
    "opened",
    "read_record",
    "read_suite",
    "write_record",
]
