"""The layout of an image folder on disk: pictures, class folders, and ``path label`` list files."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trainmark.errors import InputError

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"))
"""The lower-case suffixes of pictures, those of torchvision's ImageFolder."""

LIST_NAMES = tuple(f"{split}{end}.txt" for split in ("train", "val", "test") for end in ("_list", ""))
"""The names of list files in the folder itself."""

_SPLITS = frozenset(("train", "training", "val", "valid", "validation", "test", "testing", "images", "."))
"""Folders of these names are splits, not classes, if they contain pictures directly."""


def files_in(directory: Path) -> Iterator[str]:
    """Yield every file below ``directory``, relative to it, without hidden files and folders.

    Links to folders are followed, but each folder is visited once, so that cycles end. Raises ``InputError`` if a
    folder cannot be read.
    """
    visited: set[tuple[int, int]] = set()
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            status = (directory / folder).stat()
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(directory / folder) as entries:
                for entry in entries:
                    path = f"{folder}{entry.name}"
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        pending.append(path + "/")
                    else:
                        yield path
        except OSError as error:
            raise InputError(f"{directory / folder}: cannot be read ({error.strerror})") from None


def is_picture(path: str) -> bool:
    """Return whether a file has the suffix of a picture."""
    return os.path.splitext(path)[1].lower() in SUFFIXES  # noqa: PTH122 -- a million Path objects cost seconds


def class_of(path: str) -> str | None:
    """Return the class folder of ``path`` (relative), or None in a flat layout."""
    folder = PurePosixPath(path).parent.name
    return None if folder.lower() in _SPLITS or not folder else folder


def class_in_name(path: str) -> str | None:
    """Return the class in a file's name: ``n01440764`` of ImageNet's ``n01440764_10026.JPEG``."""
    match = re.match(r"(n\d{8})_", PurePosixPath(path).name)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One line of a list file; ``path`` is relative to the data set, ``where`` is ``file:line``."""

    path: str
    label: int
    where: str


@dataclass(frozen=True, slots=True)
class ListFile:
    """The content of a list file: its valid lines, and the number of the invalid ones and the first of them."""

    name: str
    entries: tuple[ListEntry, ...]
    bad_lines: int
    first_bad: str


def find_lists(directory: Path) -> list[Path]:
    """Return the list files with usual names in ``directory``."""
    return [path for path in (directory / name for name in LIST_NAMES) if path.is_file()]


def read_list(directory: Path, file: Path) -> ListFile:
    """Read ``path label`` lines; a path may contain spaces, the label is an integer and comes last.

    Paths are relative to ``directory`` or to the split folder that the file is named after, whichever contains more of
    the first hundred. Raises ``InputError`` if the file cannot be read.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    lines: list[tuple[int, str, int]] = []
    bad: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        words = line.strip().rsplit(None, 1)
        if len(words) == 2 and re.fullmatch(r"\d{1,9}", words[1], re.ASCII):
            lines.append((number, words[0], int(words[1])))
        else:
            bad.append(number)
    base = _base(directory, file, [path for _, path, _ in lines[:100]])
    entries = tuple(
        ListEntry(_relative(directory, f"{base}{path}"), label, f"{file.name}:{number}")
        for number, path, label in lines
    )
    return ListFile(file.name, entries, len(bad), f"{file.name}:{bad[0]}" if bad else "")


def _base(directory: Path, file: Path, sample: Sequence[str]) -> str:
    bases = ("", file.stem.removesuffix("_list") + "/")
    return max(bases, key=lambda base: sum((directory / f"{base}{path}").exists() for path in sample))


def _relative(directory: Path, path: str) -> str:
    if os.path.isabs(path):  # noqa: PTH117 -- see is_picture
        return os.path.relpath(path, directory.absolute())
    return os.path.normpath(path)
