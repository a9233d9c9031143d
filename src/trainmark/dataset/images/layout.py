"""How an image folder lies on the disk: its pictures, its class folders, and its ``path label`` list files."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trainmark.errors import InputError

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"))
"""The suffixes of pictures, in small letters; the same that torchvision's ImageFolder takes."""

LIST_NAMES = tuple(f"{split}{end}.txt" for split in ("train", "val", "test") for end in ("_list", ""))
"""The list files that are looked for in the folder itself."""

_SPLITS = frozenset(("train", "training", "val", "valid", "validation", "test", "testing", "images", "."))
"""Folders of these names hold a split, not a class, when pictures lie directly in them."""


def files_in(directory: Path) -> Iterator[str]:
    """Yield every file below ``directory``, relative to it; not the hidden ones, nor those in hidden folders.

    Links to folders are followed, each folder once, so that a circle of links ends. Raises ``InputError``
    where a folder cannot be read.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            status = (directory / folder).stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(directory / folder) as entries:
                for entry in entries:
                    path = f"{folder}{entry.name}"
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        waiting.append(path + "/")
                    else:
                        yield path
        except OSError as error:
            raise InputError(f"{directory / folder}: cannot be read ({error.strerror})") from None


def is_picture(path: str) -> bool:
    """Return whether a file's name says that it is a picture."""
    return os.path.splitext(path)[1].lower() in SUFFIXES  # noqa: PTH122 -- a million Path objects cost seconds


def class_of(path: str) -> str | None:
    """Return the name of the class folder that ``path`` (relative) lies in, or None in a flat layout."""
    folder = PurePosixPath(path).parent.name
    return None if folder.lower() in _SPLITS or not folder else folder


def class_in_name(path: str) -> str | None:
    """Return the class that a file's own name gives: ``n01440764`` of ImageNet's ``n01440764_10026.JPEG``."""
    match = re.match(r"(n\d{8})_", PurePosixPath(path).name)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a list file; ``path`` is relative to the data set, ``where`` is ``file:line``."""

    path: str
    label: int
    where: str


@dataclass(frozen=True, slots=True)
class ListFile:
    """A list file as read: its usable lines, and of the others how many there are and where the first is."""

    name: str
    entries: tuple[Listed, ...]
    bad_lines: int
    first_bad: str


def find_lists(directory: Path) -> list[Path]:
    """Return the list files that lie in ``directory`` under their usual names."""
    return [path for path in (directory / name for name in LIST_NAMES) if path.is_file()]


def read_list(directory: Path, file: Path) -> ListFile:
    """Read ``path label`` lines; a path may hold blanks, the label is an integer and comes last.

    Paths are relative to ``directory``, or to its folder of the split that the file is named for, whichever
    holds more of the first hundred. Raises ``InputError`` if the file cannot be read.
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
        Listed(_relative(directory, f"{base}{path}"), label, f"{file.name}:{number}")
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
