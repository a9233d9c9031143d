"""Atomic file writes, restoration of files, and the folders of what trainmark makes and of its extensions.

Every room may import this module.
"""

import errno
import json
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_DEVICES = Path("/dev")
_COPY_BYTES = 1 << 20
_OWNER = stat.S_IRWXU


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write ``content`` to ``path`` so that ``path`` always is either the old file or the complete new one.

    The bytes are written to a temporary file in the same folder, flushed to disk, and renamed to ``path``. Anything
    but a regular file, such as ``/dev/null``, a terminal or a pipe, is written to directly. A symbolic link is
    replaced and not followed, because a folder from another machine may contain some; those in ``/dev`` are followed.
    On failure (a full disk) the temporary file is removed and ``OSError`` is raised, with ``path`` as its file.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and (path.parent == _DEVICES or not (path.is_file() or path.is_symlink())):
        with path.open("wb") as stream:
            stream.write(data)
        return
    # A name per thread, because several processes and threads may write the same file.
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` when the block ends; after an error it is removed.

    Raises ``FileExistsError`` if ``path`` exists and is not an empty folder.
    """
    if path.is_symlink() or (path.exists() and not (path.is_dir() and not any(path.iterdir()))):
        raise FileExistsError(errno.EEXIST, "exists", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        import shutil

        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_run_file(path: Path, content: str | bytes) -> None:
    """Write a file of a run's folder atomically, in the place of a folder or a pipe that a program has put there.

    Every file of a run that is written whole is written here; a run's output and samples grow while it runs. Raises
    ``OSError`` (a full disk, a folder that is read-only); an old file then stays.
    """
    remove_unless_file(path)
    write_atomically(path, content)


def remove_unless_file(path: Path) -> None:
    """Remove a folder, a link, a pipe or a device at ``path``; a regular file stays."""
    if path.is_dir() and not path.is_symlink():
        import shutil

        shutil.rmtree(path)
    elif path.is_symlink() or not path.is_file():
        path.unlink(missing_ok=True)


def restore_folder(folder: Path) -> None:
    """Create a folder again if it was removed or replaced by a file, and make it writable again."""
    if not folder.is_dir():
        folder.unlink(missing_ok=True)
        folder.mkdir(parents=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & _OWNER != _OWNER:
        with suppress(PermissionError):
            folder.chmod(mode | _OWNER)


@contextmanager
def restored(path: Path, file: IO[bytes]) -> Iterator[None]:
    """Restore ``path`` on exit: ``file`` was opened as it, is readable, and outlives its name.

    A full disk ends the restoration, not the run.
    """
    try:
        yield
    finally:
        with suppress(OSError):
            _restore_file(path, file.fileno())


def _restore_file(path: Path, descriptor: int) -> None:
    restore_folder(path.parent)
    with suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), os.fstat(descriptor)):
            return
    remove_unless_file(path)
    with path.open("wb") as copy:
        at = 0
        # The offset of the descriptor belongs to the program as well.
        while data := os.pread(descriptor, _COPY_BYTES, at):
            copy.write(data)
            at += len(data)


def remove_obstacles(folder: Path, ours: Iterable[Path] = ()) -> None:
    """Remove what would block a reader of a run's folder: pipes, devices, links to them, and folders named ``ours``."""
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_file() or entry.is_dir() or (entry.is_symlink() and not Path(entry).exists()):
                continue
            Path(entry).unlink()
    for path in ours:
        if path.is_dir():
            import shutil

            shutil.rmtree(path, ignore_errors=True)


def to_json(value: Any) -> str:
    """Return ``value`` as indented JSON with a newline at its end; non-finite numbers raise ``ValueError``."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def default_home(environ: Mapping[str, str]) -> Path:
    """Return ``$TRAINMARK_HOME``, else ``$XDG_DATA_HOME/trainmark``, else ``~/.local/share/trainmark``."""
    if home := environ.get("TRAINMARK_HOME"):
        return Path(home).expanduser().absolute()
    data = environ.get("XDG_DATA_HOME", "")
    # The XDG specification says that a relative path there is to be ignored.
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return base / "trainmark"


EXTENSIONS = "TRAINMARK_EXTENSIONS"
"""The variable with the folders of extensions, separated as ``PATH`` is.

In each, ``tasks/NAME``, ``frameworks/NAME``, ``worker`` (``backends/NAME``, ``models/NAME_TASK.py``, ``tasks/NAME``,
``gaps.json``, ``cards.yaml``), and the files in ``programs/cards``, ``programs/log_formats`` and ``programs/options``
are found in addition to trainmark's own.
"""


def carried_extensions(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with absolute paths, for a process with another working directory; empty if it is unset."""
    roots = [word for word in environ.get(EXTENSIONS, "").split(os.pathsep) if word]
    return {EXTENSIONS: os.pathsep.join(str(Path(root).resolve()) for root in roots)} if roots else {}


def extension_folders(room: str) -> tuple[Path, ...]:
    """Return the folders of this name (``tasks``, ``frameworks``, …) that extensions have."""
    roots = (Path(word) for word in os.environ.get(EXTENSIONS, "").split(os.pathsep) if word)
    return tuple(folder.resolve() for root in roots if (folder := root / room).is_dir())
