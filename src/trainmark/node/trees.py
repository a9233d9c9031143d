"""Digests of a folder's files, which identify a program, a data set or a prepare step's output."""

import fnmatch
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.schema.names import SUITE

WHOLE_BYTES = 64 << 20
"""Files up to this size are hashed whole; of a larger one (data, weights) the size and samples are hashed."""

_SAMPLES, _SAMPLE_BYTES = 64, 64 << 10
_NOT_PROGRAM = (
    ".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints",
)  # fmt: skip
"""Folders that tools create, which are not part of a program."""

_OF_RESULTS = (SUITE, ".lock")
"""The files of a result directory of trainmark."""

_Signature = tuple[int, int, int, int]


@dataclass
class Trees:
    """Digests of files; a file with unchanged size, times and inode is not read again."""

    _known: dict[str, tuple[_Signature, str]] = field(default_factory=dict)

    def digests(self, root: Path, ignore: Sequence[str] = ()) -> dict[str, str]:
        """Return the digest of each file below ``root`` by its relative path; of a link to a folder the target is used.

        ``ignore`` are patterns of paths (``out/*``). Caches of tools, virtual environments and trainmark's result
        directories are skipped. A single file has the path ``.``.
        """
        if root.is_file():
            return {".": self._digest(root)}
        return {
            path: self._digest(root / path)
            for path in sorted(_files(root))
            if not any(fnmatch.fnmatchcase(path, pattern) for pattern in ignore)
        }

    def _digest(self, path: Path) -> str:
        if path.is_dir():
            return f"link to {path.readlink()}"
        try:
            found = path.stat()
            signature = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            known = self._known.get(str(path))
            if known is None or known[0] != signature:
                known = self._known[str(path)] = (signature, _content(path, found.st_size))
        except OSError as error:
            return f"unreadable: {error.strerror}"
        return known[1]


def listing(root: Path) -> Mapping[str, str]:
    """Return a folder's number of files, their bytes, and the digest of their names and sizes; reads no file."""
    digest, files, total = hashlib.sha256(), 0, 0
    for path in sorted(_files(root)):
        size = (root / path).stat().st_size
        files, total = files + 1, total + size
        digest.update(f"{size} {path}\n".encode(errors="surrogateescape"))
    return {"files": str(files), "bytes": str(total), "names and sizes": digest.hexdigest()}


def _files(root: Path) -> Iterator[str]:
    for folder, inner, names in os.walk(root):
        links = [name for name in inner if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118
        inner[:] = [name for name in inner if name not in links and _is_program(Path(folder, name))]
        for name in (*names, *links):
            if not name.endswith(".pyc"):
                yield os.path.relpath(os.path.join(folder, name), root)  # noqa: PTH118


def _is_program(folder: Path) -> bool:
    def holds(name: str) -> bool:
        with suppress(PermissionError):
            return (folder / name).exists()
        return False

    if folder.name in _NOT_PROGRAM or holds("pyvenv.cfg"):
        return False
    return not all(holds(name) for name in _OF_RESULTS)


def _content(path: Path, size: int) -> str:
    with path.open("rb") as file:
        if size <= WHOLE_BYTES:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(str(size).encode())
        for sample in range(_SAMPLES):
            file.seek(sample * (size - _SAMPLE_BYTES) // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return f"sampled {digest.hexdigest()}"
