"""An independent count of the images of a data set: it shares no code with the loaders that it is compared with."""

import os
import time
from pathlib import Path
from zlib import crc32

SUFFIXES = (".jpg", ".jpeg")

PATIENCE_S = 5.0
"""The time that a count may take; a data set on a slow file system is not counted."""


def count_images(source: str) -> int | None:
    """Return the JPEGs in the class folders of ``source``, or the lines of a list file; None if it is another form."""
    if Path(source).is_file():
        return _count_lines(source)
    give_up = time.monotonic() + PATIENCE_S
    count = 0
    for folder, folders, files in os.walk(source):
        if folder == source:
            folders[:] = [name for name in folders if name[:1] != "."]
            continue
        folders.clear()
        count += sum(name.lower().rpartition(".")[2] in ("jpg", "jpeg") for name in files)
        if time.monotonic() > give_up:
            return None
    return count or None


def list_numbers(source: str) -> list[int] | None:
    """Return the numbers that the loaders record, in the order of the list of images; None if it takes too long.

    A loader records the CRC32 of an image's path.
    """
    give_up = time.monotonic() + PATIENCE_S
    paths: list[str] = []
    try:
        if Path(source).is_file():
            lines = Path(source).read_text(encoding="utf-8").splitlines()
            names = [line.strip().rpartition(" ")[0].strip() for line in lines if line.strip()]
            paths = [str(Path(source).parent / name) for name in names]
        else:
            for folder in sorted(Path(source).iterdir()):
                if folder.is_dir() and not folder.name.startswith("."):
                    paths += sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
                if time.monotonic() > give_up:
                    return None
    except (OSError, UnicodeDecodeError):
        return None
    return [crc32(path.encode()) for path in paths]


def _count_lines(source: str) -> int | None:
    try:
        with Path(source).open(encoding="utf-8") as lines:
            return sum(bool(line.strip()) for line in lines)
    except (OSError, UnicodeDecodeError):
        return None
