"""Create a data set of few files in a locked work folder, and move it into place when it is complete."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainmark.dataset.manifest import SUMS_NAME, format_sums, sha256, sha256_of_file
from trainmark.dataset.resume_state import WORK_NAME
from trainmark.dataset.work import ProgressCounter, exclusive_folder, write_error
from trainmark.files import write_atomically
from trainmark.schema.frozen import Frozen


@contextmanager
def staged_creation(directory: Path, spec: Frozen, spec_name: str, done: ProgressCounter) -> Iterator[Path]:
    """Yield the work folder, which contains the spec; remove it after the block has published the data set.

    Raises ``TrainmarkError`` if another process creates the data set, or if writing fails.
    """
    work = directory / WORK_NAME
    try:
        with exclusive_folder(work, f"{directory}: another process is making this data set"):
            write_atomically(work / spec_name, spec.model_dump_json())
            yield work
            for entry in work.iterdir():
                entry.unlink()
        work.rmdir()
    except OSError as error:
        raise write_error(error, directory, done) from None


def publish_files(work: Path, directory: Path, names: Iterable[str]) -> str:
    """Move the remaining files into place and write ``SHA256SUMS``; return the checksum of that file."""
    sums = {}
    for name in names:
        if (work / name).is_file():
            (work / name).replace(directory / name)
        sums[name] = sha256_of_file(directory / name)
    text = format_sums(sums)
    write_atomically(directory / SUMS_NAME, text)
    return sha256(text.encode())
