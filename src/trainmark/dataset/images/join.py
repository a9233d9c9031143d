"""Join the pieces of a RecordIO file, removing each joined piece; an interruption can be resumed at any moment."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from trainmark.dataset.images.parts import WrittenPart
from trainmark.dataset.images.spec import Split
from trainmark.files import write_atomically


def join_parts(work: Path, split: Split, parts: Sequence[WrittenPart]) -> list[str]:
    """Join a split's parts in ``work`` to one ``.rec``, ``.idx`` and ``.lst``; return their names in ``work/data``.

    A part is removed after its records are synced to the joined file; that file's length shows a later call where to
    resume. Raises ``OSError``.
    """
    rec, idx, lst = (f"{split}.{end}" for end in ("rec", "idx", "lst"))
    pieces = work / "parts"
    _join_records(work / "data" / rec, pieces, parts)
    index, base = [], 0
    for part in parts:
        for line in (pieces / f"{part.name}.idx").read_text(encoding="ascii").splitlines():
            identity, offset = line.split("\t")
            index.append(f"{identity}\t{int(offset) + base}\n")
        base += part.bytes
    write_atomically(work / "data" / idx, "".join(index))
    listing = b"".join((pieces / f"{part.name}.lst").read_bytes() for part in parts)
    write_atomically(work / "data" / lst, listing)
    return [rec, idx, lst]


def _join_records(target: Path, pieces: Path, parts: Sequence[WrittenPart]) -> None:
    with target.open("ab") as file:
        size, begin = file.tell(), 0
        for part in parts:
            end = begin + part.bytes
            if size < end:
                file.truncate(begin)
                file.seek(begin)
                with (pieces / part.name).open("rb") as piece:
                    shutil.copyfileobj(piece, file, 1 << 20)
                file.flush()
                os.fsync(file.fileno())
                size = end
            (pieces / part.name).unlink(missing_ok=True)
            begin = end
