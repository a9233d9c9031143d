"""Python environments created from pinned locks, and the manifest of a node's actual hardware and software.

Names are imported lazily: a run does not load the code that creates environments.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.environment.checking import (
        EnvironmentFinding,
        EnvironmentReport,
        Inspection,
        check,
        inspect,
        verify_environment,
    )
    from trainmark.environment.creation import CreatedEnvironment, CreationRequest, create, make_lock, remove
    from trainmark.environment.entry import Extra, FrameworkEntry, Placeholder, Variant, entries, find_entry
    from trainmark.environment.listing import EnvironmentRow, overview
    from trainmark.environment.locations import Stamp, folder_of, log_of, read_stamp
    from trainmark.environment.resolving import (
        SYSTEM,
        Environment,
        EnvironmentKind,
        EnvironmentState,
        UnusableEnvironment,
        describe,
        installed_packages,
        resolve,
        run_environ,
        state_of,
    )
    from trainmark.schema.manifest import FrameworkVersions, Manifest, Node

__all__ = [
    "SYSTEM",
    "CreatedEnvironment",
    "CreationRequest",
    "Environment",
    "EnvironmentFinding",
    "EnvironmentKind",
    "EnvironmentReport",
    "EnvironmentRow",
    "EnvironmentState",
    "Extra",
    "FrameworkEntry",
    "FrameworkVersions",
    "Inspection",
    "Manifest",
    "Node",
    "Placeholder",
    "Stamp",
    "UnusableEnvironment",
    "Variant",
    "check",
    "create",
    "describe",
    "entries",
    "find_entry",
    "folder_of",
    "inspect",
    "installed_packages",
    "log_of",
    "make_lock",
    "overview",
    "read_stamp",
    "remove",
    "resolve",
    "run_environ",
    "state_of",
    "verify_environment",
]

__getattr__ = attach(
    __name__,
    {
        ".checking": (
            "EnvironmentFinding",
            "EnvironmentReport",
            "Inspection",
            "check",
            "inspect",
            "verify_environment",
        ),
        ".creation": ("CreatedEnvironment", "CreationRequest", "create", "make_lock", "remove"),
        ".entry": ("Extra", "FrameworkEntry", "Placeholder", "Variant", "entries", "find_entry"),
        ".listing": ("EnvironmentRow", "overview"),
        ".locations": ("Stamp", "folder_of", "log_of", "read_stamp"),
        ".resolving": (
            "SYSTEM",
            "Environment",
            "EnvironmentKind",
            "EnvironmentState",
            "UnusableEnvironment",
            "describe",
            "installed_packages",
            "resolve",
            "run_environ",
            "state_of",
        ),
        "trainmark.schema.manifest": ("FrameworkVersions", "Manifest", "Node"),
    },
)
