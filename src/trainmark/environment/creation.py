"""Creation of environments from locks by venv and pip, and of locks from requirements."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from trainmark.environment.checking import imports_of, inspect, pins_of
from trainmark.environment.entry import Build, FrameworkEntry, Links, Placeholder, Variant, digest_of, lock_of
from trainmark.environment.interpreter import Interpreter, choose, clean_environ, probe
from trainmark.environment.locations import (
    CREATING,
    Stamp,
    WheelRecord,
    clear,
    creation_lock,
    folder_of,
    log_of,
    python_of,
    read_stamp,
    write_stamp,
)
from trainmark.environment.lock import Pin, canonical, render_lock
from trainmark.environment.resolving import EnvironmentContents, EnvironmentState, read_contents, state_of
from trainmark.errors import InputError, TrainmarkError
from trainmark.version import __version__

Notify = Callable[[str], None]
"""Prints one progress line to the user."""

_WORD_EVERY_S = 30.0
"""Seconds between two progress lines of a program that runs for long."""

_LONGEST_LINE = 100
_TAIL_BYTES = 4096


def _print_nothing(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Installer:
    """Runs venv and pip on the venv in ``folder``. Its processes inherit ``inherited_fds`` (the creation lock).

    ``log_retained`` is true if the log remains afterwards, so that an error message may name it. ``notify`` gets the
    progress of a program that runs for long.
    """

    folder: Path
    log: Path
    inherited_fds: tuple[int, ...] = ()
    log_retained: bool = True
    notify: Notify = _print_nothing

    def make_venv(self, interpreter: Interpreter) -> None:
        """Create the venv; raise ``TrainmarkError`` if that fails."""
        self._run([os.fspath(interpreter.path), "-I", "-m", "venv", os.fspath(self.folder)], "venv", "")

    def install(self, arguments: Iterable[str], *, index: str | None, hint: str) -> None:
        """Run ``pip install`` with ``arguments``, wheels only; ``index`` is searched besides pip's own.

        Raises ``TrainmarkError`` with pip's last error, and with ``hint`` if a package was not found.
        """
        extra = ["--extra-index-url", index] if index else []
        self._run(self._pip("install", "--only-binary", ":all:", *extra, *arguments), "pip", hint)

    def fetch(self, package: str, *, index: str, into: Path, hint: str) -> None:
        """Download the newest wheel of ``package`` from ``index`` only, without its dependencies.

        ``index`` is a package index, or a page or folder with wheels; pip tries both interpretations. Raises the same
        errors as ``install``.
        """
        only = ["--only-binary", ":all:", "--no-deps", "--index-url", index, "--find-links", index]
        self._run(self._pip("download", *only, "--dest", os.fspath(into), package), "pip", hint)

    def build(
        self, requirements: Iterable[str], *, options: Iterable[str], env_vars: Mapping[str, str]
    ) -> None:
        """Compile ``requirements`` from source with ``pip install``, with the venv's programs first on PATH.

        Raises ``TrainmarkError`` with pip's last error.
        """
        own = os.fspath(python_of(self.folder).parent)
        environ = {"PATH": os.pathsep.join([own, os.environ.get("PATH", os.defpath)]), **env_vars}
        # One at a time and by name, so that pip builds no other package from source.
        for requirement in requirements:
            name = requirement.partition("=")[0]
            command = self._pip("install", "--no-binary", name, *options, requirement)
            self._run(command, f"building {requirement}", "", environ)

    def _pip(self, verb: str, *arguments: str) -> list[str]:
        pip = ["-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color", verb]
        return [os.fspath(python_of(self.folder)), *pip, "--progress-bar", "off", *arguments]

    def _run(
        self, command: list[str], tool: str, hint: str, env_vars: Mapping[str, str] | None = None
    ) -> None:
        start = self.log.stat().st_size if self.log.exists() else 0
        environ = {**clean_environ(os.environ), **(env_vars or {})}
        with (
            self.log.open("ab") as output,
            subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=self.inherited_fds,
            ) as process,
        ):
            try:
                code = self._wait(process, tool)
            except BaseException:
                process.kill()
                raise
        if code == 0:
            return
        error = unreachable_index(self.log, start) or last_error(self.log, code)
        where = f"; the whole output: {self.log}" if self.log_retained else ""
        more = f"; {hint}" if hint and "distribution" in error else ""
        raise TrainmarkError(f"{tool} failed: {error}{more}{where}")

    def _wait(self, process: "subprocess.Popen[bytes]", tool: str) -> int:
        """Return the exit code of a process; print the last line of its output from time to time."""
        started = time.monotonic()
        while True:
            try:
                return process.wait(_WORD_EVERY_S)
            except subprocess.TimeoutExpired:
                self.notify(f"{tool}, {time.monotonic() - started:.0f} s: {last_line(self.log)}")


_LAST_RETRY = re.compile(r"Retry\(total=0\b.*?after connection broken by '(.*?)'\s*: ", re.DOTALL)
_CAUSE = re.compile(r"(?:\[Errno -?\d+\] |: )([A-Z][^\[\]:'\")(]{5,80})['\")]*$")


def unreachable_index(log: Path, start: int) -> str | None:
    """Return a sentence if pip's output from byte ``start`` on shows that no package index was reached; else None.

    pip reports a package that it could not look for as one that does not exist.
    """
    with log.open("rb") as file:
        file.seek(start)
        text = file.read().decode("utf-8", errors="replace")
    found = _LAST_RETRY.search(text)
    if found is None:
        return None
    cause = _CAUSE.search(found[1].strip())
    why = f" ({cause[1].strip()})" if cause else ""
    return (
        f"the package index cannot be reached{why}: check the network and the proxy, and the index in pip's "
        "configuration (pip config list)"
    )


def last_line(log: Path) -> str:
    """Return the last line of a log that has text, cut to ``_LONGEST_LINE`` letters."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = [line.strip() for line in file.read().decode("utf-8", errors="replace").splitlines()]
    return next((line[:_LONGEST_LINE] for line in reversed(lines) if line), "no output yet")


