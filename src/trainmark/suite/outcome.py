"""Outcomes: what can become of a run. An outcome is never a number, and only ``ok`` has a throughput."""

from enum import StrEnum


class Outcome(StrEnum):
    """What became of a run."""

    OK = "ok"
    """It ran to its end and left a whole measured window."""
    OOM = "oom"
    """The device's or the host's memory, or the suite's memory limit, was not enough."""
    TIMEOUT = "timeout"
    """It took longer than its limit, or was silent for longer than its limit, and was ended."""
    FAILED = "failed"
    """It ended by an error or a signal."""
    INVALID = "invalid"
    """It ended normally, but what it left is no measurement of the case."""
    UNSUPPORTED = "unsupported"
    """The case cannot run here: a device, a precision, a compiler or an environment is not there."""
    SKIPPED = "skipped"
    """It was not run: not chosen, or not reached yet."""

    @property
    def label(self) -> str:
        """How a table shows it where a number would stand."""
        return {"oom": "OOM", "timeout": "timeout"}.get(self.value, self.value)
