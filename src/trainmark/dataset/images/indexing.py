"""Create the index files of TFRecord shards and RecordIO files that another program wrote."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmark.dataset import tfrecord
from trainmark.dataset.images import recordio
from trainmark.dataset.images.converted import read_converted
from trainmark.dataset.images.shards import INDEX_FOLDER, find_records, find_shards, recognise
from trainmark.dataset.processes import ProgressListener, map_in_processes
from trainmark.errors import InputError, TrainmarkError
from trainmark.files import write_atomically
from trainmark.tasks.image_classification.axes import Form


@dataclass(frozen=True, slots=True)
class Indexed:
    """The index files that were written, relative to ``directory``, and their total number of records."""

    directory: Path
    form: Form
    files: tuple[str, ...]
    records: int


def index(directory: Path, *, jobs: int = 1, progress: ProgressListener | None = None) -> Indexed:
    """Write an index for each TFRecord shard (``idx/NAME.idx``) or RecordIO file (``NAME.idx``) in ``directory``.

    TFRecord indexes have DALI's format. Every record is read and checked. ``progress`` counts files.

    Raises ``InputError`` if there is nothing to index, a record is broken, or trainmark converted the data set (which
    then has an index); ``TrainmarkError`` if an index cannot be written.
    """
    form = recognise(directory)
    if form is Form.IMAGE_FOLDER:
        raise InputError(f"{directory}: holds no TFRecord shards and no RecordIO file to index")
    if read_converted(directory):
        raise InputError(
            f"{directory}: was converted by trainmark and has an index; 'trainmark data verify' checks it"
        )
    make: Callable[[str], tuple[str, int]]
    if form is Form.TFRECORD:
        names: Sequence[str] = [shard.name for shard in find_shards(directory)]
        make = partial(_index_shard, directory)
    else:
        names, make = find_records(directory), partial(_index_records, directory)
    made: list[tuple[str, int]] = []
    try:
        with closing(map_in_processes(make, names, jobs)) as results:
            for result in results:
                made.append(result)
                if progress:
                    progress(len(made), len(names))
    except OSError as error:
        raise TrainmarkError(f"{error.filename or directory}: {error.strerror}") from None
    return Indexed(directory, form, tuple(sorted(file for file, _ in made)), sum(count for _, count in made))


def _index_shard(directory: Path, name: str) -> tuple[str, int]:
    path = directory / name
    lines: list[str] = []
    with path.open("rb") as file:
        for record in tfrecord.read_records(file, path.stat().st_size):
            if record.broken:
                raise _broken(path, len(lines), record.offset, record.broken)
            lines.append(tfrecord.index_line(record.offset, record.size))
    target = directory / INDEX_FOLDER / f"{name}.idx"
    target.parent.mkdir(exist_ok=True)
    write_atomically(target, "".join(lines))
    return f"{INDEX_FOLDER}/{target.name}", len(lines)


def _index_records(directory: Path, name: str) -> tuple[str, int]:
    path = directory / name
    lines: list[str] = []
    with path.open("rb") as file:
        for record in recordio.read_records(file, path.stat().st_size):
            if record.broken:
                raise _broken(path, len(lines), record.offset, record.broken)
            try:
                identity = recordio.unpack(record.data).identity
            except ValueError as error:
                raise InputError(f"{path}: record {len(lines)}: {error}") from None
            lines.append(recordio.index_line(identity, record.offset))
    target = path.with_suffix(".idx")
    write_atomically(target, "".join(lines))
    return target.name, len(lines)


def _broken(path: Path, number: int, offset: int, broken: str) -> InputError:
    return InputError(
        f"{path}: record {number} at byte {offset} is broken ({broken}); "
        f"'trainmark data verify {path.parent}' lists the problems"
    )