def last_error(log: Path, code: int) -> str:
    """Return pip's last error line from its log; without one, the last line; without any, the exit code."""
    lines = [
        line.strip()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [f"exit code {code}"])[-1]


@dataclass(frozen=True, slots=True)
class CreationRequest:
    """An environment to create: ``wheels`` replace pins of the same name; ``index`` is searched besides pip's own.

    A framework missing from the public index comes from one of the wheels, or from ``index`` alone.
    ``extras`` are the names of the extras to add.
    """

    entry: FrameworkEntry
    variant: Variant
    python: Path | None = None
    wheels: tuple[Path, ...] = ()
    index: str | None = None
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatedEnvironment:
    """A complete environment; ``made`` is false if it already existed and matched.

    ``unlocked_packages`` are installed packages that the lock does not contain.
    """

    folder: Path
    python: Path
    stamp: Stamp
    made: bool
    unlocked_packages: tuple[str, ...]


def create(request: CreationRequest, *, home: Path, notify: Notify) -> CreatedEnvironment:
    """Create the requested environment under ``home``, unless it already exists and matches.

    An incomplete, moved, outdated or modified environment is removed and recreated. The stamp that marks it as complete
    is written after everything was installed, imported and compared with the lock. Raises ``InputError`` if no Python
    fits, ``home`` is not writable, or the framework needs a wheel or an index from the user; ``TrainmarkError`` with
    pip's last error and its log's path if pip fails.
    """
    entry, folder = request.entry, folder_of(home, request.entry.framework)
    extras = entry.find_extras(request.extras)
    lock_of(entry, request.variant)
    wheels = tuple(_record(path, entry) for path in request.wheels)
    with creation_lock(home, entry.framework, notify) as guard:
        stamp = read_stamp(folder)
        if (
            stamp is not None
            and state_of(entry, home) is EnvironmentState.READY
            and _matches_request(stamp, request, wheels)
        ):
            problems = inspect(entry, folder, stamp).problems
            if not problems:
                return _result(entry, folder, stamp, made=False)
            notify(f"'{entry.framework}' exists but is damaged: {problems[0]}")
        placeholder = _unmet_placeholder(entry, wheels)
        if placeholder is not None and request.index is None:
            raise InputError(_missing_source_message(placeholder))
        for name, extra in extras.items():
            if extra.build is not None:
                _require_tools(name, extra.build)
        interpreter = choose(entry, request.python)
        clear(folder)
        _require_space(request, folder)
        log = log_of(home, entry.framework)
        installer = Installer(folder, log, inherited_fds=(guard,), notify=notify)
        notify(
            f"creating '{entry.framework}' ({request.variant}) with Python {interpreter.version} in {folder}"
            f"{_size(request)}; pip's output goes to {installer.log}"
        )
        try:
            stamp = _make(request, wheels, interpreter, installer, notify)
        except OSError as error:
            raise TrainmarkError(f"{error.filename or folder}: {error.strerror or error}") from error
    return _result(entry, folder, stamp, made=True)


