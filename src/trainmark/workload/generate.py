"""Generators of stand-ins for data; runs as a script and imports only the stdlib.

    python generate.py tokens|text|images PATH COUNT VOCABULARY|PIXELS

The data are random and the same each time.
"""

import array
import random
import struct
import sys
import zlib
from pathlib import Path

_CHUNK = 1 << 20
_CLASSES = 10
IMAGE_LIST = "list.txt"
"""The file with the path and the class of each picture."""


def write_tokens(path: Path, count: int, vocabulary: int) -> None:
    """Write ``count`` token numbers below ``vocabulary`` as unsigned integers of 16 bits."""
    source = random.Random(0)  # noqa: S311 - data that stand in for real ones
    with path.open("wb") as file:
        for start in range(0, count, _CHUNK):
            numbers = source.choices(range(vocabulary), k=min(_CHUNK, count - start))
            tokens = array.array("H", numbers)
            if sys.byteorder == "big":
                tokens.byteswap()
            tokens.tofile(file)


def write_text(path: Path, count: int, vocabulary: int) -> None:
    """Write ``count`` words, at most ``vocabulary`` different ones, 12 a line."""
    source = random.Random(0)  # noqa: S311 - data that stand in for real ones
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(source.choices(letters, k=source.randint(2, 9))) for _ in range(vocabulary)]
    with path.open("w", encoding="ascii") as file:
        for start in range(0, count, 12):
            file.write(" ".join(source.choices(words, k=min(12, count - start))) + "\n")


def write_images(path: Path, count: int, pixels: int) -> None:
    """Write ``count`` square PNG files of ``pixels`` pixels a side into ``class0`` to ``class9``.

    A line of ``list.txt`` has the path and the class of one of them: ``class3/000013.png 3``.
    """
    source = random.Random(0)  # noqa: S311 - data that stand in for real ones
    names = [f"class{number % _CLASSES}/{number:06}.png" for number in range(count)]
    for name in names:
        folder = (path / name).parent
        folder.mkdir(parents=True, exist_ok=True)
        rows = b"".join(b"\0" + source.randbytes(3 * pixels) for _ in range(pixels))
        header = struct.pack(">IIBBBBB", pixels, pixels, 8, 2, 0, 0, 0)
        parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
        png = b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in parts)
        (path / name).write_bytes(png)
    lines = (f"{name} {number % _CLASSES}\n" for number, name in enumerate(names))
    (path / IMAGE_LIST).write_text("".join(lines), encoding="ascii")


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_GENERATORS = {"tokens": write_tokens, "text": write_text, "images": write_images}


if __name__ == "__main__":
    _GENERATORS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
