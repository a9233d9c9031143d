"""Verify a data set of clicks by reading it once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.clicks.conversion import pyarrow
from trainmark.dataset.clicks.examples import decode_sample, decode_samples
from trainmark.dataset.clicks.manifest import RECORD, read_manifest, verb_of
from trainmark.dataset.clicks.samples import first_invalid_sample, missing_column
from trainmark.dataset.manifest import MANIFEST_NAME, SUMS_NAME, read_trusted_sums, sha256_of_file
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import refuse_unfinished
from trainmark.dataset.tfrecord import FramingFault, Record, read_records
from trainmark.errors import InputError
from trainmark.tasks.recommendation.axes import Form
from trainmark.worker.core.feed import TRAIN
from trainmark.worker.tasks.recommendation.records import COLUMNS

CHUNK = 1 << 16
"""Samples checked at once."""
EXAMPLES = 1 << 12
"""TFRecord samples checked at once: fewer, because each is a Python bytes object."""
BLOCK_BYTES = 1 << 24
"""Maximum bytes of TFRecord samples checked at once, because foreign records may be long."""


def verify(directory: Path, progress: ProgressListener | None = None) -> VerifyReport:
    """Report missing, empty, truncated, modified or extra files, missing columns, and invalid samples.

    Only the first invalid sample of each file is reported: one with a label other than 0 or 1, a dense field that is
    not a number, or a category out of range. Raises ``InputError`` if there is nothing to verify, the creation was
    interrupted, or pyarrow is missing for Parquet.
    """
    made = read_manifest(directory)
    refuse_unfinished(directory, made, verb_of(directory))
    if made is None:
        raise InputError(
            f"{directory}: has no {MANIFEST_NAME}, so the number of categories of each field is unknown"
        )
    problems: list[DatasetProblem] = []
    sums = read_trusted_sums(directory, made.sums_sha256, problems)
    if problem := missing_column(made.columns):
        problems.append(DatasetProblem(MANIFEST_NAME, ProblemKind.MISSING, problem))
    names = [TRAIN] if made.form == Form.RAW else sorted(name for name in sums if name.endswith(made.form))
    others = {path.name for path in directory.glob(f"*{Path(names[0]).suffix}")} if names else set()
    problems += [
        DatasetProblem(name, ProblemKind.EXTRA, f"{SUMS_NAME} does not name it") for name in others - {*names}
    ]
    there = [name for name in names if (directory / name).is_file()]
    problems += [DatasetProblem(name, ProblemKind.MISSING, "does not exist") for name in {*names} - {*there}]
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
        detail = f"has {records} samples, but {MANIFEST_NAME} names {made.spec.samples}"
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
    """One file, the number of categories of each field, and the recorded checksum.

    ``samples`` counts the samples read so far; ``broken`` describes the first invalid one.
    """

    path: Path
    sizes: Sequence[int]
    sum: str | None
    samples: int = 0
    broken: str | None = None

    def problems(self, form: str) -> Found:
        """Read the file."""
        if not self.path.stat().st_size:
            yield ProblemKind.TRUNCATED, "is empty"
            return
        reads = {Form.RAW: self._raw, Form.TFRECORD: self._tfrecord, Form.PARQUET: self._parquet}
        found = list(reads[Form(form)]())
        yield from found
        if self.broken is not None:
            yield ProblemKind.BROKEN, self.broken
        cut = any(kind is ProblemKind.TRUNCATED for kind, _ in found)
        if self.sum is not None and not cut and self.sum != sha256_of_file(self.path):
            yield ProblemKind.CORRUPTED, "its checksum differs from the recorded one"

    def _check_words(self, words: NDArray[np.uint32]) -> None:
        self.broken = self.broken or first_invalid_sample(words, self.sizes, self.samples)
        self.samples += len(words)

    def _raw(self) -> Found:
        if self.path.stat().st_size % RECORD:
            yield ProblemKind.TRUNCATED, f"ends in the middle of a sample of {RECORD} bytes"
        with self.path.open("rb") as file:
            while data := file.read(CHUNK * RECORD):
                whole = data[: len(data) - len(data) % RECORD]
                self._check_words(np.frombuffer(whole, "<u4").reshape(-1, len(COLUMNS)))

    def _tfrecord(self) -> Found:
        with self.path.open("rb") as file:
            records = read_records(file, self.path.stat().st_size)
            for block in _blocks(records):
                whole = block[:-1] if block[-1].broken else block
                words, ended = _words([record.data for record in whole], self.samples)
                if ended is None and block[-1].broken:
                    ended = _broken(block[-1], self.samples + len(whole))
                if len(words):
                    self._check_words(words)
                if ended is not None:
                    yield ended
                    return

    def _parquet(self) -> Found:
        parquet = pyarrow()
        try:
            file = parquet.ParquetFile(self.path)
            if problem := missing_column(file.schema_arrow.names):
                yield ProblemKind.MISSING, problem
                return
            for part in file.iter_batches(CHUNK, columns=list(COLUMNS)):
                words = np.empty((part.num_rows, len(COLUMNS)), "<u4")
                for at, name in enumerate(COLUMNS):
                    words[:, at] = part[name].to_numpy(zero_copy_only=False).view("<u4")
                self._check_words(words)
        except (OSError, ValueError) as error:
            yield ProblemKind.TRUNCATED, f"cannot be read: {str(error).splitlines()[0]}"


Ended = tuple[ProblemKind, str]
"""The problem that ends the reading of a file."""


def _blocks(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield records in blocks, up to and including the first broken one."""
    block: list[Record] = []
    size = 0
    for record in records:
        block.append(record)
        size += record.size
        if record.broken or len(block) == EXAMPLES or size >= BLOCK_BYTES:
            yield block
            if record.broken:
                return
            block, size = [], 0
    if block:
        yield block


def _broken(record: Record, number: int) -> Ended:
    kind = ProblemKind.TRUNCATED if record.broken is FramingFault.TRUNCATED else ProblemKind.BROKEN
    return kind, f"record {number} at byte {record.offset}: {record.broken}"


def _words(records: Sequence[bytes], before: int) -> tuple[NDArray[np.uint32], Ended | None]:
    """Return the words of records up to the first invalid one, and its problem; ``before`` records precede them."""
    words, known = decode_samples(records)
    for at in np.flatnonzero(~known).tolist():
        try:
            found = decode_sample(records[at])
        except ValueError as error:
            return words[:at], (ProblemKind.BROKEN, f"record {before + at} is not an Example: {error}")
        if problem := missing_column(found):
            return words[:at], (ProblemKind.MISSING, f"sample {before + at} {problem}")
        words[at] = [found[name] for name in COLUMNS]
    return words, None