def _size(request: CreationRequest) -> str:
    """Return what the environment takes on the disk, as the end of a sentence; empty if unknown."""
    needed = request.entry.variants[request.variant].disk_mb
    return "" if needed is None else f", which takes {needed / 1000:.1f} GB"


def _require_space(request: CreationRequest, folder: Path) -> None:
    """Raise ``TrainmarkError`` if the disk has less free space than the environment takes."""
    needed = request.entry.variants[request.variant].disk_mb
    there = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(there).free / 1e6
    if needed is not None and free < needed:
        raise TrainmarkError(
            f"{folder}: '{request.entry.framework}' ({request.variant}) takes {needed / 1000:.1f} GB, but only "
            f"{free / 1000:.1f} GB are free there; free some space, or choose another folder with --root or "
            "TRAINMARK_HOME"
        )


def remove(name: str, *, home: Path, notify: Notify) -> bool:
    """Remove the environment ``name`` and its log; return whether there was one."""
    folder = folder_of(home, name)
    if not (folder.exists() or folder.is_symlink()):
        return False
    with creation_lock(home, name, notify):
        clear(folder)
        log_of(home, name).unlink(missing_ok=True)
    return True


def _matches_request(stamp: Stamp, request: CreationRequest, wheels: tuple[WheelRecord, ...]) -> bool:
    """Return whether an environment satisfies the request; additional extras do not force a new one."""
    if stamp.variant != request.variant or not set(request.extras) <= set(stamp.extras):
        return False
    given = {wheel.package: wheel.sha256 for wheel in wheels}
    if placeholder := _unmet_placeholder(request.entry, wheels):
        # The earlier source of the framework is fine, unless the request names another index.
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


def _unmet_placeholder(entry: FrameworkEntry, wheels: tuple[WheelRecord, ...]) -> Placeholder | None:
    """Return the framework's placeholder if no wheel replaces it."""
    placeholder = entry.placeholder
    given = {wheel.package for wheel in wheels}
    return None if placeholder is None or canonical(placeholder.package) in given else placeholder


def _missing_source_message(placeholder: Placeholder) -> str:
    return (
        f"{placeholder.reason}; pass a wheel with --wheel FILE, or an index that has one with --index URL "
        f"({placeholder.remedy})"
    )


def _require_tools(name: str, build: Build) -> None:
    missing = [tool for tool in build.needs if shutil.which(tool) is None]
    if missing:
        raise InputError(
            f"--extra {name} is built from source, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not on PATH; install the missing programs, "
            "or create the environment without the extra"
        )


def _result(entry: FrameworkEntry, folder: Path, stamp: Stamp, *, made: bool) -> CreatedEnvironment:
    known = {pin.name for pin in pins_of(entry, stamp)} | {"pip", "setuptools"} | set(stamp.wheel_digests)
    unlocked = tuple(sorted(name for name in stamp.packages if name not in known))
    return CreatedEnvironment(folder, python_of(folder), stamp, made, unlocked)


