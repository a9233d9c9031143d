"""Making an environment (venv and pip, from a lock), and removing it."""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from trainmark import __version__
from trainmark.environment.describing import Inside, look_inside
from trainmark.environment.entry import Build, Entry, Links, Placeholder, Variant, digest_of, lock_of
from trainmark.environment.inspecting import imports_of, inspect, pins_of
from trainmark.environment.interpreter import Interpreter, choose, probe
from trainmark.environment.locations import CREATING, clear, folder_of, guarded, log_of, python_of
from trainmark.environment.lock import canonical, render_lock
from trainmark.environment.pip import Installer
from trainmark.environment.resolving import State, state_of
from trainmark.environment.stamp import Stamp, WheelRecord, read_stamp, write_stamp
from trainmark.errors import InputError, TrainmarkError

Say = Callable[[str], None]
"""Tells the user, in one line, what goes on."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to make: ``wheels`` take the place of pins of the same name; ``index`` is searched beside pip's own.

    A framework that the public index does not have comes from one of the wheels, or from ``index`` alone.
    ``extras`` are the names of those to add.
    """

    entry: Entry
    variant: Variant
    python: Path | None = None
    wheels: tuple[Path, ...] = ()
    index: str | None = None
    extras: tuple[str, ...] = ()


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

    A half-made, moved, outdated or changed one is removed and made anew. It counts as complete only when everything
    is installed, imported and compared with the lock; the stamp is written then. Raises ``InputError`` when no
    Python fits, ``home`` cannot be written, or the framework can be had from a wheel or an index of the user alone;
    ``TrainmarkError`` with pip's last error and its log's path when pip fails.
    """
    entry, folder = request.entry, folder_of(home, request.entry.framework)
    extras = entry.find_extras(request.extras)
    lock_of(entry, request.variant)
    wheels = tuple(_record(path, entry) for path in request.wheels)
    with guarded(home, entry.framework, say) as guard:
        stamp = read_stamp(folder)
        if (
            stamp is not None
            and state_of(entry, home) is State.READY
            and _is_asked_for(stamp, request, wheels)
        ):
            wrong = inspect(entry, folder, stamp).wrong
            if not wrong:
                return Created(folder, python_of(folder), stamp, made=False, beside=_beside(entry, stamp))
            say(f"'{entry.framework}' is there, but not right: {wrong[0]}")
        placeholder = _unsourced(entry, wheels)
        if placeholder is not None and request.index is None:
            raise InputError(_where_else(placeholder))
        for name, extra in extras.items():
            if extra.build is not None:
                _must_have_tools(name, extra.build)
        interpreter = choose(entry, request.python)
        clear(folder)
        installer = Installer(folder, log_of(home, entry.framework), held=(guard,))
        say(
            f"making '{entry.framework}' ({request.variant}) with Python {interpreter.version} in {folder}; "
            f"pip may download much, its words go to {installer.log}"
        )
        try:
            stamp = _make(request, wheels, interpreter, installer, say)
        except OSError as error:
            raise TrainmarkError(f"{error.filename or folder}: {error.strerror or error}") from error
    return Created(folder, python_of(folder), stamp, made=True, beside=_beside(entry, stamp))


def remove(name: str, *, home: Path, say: Say) -> bool:
    """Remove the environment ``name`` and its log; return whether there was one."""
    folder = folder_of(home, name)
    if not (folder.exists() or folder.is_symlink()):
        return False
    with guarded(home, name, say):
        clear(folder)
        log_of(home, name).unlink(missing_ok=True)
    return True


def _is_asked_for(stamp: Stamp, request: Request, wheels: tuple[WheelRecord, ...]) -> bool:
    """Tell whether an environment is what is asked for; more extras than asked for are no reason to make it anew."""
    if stamp.variant != request.variant or not set(request.extras) <= set(stamp.extras):
        return False
    given = {wheel.package: wheel.sha256 for wheel in wheels}
    if placeholder := _unsourced(request.entry, wheels):
        # Where a framework came from before is right, unless another index is asked for now.
        if request.index is not None and _without_credentials(request.index) != stamp.index:
            return False
        name = canonical(placeholder.package)
        if name in stamp.wheel_digests:
            given[name] = stamp.wheel_digests[name]
    if stamp.lock_digest != digest_of(request.entry, request.variant, given, stamp.extras):
        return False
    if request.python is None:
        return True
    found = probe(request.python)
    return found is not None and (str(found.path), found.version) == (stamp.base_python, stamp.python_version)


def _unsourced(entry: Entry, wheels: tuple[WheelRecord, ...]) -> Placeholder | None:
    """Return the placeholder that none of the wheels takes the place of, if the framework has one."""
    placeholder = entry.placeholder
    given = {wheel.package for wheel in wheels}
    return None if placeholder is None or canonical(placeholder.package) in given else placeholder


def _where_else(placeholder: Placeholder) -> str:
    return (
        f"{placeholder.reason}; give a wheel of it by --wheel FILE, or an index that has one by --index URL "
        f"({placeholder.remedy})"
    )


def _must_have_tools(name: str, build: Build) -> None:
    missing = [tool for tool in build.needs if shutil.which(tool) is None]
    if missing:
        raise InputError(
            f"--extra {name} is built from source, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not on the path; install what is missing, "
            "or make the environment without the extra"
        )


def _beside(entry: Entry, stamp: Stamp) -> tuple[str, ...]:
    known = {pin.name for pin in pins_of(entry, stamp)} | {"pip", "setuptools"} | set(stamp.wheel_digests)
    return tuple(sorted(name for name in stamp.packages if name not in known))


def _make(
    request: Request,
    wheels: tuple[WheelRecord, ...],
    interpreter: Interpreter,
    installer: Installer,
    say: Say,
) -> Stamp:
    entry, folder, log = request.entry, installer.folder, installer.log
    folder.mkdir(parents=True)
    (folder / CREATING).touch()
    log.write_bytes(b"")
    installer.make_venv(interpreter)
    files = [path.absolute() for path in request.wheels]
    hint = entry.variants[request.variant].hint
    index = request.index
    placeholder = _unsourced(entry, wheels)
    if placeholder is not None and index is not None:
        fetched = _fetch(placeholder, index, installer)
        files, wheels, index = [*files, fetched], (*wheels, _record(fetched, entry)), None
    lock = lock_of(entry, request.variant).without(wheel.package for wheel in wheels)
    pins = folder / "pins.txt"
    pins.write_text(render_lock(lock.pins, heading=()), encoding="utf-8")
    installer.install(["-r", str(pins), *map(str, files)], index=index, hint=hint)
    shutil.rmtree(_fetched_into(folder), ignore_errors=True)
    if links := entry.variants[request.variant].links:
        _link(links, folder)
    for name, extra in entry.find_extras(request.extras).items():
        if extra.build is None:
            say(f"adding '{name}' to '{entry.framework}'")
            # What the lock pins may not become another version for an extra's sake.
            installer.install(["-c", str(pins), *extra.requirements], index=index, hint="")
            continue
        say(f"building '{name}' for '{entry.framework}' from source; this takes minutes")
        if extra.build.requirements:
            installer.install(extra.build.requirements, index=index, hint=hint)
        installer.build(extra.requirements, options=extra.build.options, env_vars=extra.build.env_vars)
    imports = imports_of(entry, request.extras)
    inside = look_inside(python_of(folder), entry, list(imports), entry.env_vars, timeout_s=600)
    digests = {wheel.package: wheel.sha256 for wheel in wheels}
    stamp = Stamp(
        name=entry.framework,
        variant=request.variant,
        lock_digest=digest_of(entry, request.variant, digests, request.extras),
        wheels=wheels,
        extras=request.extras,
        index=_without_credentials(request.index),
        python_version=interpreter.version,
        base_python=str(interpreter.path),
        location=str(folder.resolve()),
        created=datetime.now(UTC),
        trainmark=__version__,
        packages=dict(sorted((canonical(name), version) for name, version in inside.packages.items())),
    )
    _must_be_right(entry, stamp, inside, log)
    write_stamp(folder, stamp)
    (folder / CREATING).unlink()
    return stamp


def _fetch(placeholder: Placeholder, index: str, installer: Installer) -> Path:
    """Return the wheel of a framework that the user's index has and the public one does not."""
    into = _fetched_into(installer.folder)
    into.mkdir()
    installer.fetch(placeholder.package, index=index, into=into, hint=placeholder.remedy)
    return next(into.glob("*.whl"))


