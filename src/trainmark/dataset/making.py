"""Making a data set of few files: in a folder of its own, held against others, until all is moved into place."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainmark.dataset.manifest import SUMS_NAME, format_sums, sha256, sha256_of_file
from trainmark.dataset.resume_state import WORK_NAME
from trainmark.dataset.work import Counter, cannot_write, held
from trainmark.files import write_atomically
from trainmark.schema.frozen import Frozen


@contextmanager
def making(directory: Path, spec: Frozen, spec_name: str, done: Counter) -> Iterator[Path]:
    """Give the folder to make a data set in, which holds its spec; it is gone after what declares the set finished.

    Raises ``TrainmarkError`` when another process makes the set, or when it cannot be written.
    """
    work = directory / WORK_NAME
    try:
        with held(work, f"{directory}: another process is making this data set"):
            write_atomically(work / spec_name, spec.model_dump_json())
            yield work
            for entry in work.iterdir():
                entry.unlink()
        work.rmdir()
    except OSError as error:
        raise cannot_write(error, directory, done) from None


def move_into_place(work: Path, directory: Path, names: Iterable[str]) -> str:
    """Move the files that an earlier call has not moved, write the checksums of all, and return that of these."""
    sums = {}
    for name in names:
        if (work / name).is_file():
            (work / name).replace(directory / name)
        sums[name] = sha256_of_file(directory / name)
    text = format_sums(sums)
    write_atomically(directory / SUMS_NAME, text)
    return sha256(text.encode())
