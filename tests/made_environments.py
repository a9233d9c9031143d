"""Environments that hold nothing, for tests of where one lies: a real venv, with the stamp of one that is complete."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from venv import EnvBuilder

from trainmark.environment import EnvironmentState, Stamp, Variant, find_entry, folder_of, state_of
from trainmark.environment.entry import digest_of
from trainmark.environment.locations import write_stamp


def make_empty_environment(home: Path, framework: str) -> Path:
    """Make the venv of a framework under ``home``, complete by its stamp; return its folder."""
    entry, folder = find_entry(framework), folder_of(home, framework)
    EnvBuilder(symlinks=True).create(folder)
    stamp = Stamp(
        name=framework,
        variant=Variant.CPU,
        lock_digest=digest_of(entry, Variant.CPU, {}, ()),
        python_version=f"{entry.python[0]}.0",
        base_python=sys.executable,
        location=str(folder),
        created=datetime.now(UTC),
        trainmark="0",
        packages={},
    )
    write_stamp(folder, stamp)
    assert state_of(entry, home) is EnvironmentState.READY
    return folder
