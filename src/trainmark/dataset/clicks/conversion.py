"""Convert clicks to Examples in TFRecord files and to columns of Parquet, with Criteo's column names."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.clicks.examples import encode_sample
from trainmark.dataset.clicks.manifest import (
    CONVERSION_NAME,
    ClickManifest,
    describe,
    read_manifest,
    shard_names,
)
from trainmark.dataset.clicks.samples import first_invalid_sample, missing_column
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
from trainmark.dataset.work import ProgressCounter, exclusive_folder, write_error
from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.tasks.recommendation.axes import Form
from trainmark.worker.core.feed import TRAIN
from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.records import COLUMNS

SHARD = 1 << 16
"""Samples per file."""
REMEDY = "repair the file, or make the data set again in another folder"
"""The remedy in messages about a source that cannot be converted."""


def convert(
    source: Path, location: Path, form: Form, progress: ProgressListener | None = None
) -> ClickManifest:
    """Convert clicks that trainmark created, unless that is done; resume an interrupted conversion after its last file.

    Raises ``InputError`` if ``source`` contains no such clicks or invalid samples, or ``location`` contains other
    files; ``TrainmarkError`` if writing fails.
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
    done = ProgressCounter("samples", made.spec.samples, progress)
    words = np.memmap(source / TRAIN, "<u4", "r").reshape(-1, len(COLUMNS))
    _require_whole(source / TRAIN, words, made.column_sizes)
    names = shard_names(form, made.spec.samples, SHARD)
    try:
        with exclusive_folder(work, f"{location}: another process is converting to it"):
            recorded = made.model_copy(update={"form": form}).model_dump_json()
            known = work / CONVERSION_NAME
            if known.is_file() and known.read_text(encoding="utf-8") != recorded:
                raise InputError(
                    f"{location}: another data set is being converted to it; choose another folder"
                )
            write_atomically(known, recorded)
            for number, name in enumerate(names):
                part = words[number * SHARD : (number + 1) * SHARD]
                if not (location / name).is_file():
                    write(work / name, part)
                    (work / name).replace(location / name)
                done.add(len(part))
            text = format_sums({name: sha256_of_file(location / name) for name in names})
            write_atomically(location / SUMS_NAME, text)
            manifest = made.model_copy(update={"form": form, "sums_sha256": sha256(text.encode())})
            write_manifest(location, manifest)
            for entry in work.iterdir():
                entry.unlink()
        work.rmdir()
    except OSError as error:
        raise write_error(error, location, done) from None
    return manifest


def _describe_source(source: Path) -> ClickManifest:
    made = describe(source)
    if made is None:
        raise InputError(
            f"{source}: has no {MANIFEST_NAME}; only clicks made by 'trainmark data make-clicks' can be converted"
        )
    if made.form != Form.RAW:
        raise InputError(f"{source}: holds {made.form}; only raw clicks can be converted")
    if problem := missing_column(made.columns):
        raise InputError(f"{source / MANIFEST_NAME}: {problem}; {REMEDY}")
    return made


def _require_whole(path: Path, words: NDArray[np.uint32], sizes: Sequence[int]) -> None:
    """Raise ``InputError`` for the first invalid sample; called before anything is written."""
    for start in range(0, len(words), SHARD):
        if problem := first_invalid_sample(words[start : start + SHARD], sizes, start):
            raise InputError(f"{path}: {problem}; {REMEDY}")


def write_tfrecord(path: Path, words: NDArray[np.uint32]) -> None:
    """Write samples as Examples with one value per column: ``label`` and C1 to C26 integers, I1 to I13 floats."""
    with path.open("wb") as file:
        for row in words:
            file.write(frame(encode_sample(row)))


def pyarrow() -> Any:
    """Return ``pyarrow.parquet``; raise ``InputError`` if pyarrow, an optional dependency, is not installed."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet needs pyarrow: pip install 'trainmark[parquet]'") from None
    return parquet


def write_parquet(path: Path, words: NDArray[np.uint32]) -> None:
    """Write samples as columns: ``label`` and C1 to C26 as int32, I1 to I13 as float."""
    import pyarrow as arrow

    pyarrow().write_table(arrow.table(dict(_columns(words))), path, compression="zstd")


def _columns(words: NDArray[np.uint32]) -> Iterator[tuple[str, NDArray[Any]]]:
    for place, name in enumerate(COLUMNS):
        column = np.ascontiguousarray(words[:, place])
        yield name, column.view("<f4" if 1 <= place <= DENSE else "<i4")
