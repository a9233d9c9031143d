"""Python environments created from pinned locks, and the manifest of a node's actual hardware and software.

Names are imported lazily: a run does not load the code that creates environments.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.environment.checking import EnvironmentReport, check
    from trainmark.environment.creation import CreatedEnvironment, CreationRequest, create, make_lock, remove
    from trainmark.environment.entry import FrameworkEntry, Variant, entries, find_entry
    from trainmark.environment.listing import EnvironmentRow, overview
    from trainmark.environment.locations import Stamp, folder_of
    from trainmark.environment.resolving import (
        SYSTEM,
        Environment,
        EnvironmentKind,
        EnvironmentState,
        UnusableEnvironment,
        describe,
        installed_packages,
        resolve,
        state_of,
    )


__all__ = [
    "SYSTEM",
    "CreatedEnvironment",
    "CreationRequest",
    "Environment",
    "EnvironmentKind",
    "EnvironmentReport",
    "EnvironmentRow",
    "EnvironmentState",
    "FrameworkEntry",
    "Stamp",
    "UnusableEnvironment",
    "Variant",
    "check",
    "create",
    "describe",
    "entries",
    "find_entry",
    "folder_of",
    "installed_packages",
    "make_lock",
    "overview",
    "remove",
    "resolve",
    "state_of",
]

__getattr__ = attach(
    __name__,
    {
        ".checking": (
            "EnvironmentReport",
            "check",
        ),
        ".creation": ("CreatedEnvironment", "CreationRequest", "create", "make_lock", "remove"),
        ".entry": ("FrameworkEntry", "Variant", "entries", "find_entry"),
        ".listing": ("EnvironmentRow", "overview"),
        ".locations": ("Stamp", "folder_of"),
        ".resolving": (
            "SYSTEM",
            "Environment",
            "EnvironmentKind",
            "EnvironmentState",
            "UnusableEnvironment",
            "describe",
            "installed_packages",
            "resolve",
            "state_of",
        ),
    },
)
