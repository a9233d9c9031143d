"""Reads a data set of clicks once and names what is wrong with it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.begun import refuse_unfinished
from trainmark.dataset.clicks.conversion import pyarrow
from trainmark.dataset.clicks.made import RECORD, read_manifest
from trainmark.dataset.example import decode_lists
from trainmark.dataset.manifest import MANIFEST_NAME, SUMS_NAME, sha256_of_file, trusted_sums
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.tfrecord import Break, read_records
from trainmark.errors import InputError
from trainmark.tasks.recommendation.data import Form
from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.records import COLUMNS, TRAIN

CHUNK = 1 << 16


def verify(directory: Path, progress: ProgressListener | None = None) -> VerifyReport:
    """Report files that are missing, empty, cut, changed or extra, a missing column, and of each file the first sample
    that has a label that is none, a dense field that is no number or a category that its field does not have.

    Raises ``InputError`` if there is nothing to verify, the making was interrupted, or Parquet is without pyarrow.
    """
    made = read_manifest(directory)
    refuse_unfinished(directory, made, "make-clicks")
    if made is None:
        raise InputError(f"{directory}: has no {MANIFEST_NAME}: how many categories a field has is not known")
    problems: list[DatasetProblem] = []
    sums = trusted_sums(directory, made.sums_sha256, problems)
    missing = [name for name in COLUMNS if name not in made.columns]
    if missing:
        problems.append(DatasetProblem(MANIFEST_NAME, ProblemKind.MISSING, f"has no column {missing[0]}"))
    names = [TRAIN] if made.form == Form.RAW else sorted(name for name in sums if name.endswith(made.form))
    others = {path.name for path in directory.glob(f"*{Path(names[0]).suffix}")} if names else set()
    problems += [
        DatasetProblem(name, ProblemKind.EXTRA, f"{SUMS_NAME} does not name it") for name in others - {*names}
    ]
    there = [name for name in names if (directory / name).is_file()]
    problems += [DatasetProblem(name, ProblemKind.MISSING, "is not there") for name in {*names} - {*there}]
    total = sum((directory / name).stat().st_size for name in there)
    read = records = 0
    for name in there:
        path = directory / name
        found, whole = _File(path, made.column_sizes, sums.get(name)), path.stat().st_size
        problems += [DatasetProblem(name, *problem) for problem in found.problems(made.form)]
        read, records = read + whole, records + found.samples
        if progress:
            progress(read, total)
    cut = any(problem.kind is ProblemKind.TRUNCATED for problem in problems)
    if made.form == Form.RAW and there and not cut and records < made.spec.samples:
        detail = f"has {records} of {made.spec.samples} samples"
        problems.append(DatasetProblem(TRAIN, ProblemKind.TRUNCATED, detail))
    if not problems and records != made.spec.samples:
        detail = f"{records} samples are there, and {made.spec.samples} announced"
        problems.append(DatasetProblem(MANIFEST_NAME, ProblemKind.WRONG_COUNT, detail))
    return VerifyReport(
        directory=directory,
        form=made.form,
        made=True,
        depth=Depth.STRUCTURE,
        files=len(there),
        records=records,
        bytes=read,
        lists=(),
        limits=(),
        problems=tuple(sorted(set(problems))),
    )


Found = Iterator[tuple[ProblemKind, str]]


@dataclass(slots=True)
class _File:
    """One file, the categories of each field, and its checksum on record; ``samples`` are those that were read."""

    path: Path
    sizes: Sequence[int]
    sum: str | None
    samples: int = 0
    unchanged: bool = False

    def problems(self, form: str) -> Found:
        """Read the file."""
        if not self.path.stat().st_size:
            yield ProblemKind.TRUNCATED, "is empty"
            return
        self.unchanged = self.sum == sha256_of_file(self.path)
        reads = {Form.RAW: self._raw, Form.TFRECORD: self._tfrecord, Form.PARQUET: self._parquet}
        found = list(reads[Form(form)]())
        yield from found
        cut = any(kind is ProblemKind.TRUNCATED for kind, _ in found)
        if self.sum is not None and not cut and not self.unchanged:
            yield ProblemKind.CORRUPTED, "its checksum is not the one on record"

    def _looked(self, words: NDArray[np.uint32]) -> str | None:
        broken = first_broken(words, self.sizes, self.samples)
        self.samples += len(words)
        return broken

    def _raw(self) -> Found:
        size, broken = self.path.stat().st_size, None
        if size % RECORD:
            yield ProblemKind.TRUNCATED, f"ends in the middle of a sample of {RECORD} bytes"
        with self.path.open("rb") as file:
            while data := file.read(CHUNK * RECORD):
                whole = data[: len(data) - len(data) % RECORD]
                said = self._looked(np.frombuffer(whole, "<u4").reshape(-1, len(COLUMNS)))
                broken = broken or said
        if broken is not None:
            yield ProblemKind.BROKEN, broken

    def _tfrecord(self) -> Found:
        with self.path.open("rb") as file:
            for record in read_records(file, self.path.stat().st_size):
                if record.broken is not None:
                    cut = record.broken is Break.TRUNCATED
                    where = f"record {self.samples} at byte {record.offset}: {record.broken}"
                    yield ProblemKind.TRUNCATED if cut else ProblemKind.BROKEN, where
                    return
                if self.unchanged:
                    # As it was written: only a file that is not is worth decoding, to say where.
                    self.samples += 1
                    continue
                try:
                    values = decode_lists(record.data)
                except ValueError as error:
                    yield ProblemKind.BROKEN, f"record {self.samples} is no Example: {error}"
                    return
                if missing := [name for name in COLUMNS if not values.get(name)]:
                    yield ProblemKind.MISSING, f"sample {self.samples} has no column {missing[0]}"
                    return
                if said := self._looked(_row([values[name][0] for name in COLUMNS])):
                    yield ProblemKind.BROKEN, said
                    return

    def _parquet(self) -> Found:
        parquet, broken = pyarrow(), None
        try:
            file = parquet.ParquetFile(self.path)
            if missing := [name for name in COLUMNS if name not in file.schema_arrow.names]:
                yield ProblemKind.MISSING, f"has no column {missing[0]}"
                return
            for part in file.iter_batches(CHUNK, columns=list(COLUMNS)):
                words = np.empty((part.num_rows, len(COLUMNS)), "<u4")
                for at, name in enumerate(COLUMNS):
                    words[:, at] = part[name].to_numpy(zero_copy_only=False).view("<u4")
                said = self._looked(words)
                broken = broken or said
        except (OSError, ValueError) as error:
            yield ProblemKind.TRUNCATED, f"cannot be read: {str(error).splitlines()[0]}"
            return
        if broken is not None:
            yield ProblemKind.BROKEN, broken


def _row(values: Sequence[Any]) -> NDArray[np.uint32]:
    """Return the words of one sample; a number that has no room in a word is the largest that has."""
    row = np.empty((1, len(COLUMNS)), "<u4")
    for at, value in enumerate(values):
        if 1 <= at <= DENSE:
            row[0, at] = np.array(value, "<f4").view("<u4") if isinstance(value, float) else _NO_NUMBER
        else:
            row[0, at] = value if isinstance(value, int) and 0 <= value < 2**32 else 2**32 - 1
    return row


_NO_NUMBER = 0x7FC00000
"""A float that is none."""


def first_broken(words: NDArray[np.uint32], sizes: Sequence[int], before: int) -> str | None:
    """Return what is wrong with the first sample of ``words`` that cannot be, the ``before`` th of its file."""
    dense = np.ascontiguousarray(words[:, 1 : 1 + DENSE]).view("<f4")
    wrong = np.concatenate(
        [words[:, :1] > 1, ~np.isfinite(dense), words[:, 1 + DENSE :] >= np.asarray(sizes)], axis=1
    )
    if not wrong.any():
        return None
    row, column = map(int, np.unravel_index(int(wrong.argmax()), wrong.shape))
    name = COLUMNS[column]
    if name == "label":
        said = f"label {words[row, 0]}, and not 0 or 1"
    elif column <= DENSE:
        said = f"{dense[row, column - 1]} in {name}, which is no number"
    else:
        said = f"category {words[row, column]} in {name}, which has {sizes[column - 1 - DENSE]}"
    return f"sample {before + row} has {said}"
