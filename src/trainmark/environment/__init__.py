"""Where frameworks live: environments made from a pinned lock, and the manifest of what a node really holds.

The names are loaded when they are first asked for: a run needs nothing of what makes environments.
"""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.environment.checking import CheckReport, check
    from trainmark.environment.creation import Created, Request, create, remove
    from trainmark.environment.describing import describe, installed
    from trainmark.environment.entry import Entry, Extra, Placeholder, Variant, entries, find_entry
    from trainmark.environment.inspecting import EnvironmentFinding, Inspection, examine, inspect
    from trainmark.environment.listing import Row, overview
    from trainmark.environment.locations import folder_of, log_of
    from trainmark.environment.manifest import (
        differences,
        environment_of,
        fingerprint,
        pooling_differences,
    )
    from trainmark.environment.relock import make_lock
    from trainmark.environment.resolving import (
        SYSTEM,
        Environment,
        EnvironmentKind,
        State,
        UnusableEnvironment,
        resolve,
        run_environ,
        state_of,
    )
    from trainmark.environment.stamp import Stamp, read_stamp
    from trainmark.schema.manifest import FrameworkVersions, Manifest, Node

__all__ = [
    "SYSTEM",
    "CheckReport",
    "Created",
    "Entry",
    "Environment",
    "EnvironmentFinding",
    "EnvironmentKind",
    "Extra",
    "FrameworkVersions",
    "Inspection",
    "Manifest",
    "Node",
    "Placeholder",
    "Request",
    "Row",
    "Stamp",
    "State",
    "UnusableEnvironment",
    "Variant",
    "check",
    "create",
    "describe",
    "differences",
    "entries",
    "environment_of",
    "examine",
    "find_entry",
    "fingerprint",
    "folder_of",
    "inspect",
    "installed",
    "log_of",
    "make_lock",
    "overview",
    "pooling_differences",
    "read_stamp",
    "remove",
    "resolve",
    "run_environ",
    "state_of",
]

__getattr__ = attach(
    __name__,
    {
        ".checking": ("CheckReport", "check"),
        ".creation": ("Created", "Request", "create", "remove"),
        ".describing": ("describe", "installed"),
        ".entry": ("Entry", "Extra", "Placeholder", "Variant", "entries", "find_entry"),
        ".inspecting": ("EnvironmentFinding", "Inspection", "examine", "inspect"),
        ".listing": ("Row", "overview"),
        ".locations": ("folder_of", "log_of"),
        ".manifest": ("differences", "environment_of", "fingerprint", "pooling_differences"),
        ".relock": ("make_lock",),
        ".resolving": (
            "SYSTEM",
            "Environment",
            "EnvironmentKind",
            "State",
            "UnusableEnvironment",
            "resolve",
            "run_environ",
            "state_of",
        ),
        ".stamp": ("Stamp", "read_stamp"),
        "trainmark.schema.manifest": ("FrameworkVersions", "Manifest", "Node"),
    },
)