def _make(
    request: CreationRequest,
    wheels: tuple[WheelRecord, ...],
    interpreter: Interpreter,
    installer: Installer,
    notify: Notify,
) -> Stamp:
    entry, folder, log = request.entry, installer.folder, installer.log
    folder.mkdir(parents=True)
    (folder / CREATING).touch()
    log.write_bytes(b"")
    installer.make_venv(interpreter)
    files = [path.absolute() for path in request.wheels]
    hint = entry.variants[request.variant].hint
    index = request.index
    placeholder = _unmet_placeholder(entry, wheels)
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
            notify(f"adding '{name}' to '{entry.framework}'")
            # Constrain pip to the lock: an extra must not change a pinned version.
            installer.install(["-c", str(pins), *extra.requirements], index=index, hint="")
            continue
        notify(f"building '{name}' for '{entry.framework}' from source; this takes minutes")
        if extra.build.requirements:
            installer.install(extra.build.requirements, index=index, hint=hint)
        installer.build(extra.requirements, options=extra.build.options, env_vars=extra.build.env_vars)
    imports = imports_of(entry, request.extras)
    contents = read_contents(python_of(folder), entry, list(imports), entry.env_vars, timeout_s=600)
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
        packages=dict(sorted((canonical(name), version) for name, version in contents.packages.items())),
    )
    _require_match(entry, stamp, contents, log)
    write_stamp(folder, stamp)
    (folder / CREATING).unlink()
    return stamp


def _fetch(placeholder: Placeholder, index: str, installer: Installer) -> Path:
    """Download the framework's wheel from the user's index, because the public index lacks it; return its path."""
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


def _require_match(entry: FrameworkEntry, stamp: Stamp, contents: EnvironmentContents, log: Path) -> None:
    for module, reason in contents.failures.items():
        more = f"; {entry.placeholder.remedy}" if entry.placeholder else ""
        raise TrainmarkError(
            f"'{entry.framework}' was installed, but '{module}' does not import: {reason}{more} "
            f"(pip's output: {log})"
        )
    for pin in pins_of(entry, stamp):
        if not pin.accepts(stamp.packages.get(pin.name, "")):
            raise TrainmarkError(
                f"'{entry.framework}': the lock pins {pin}, but pip installed {stamp.packages.get(pin.name)} "
                f"(pip's output: {log})"
            )


def _record(path: Path, entry: FrameworkEntry) -> WheelRecord:
    parts = path.name.removesuffix(".whl").split("-")
    if path.suffix != ".whl" or len(parts) not in (5, 6):
        raise InputError(f"--wheel {path}: not a wheel file name (name-version-python-abi-platform.whl)")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"--wheel {path}: {error.strerror or error}") from error
    package = canonical(parts[0])
    return WheelRecord(package=entry.pin_aliases.get(package, package), file=path.name, sha256=digest)


def _without_credentials(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def make_lock(request: CreationRequest, *, notify: Callable[[str], None]) -> str:
    """Resolve a variant's requirements with pip, install nothing, and return the text of a new lock.

    Pins omit a local version (``+cpu``), so that the lock works on an index without it. Raises ``InputError`` for a
    variant that the framework lacks, ``TrainmarkError`` if pip finds no solution.
    """
    entry, variant = request.entry, request.variant
    if variant not in entry.variants:
        raise InputError(
            f"'{entry.framework}' has no variant '{variant}' (it has: {', '.join(entry.variants)})"
        )
    wanted = entry.variants[variant]
    interpreter = choose(entry, request.python)
    notify(
        f"resolving '{entry.framework}' ({variant}) with Python {interpreter.version}; nothing is installed"
    )
    with tempfile.TemporaryDirectory(prefix="trainmark-lock-") as scratch:
        report = Path(scratch) / "report.json"
        installer = Installer(
            Path(scratch) / "venv", Path(scratch) / "log", log_retained=False, notify=notify
        )
        installer.make_venv(interpreter)
        dry = ["--dry-run", "--ignore-installed", "--report", str(report)]
        installer.install([*dry, *wanted.requirements], index=request.index, hint=wanted.hint)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    exact = {canonical(line.partition("===")[0]) for line in wanted.requirements if "===" in line}
    pins = []
    for item in found:
        name, version = canonical(item["metadata"]["name"]), item["metadata"]["version"].partition("+")[0]
        pins.append(Pin(name, version, "===" if name in exact else "=="))
    where = f"Python {'.'.join(interpreter.version.split('.')[:2])}, {platform.system()} {platform.machine()}"
    heading = [
        f"{entry.framework}, variant {variant}: every required package at one version.",
        f"Resolved by `trainmark env lock {entry.framework} --variant {variant}` on {where}.",
    ]
    if entry.placeholder is not None:
        heading.append(f"Without '{entry.placeholder.package}' itself: {entry.placeholder.reason}.")
    return render_lock(pins, heading=heading)
