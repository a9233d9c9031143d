"""Pre-flight check: compare the hosts with each other and with the suite, and measure their speed."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.check.checking import CheckOptions, Timeouts, check_hosts
    from trainmark.check.rendering import format_report

__all__ = ["CheckOptions", "Timeouts", "check_hosts", "format_report"]

__getattr__ = attach(
    __name__,
    {
        ".checking": ("CheckOptions", "Timeouts", "check_hosts"),
        ".rendering": ("format_report",),
    },
)