def _link(links: Links, folder: Path) -> None:
    (packages,) = folder.glob("lib/python3*/site-packages")
    into = packages / links.into
    for file in sorted(packages.glob(links.files)):
        (into / file.name).symlink_to(os.path.relpath(file, into))


def _fetched_into(folder: Path) -> Path:
    return folder / "fetched"


def _must_be_right(entry: Entry, stamp: Stamp, inside: Inside, log: Path) -> None:
    for module, reason in inside.failures.items():
        more = f"; {entry.placeholder.remedy}" if entry.placeholder else ""
        raise TrainmarkError(
            f"'{entry.framework}' was installed, but '{module}' does not import: {reason}{more} "
            f"(pip's words: {log})"
        )
    for pin in pins_of(entry, stamp):
        if not pin.accepts(stamp.packages.get(pin.name, "")):
            raise TrainmarkError(
                f"'{entry.framework}': the lock says {pin}, pip installed {stamp.packages.get(pin.name)} "
                f"(its words: {log})"
            )


def _record(path: Path, entry: Entry) -> WheelRecord:
    parts = path.name.removesuffix(".whl").split("-")
    if path.suffix != ".whl" or len(parts) not in (5, 6):
        raise InputError(f"--wheel {path}: not the name of a wheel (name-version-python-abi-platform.whl)")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"--wheel {path}: {error.strerror or error}") from error
    package = canonical(parts[0])
    return WheelRecord(package=entry.stands_for.get(package, package), file=path.name, sha256=digest)


def _without_credentials(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
