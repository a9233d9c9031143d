"""Execution of plans: one runner for all commands, their outcomes, and the result directory."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.execution.directory import (
        ResultDirectory,
        name_on,
        open_results,
        read_record,
        read_suite,
        refuse_foreign,
        require_empty,
        write_record,
    )
    from trainmark.execution.runner import (
        PreparationError,
        Preparer,
        check_expected_files,
        is_shared,
        run_plan,
        start_ahead,
    )
    from trainmark.node import Heartbeat

__all__ = [
    "Heartbeat",
    "PreparationError",
    "Preparer",
    "ResultDirectory",
    "check_expected_files",
    "is_shared",
    "name_on",
    "open_results",
    "read_record",
    "read_suite",
    "refuse_foreign",
    "require_empty",
    "run_plan",
    "start_ahead",
    "write_record",
]

__getattr__ = attach(
    __name__,
    {
        ".directory": (
            "ResultDirectory",
            "name_on",
            "open_results",
            "read_record",
            "read_suite",
            "refuse_foreign",
            "require_empty",
            "write_record",
        ),
        ".runner": (
            "PreparationError",
            "Preparer",
            "check_expected_files",
            "is_shared",
            "run_plan",
            "start_ahead",
        ),
        "trainmark.node": ("Heartbeat",),
    },
)
