"""Making an environment (venv and pip, from a lock), and removing it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from trainmark import __version__
from trainmark.environment.describing import Inside, look_inside
from trainmark.environment.entry import Entry, Variant, lock_of
from trainmark.environment.interpreter import Interpreter, choose, probe
from trainmark.environment.lock import Lock, canonical, render_lock
from trainmark.environment.pip import Installer
from trainmark.environment.places import CREATING, clear, folder_of, guarded, log_of, python_of
from trainmark.environment.resolving import State, state_of
from trainmark.environment.stamp import Stamp, WheelRecord, read_stamp, write_stamp
from trainmark.errors import InputError, TrainmarkError

Say = Callable[[str], None]
"""Tells the user, in one line, what goes on."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to make: ``wheels`` take the place of pins of the same name; ``index`` is searched beside pip's own."""

    entry: Entry
    variant: Variant
    python: Path | None = None
    wheels: tuple[Path, ...] = ()
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """A complete environment; ``made`` is false when it was already right. ``beside`` are packages not in the lock."""

    folder: Path
    python: Path
    stamp: Stamp
    made: bool
    beside: tuple[str, ...]


def create(request: Request, *, home: Path, say: Say) -> Created:
    """Make the environment that ``request`` asks for under ``home``, unless it is there already and right.

    A half-made, moved or outdated one is removed and made anew. It counts as complete only when everything is
    installed, imported and compared with the lock; the stamp is written then. Raises ``InputError`` when no Python
    fits or ``home`` cannot be written, ``TrainmarkError`` with pip's last error and its log's path when pip fails.
    """
    entry, folder = request.entry, folder_of(home, request.entry.framework)
    lock = lock_of(entry, request.variant)
    wheels = tuple(_record(path) for path in request.wheels)
    digest = lock.digest({wheel.package: wheel.sha256 for wheel in wheels})
    with guarded(home, entry.framework, say) as guard:
        stamp = read_stamp(folder)
        if (
            stamp is not None
            and state_of(entry, home) is State.READY
            and _is_asked_for(stamp, request, digest)
        ):
            return Created(folder, python_of(folder), stamp, made=False, beside=_beside(stamp, lock))
        interpreter = choose(entry, request.python)
        clear(folder)
        installer = Installer(folder, log_of(home, entry.framework), held=(guard,))
        say(
            f"making '{entry.framework}' ({request.variant}) with Python {interpreter.version} in {folder}; "
            f"pip may download much, its words go to {installer.log}"
        )
        pins = lock.without(wheel.package for wheel in wheels)
        try:
            stamp = _make(request, pins, wheels, digest, interpreter, installer)
        except OSError as error:
            raise TrainmarkError(f"{error.filename or folder}: {error.strerror or error}") from error
    return Created(folder, python_of(folder), stamp, made=True, beside=_beside(stamp, lock))


def remove(name: str, *, home: Path, say: Say) -> bool:
    """Remove the environment ``name`` and its log; return whether there was one."""
    folder = folder_of(home, name)
    if not (folder.exists() or folder.is_symlink()):
        return False
    with guarded(home, name, say):
        clear(folder)
        log_of(home, name).unlink(missing_ok=True)
    return True


def _is_asked_for(stamp: Stamp, request: Request, digest: str) -> bool:
    if stamp.variant != request.variant or stamp.lock_digest != digest:
        return False
    if request.python is None:
        return True
    found = probe(request.python)
    return found is not None and (str(found.path), found.version) == (stamp.base_python, stamp.python_version)


def _beside(stamp: Stamp, lock: Lock) -> tuple[str, ...]:
    known = {pin.name for pin in lock.pins} | {"pip", "setuptools"} | set(stamp.wheel_digests)
    return tuple(sorted(name for name in stamp.packages if name not in known))


def _make(
    request: Request,
    lock: Lock,
    wheels: tuple[WheelRecord, ...],
    digest: str,
    interpreter: Interpreter,
    installer: Installer,
) -> Stamp:
    entry, folder, log = request.entry, installer.folder, installer.log
    folder.mkdir(parents=True)
    (folder / CREATING).touch()
    log.write_bytes(b"")
    installer.make_venv(interpreter)
    pins = folder / "pins.txt"
    pins.write_text(render_lock(lock.pins, heading=()), encoding="utf-8")
    given = [str(path.absolute()) for path in request.wheels]
    installer.install(
        ["-r", str(pins), *given], index=request.index, hint=entry.variants[request.variant].hint
    )
    inside = look_inside(python_of(folder), entry, list(entry.imports), entry.env_vars, timeout_s=600)
    _must_be_right(entry, lock, inside, log)
    stamp = Stamp(
        name=entry.framework,
        variant=request.variant,
        lock_digest=digest,
        wheels=wheels,
        index=_without_credentials(request.index),
        python_version=interpreter.version,
        base_python=str(interpreter.path),
        location=str(folder.resolve()),
        created=datetime.now(UTC),
        trainmark=__version__,
        packages=dict(sorted((canonical(name), version) for name, version in inside.packages.items())),
    )
    write_stamp(folder, stamp)
    (folder / CREATING).unlink()
    return stamp


def _must_be_right(entry: Entry, lock: Lock, inside: Inside, log: Path) -> None:
    for module, reason in inside.failures.items():
        raise TrainmarkError(
            f"'{entry.framework}' was installed, but '{module}' does not import: {reason} (pip's words: {log})"
        )
    installed = {canonical(name): version for name, version in inside.packages.items()}
    for pin in lock.pins:
        if not pin.accepts(installed.get(pin.name, "")):
            raise TrainmarkError(
                f"'{entry.framework}': the lock says {pin}, pip installed {installed.get(pin.name)} (its words: {log})"
            )


def _record(path: Path) -> WheelRecord:
    parts = path.name.removesuffix(".whl").split("-")
    if path.suffix != ".whl" or len(parts) not in (5, 6):
        raise InputError(f"--wheel {path}: not the name of a wheel (name-version-python-abi-platform.whl)")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"--wheel {path}: {error.strerror or error}") from error
    return WheelRecord(package=canonical(parts[0]), file=path.name, sha256=digest)


def _without_credentials(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
