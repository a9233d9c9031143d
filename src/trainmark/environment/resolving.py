"""From the name of an environment to the interpreter that a run starts, or the reason why there is none."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from trainmark.environment.entry import Entry, digest_of, find_entry
from trainmark.environment.interpreter import clean_environ
from trainmark.environment.locations import CREATING, STAMP, folder_of, python_of
from trainmark.environment.stamp import Stamp, read_stamp
from trainmark.errors import InputError, TrainmarkError
from trainmark.extensions import carried

SYSTEM = "system"
"""The environment that nothing is installed into: the Python that runs trainmark."""


class UnusableEnvironment(TrainmarkError):  # noqa: N818 (it is a state of the world, not a mistake)
    """The environment is known but cannot be used here; its cases are ``unsupported``, with this reason."""


class EnvironmentKind(StrEnum):
    """How an environment came to be: made by trainmark, the running Python, or one that the user named."""

    VENV = "venv"
    SYSTEM = "system"
    PYTHON = "python"


class State(StrEnum):
    """What is on disk of an environment that trainmark makes."""

    ABSENT = "not created"
    FOREIGN = "not made by trainmark"
    HALF_MADE = "half made"
    MOVED = "moved"
    STALE = "made from another lock"
    MISFIT = "made with a Python that the lock does not fit"
    BROKEN = "its Python is gone"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a framework's programs run.

    ``python`` is the interpreter as it must be started (a venv's link is not followed). ``env_vars`` are to be set
    for every run. ``lock_digest`` says what was installed; None where trainmark installed nothing.
    """

    name: str
    kind: EnvironmentKind
    python: Path
    env_vars: Mapping[str, str] = field(default_factory=dict)
    lock_digest: str | None = None


def resolve(name: str, *, home: Path, python: Path | None = None, catalog: Path | None = None) -> Environment:
    """Return the environment called ``name``, without starting anything in it.

    ``name`` is a framework of the catalogue (its venv under ``home``), ``system`` (the Python that runs trainmark,
    or ``python`` when given), or the path of an interpreter. Raises ``InputError`` for a name that is none of these,
    and ``UnusableEnvironment`` with the reason and the way out when the environment is not ready.
    """
    # A run is started in a folder of its own: extensions named by relative paths would not be found there.
    ours = carried(os.environ)
    if name == SYSTEM or os.sep in name:
        asked = Path(name).expanduser() if name != SYSTEM else python
        if asked is None:
            return Environment(SYSTEM, EnvironmentKind.SYSTEM, Path(sys.executable), ours)
        if not (asked.is_file() and os.access(asked, os.X_OK)):
            raise UnusableEnvironment(f"{asked}: not a Python interpreter that can be started")
        return Environment(name, EnvironmentKind.PYTHON, asked.absolute(), ours)
    if python is not None:
        raise InputError(f"an interpreter can be named for 'system' only: '{name}' has its own")
    entry = find_entry(name, catalog)
    folder = folder_of(home, name)
    state = state_of(entry, home)
    stamp = read_stamp(folder)
    if state is not State.READY or stamp is None:
        raise UnusableEnvironment(reason_for(state, name, folder))
    return Environment(
        name,
        EnvironmentKind.VENV,
        python_of(folder),
        {**entry.variables(stamp.variant), **ours},
        stamp.lock_digest,
    )


def run_environ(environment: Environment, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a program run in ``environment`` is given, starting from ``environ``.

    A venv of ours sees no other venv and no ``PYTHONPATH``, has its own scripts first on the path, and the
    variables that its framework needs are set. Elsewhere ``environ`` stays as it is.
    """
    return {**environ_inside(environment.python, environ), **environment.env_vars}


def environ_inside(python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` as a program of the interpreter ``python`` is to see it; cleaned for venvs that we made."""
    folder = python.parent.parent
    if not ((folder / STAMP).exists() or (folder / CREATING).exists()):
        return dict(environ)
    path = os.pathsep.join([str(python.parent), *([environ["PATH"]] if environ.get("PATH") else [])])
    return {**clean_environ(environ), "VIRTUAL_ENV": str(folder), "PATH": path}


def state_of(entry: Entry, home: Path) -> State:
    """Return the state of a framework's environment under ``home``, from what is on disk; starts no process."""
    folder = folder_of(home, entry.framework)
    if not (folder.exists() or folder.is_symlink()):
        return State.ABSENT
    stamp = read_stamp(folder)
    if stamp is None:
        half_made = (folder / CREATING).exists() or (folder / STAMP).exists()
        return State.HALF_MADE if half_made else State.FOREIGN
    if was_moved(folder, stamp):
        return State.MOVED
    if not python_of(folder).exists():
        return State.BROKEN
    if not entry.fits(stamp.python_version):
        return State.MISFIT
    if stamp.variant not in entry.variants or not entry.extras.keys() >= set(stamp.extras):
        return State.STALE
    if stamp.lock_digest != digest_of(entry, stamp.variant, stamp.wheel_digests, stamp.extras):
        return State.STALE
    return State.READY


def was_moved(folder: Path, stamp: Stamp) -> bool:
    """Tell whether ``folder`` is not where its environment was made (a venv holds absolute paths)."""
    made_at = Path(stamp.location)
    return not (made_at.exists() and made_at.samefile(folder))


def reason_for(state: State, name: str, folder: Path) -> str:
    """Return the line that says why an environment in ``state`` cannot be used, and what to do."""
    remedy = f"trainmark env create {name}"
    return {
        State.ABSENT: f"environment '{name}' is not created yet ({remedy})",
        State.FOREIGN: f"{folder} is not an environment that trainmark made; move it away, then {remedy}",
        State.HALF_MADE: f"environment '{name}' is half made: its creation was interrupted ({remedy} makes it anew)",
        State.MOVED: f"environment '{name}' was moved to {folder}, and a venv works only where it was made ({remedy})",
        State.BROKEN: f"environment '{name}' lost the Python that it was made with ({remedy})",
        State.STALE: f"environment '{name}' was made from another lock than this trainmark's ({remedy})",
        State.MISFIT: f"environment '{name}' was made with a Python that its lock does not fit ({remedy})",
        State.READY: f"environment '{name}' is ready",
    }[state]
