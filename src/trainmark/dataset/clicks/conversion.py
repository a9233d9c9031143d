"""Clicks in other forms: Examples in TFRecord files, and columns of Parquet, each under Criteo's names."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.clicks.examples import encode_sample
from trainmark.dataset.clicks.made import BEGUN_NAME, ClickManifest, describe, read_manifest, shard_names
from trainmark.dataset.clicks.samples import first_broken, missing_column
from trainmark.dataset.manifest import (
    MANIFEST_NAME,
    SUMS_NAME,
    format_sums,
    sha256,
    sha256_of_file,
    write_manifest,
)
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import WORK_NAME
from trainmark.dataset.tfrecord import frame
from trainmark.dataset.work import Counter, cannot_write, held
from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.tasks.recommendation.data import Form
from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.records import COLUMNS, TRAIN

SHARD = 1 << 16
"""Samples of a file."""
REMEDY = "mend the file, or make the data set again in another folder"
"""For a source that cannot be converted."""


def convert(
    source: Path, location: Path, form: Form, progress: ProgressListener | None = None
) -> ClickManifest:
    """Convert made clicks unless that is done; whole files of an interrupted conversion are kept.

    Raises ``InputError`` where ``source`` holds no made clicks, or such as cannot be trained on, or ``location``
    something else; ``TrainmarkError`` where it cannot be written.
    """
    made = _describe_source(source)
    write = {Form.TFRECORD: write_tfrecord, Form.PARQUET: write_parquet}[form]
    if form is Form.PARQUET:
        pyarrow()
    there = read_manifest(location) if location.is_dir() else None
    if there is not None:
        if (there.spec, there.form) != (made.spec, form):
            raise InputError(f"{location}: holds another data set ({there.form}); choose another folder")
        return there
    work = location / WORK_NAME
    if location.is_dir() and not work.is_dir() and any(location.iterdir()):
        raise InputError(f"{location}: is not empty; choose another folder")
    done = Counter("samples", made.spec.samples, progress)
    words = np.memmap(source / TRAIN, "<u4", "r").reshape(-1, len(COLUMNS))
    _require_whole(source / TRAIN, words, made.column_sizes)
    names = shard_names(form, made.spec.samples, SHARD)
    try:
        with held(work, f"{location}: another process is converting to it"):
            begun = made.model_copy(update={"form": form}).model_dump_json()
            known = work / BEGUN_NAME
            if known.is_file() and known.read_text(encoding="utf-8") != begun:
                raise InputError(
                    f"{location}: another data set is being converted to it; choose another folder"
                )
            write_atomically(known, begun)
            for number, name in enumerate(names):
                part = words[number * SHARD : (number + 1) * SHARD]
                if not (location / name).is_file():
                    write(work / name, part)
                    (work / name).replace(location / name)
                done.add(len(part))
            text = format_sums({name: sha256_of_file(location / name) for name in names})
            write_atomically(location / SUMS_NAME, text)
            told = made.model_copy(update={"form": form, "sums_sha256": sha256(text.encode())})
            write_manifest(location, told)
            for entry in work.iterdir():
                entry.unlink()
        work.rmdir()
    except OSError as error:
        raise cannot_write(error, location, done) from None
    return told


def _describe_source(source: Path) -> ClickManifest:
    made = describe(source)
    if made is None:
        raise InputError(
            f"{source}: has no {MANIFEST_NAME}; clicks that 'trainmark data make-clicks' made are converted"
        )
    if made.form != Form.RAW:
        raise InputError(f"{source}: holds {made.form} already; what is converted are the raw clicks")
    if said := missing_column(made.columns):
        raise InputError(f"{source / MANIFEST_NAME}: {said}; {REMEDY}")
    return made


def _require_whole(path: Path, words: NDArray[np.uint32], sizes: Sequence[int]) -> None:
    """Raise ``InputError`` for the first sample that cannot be: before anything is written, so that nothing is left."""
    for start in range(0, len(words), SHARD):
        if said := first_broken(words[start : start + SHARD], sizes, start):
            raise InputError(f"{path}: {said}; {REMEDY}")


def write_tfrecord(path: Path, words: NDArray[np.uint32]) -> None:
    """Write samples as Examples: ``label`` and C1 to C26 whole numbers, I1 to I13 floats, one value each."""
    with path.open("wb") as file:
        for row in words:
            file.write(frame(encode_sample(row)))


def pyarrow() -> Any:
    """Return pyarrow's Parquet; raise ``InputError`` where it is not installed: it is an extra."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet needs pyarrow: pip install 'trainmark[parquet]'") from None
    return parquet


def write_parquet(path: Path, words: NDArray[np.uint32]) -> None:
    """Write samples as columns: ``label`` and C1 to C26 of int32, I1 to I13 of float."""
    import pyarrow as arrow

    pyarrow().write_table(arrow.table(dict(_columns(words))), path, compression="zstd")


def _columns(words: NDArray[np.uint32]) -> Iterator[tuple[str, NDArray[Any]]]:
    for place, name in enumerate(COLUMNS):
        column = np.ascontiguousarray(words[:, place])
        yield name, column.view("<f4" if 1 <= place <= DENSE else "<i4")
