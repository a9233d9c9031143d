"""Reads a data set of clicks once and names what is wrong with it."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.clicks.made import RECORD, WORK_NAME, interrupted, read_manifest
from trainmark.dataset.manifest import MANIFEST_NAME, trusted_sums
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.processes import ProgressListener
from trainmark.errors import InputError
from trainmark.tasks.recommendation.data import Form
from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.records import COLUMNS, TRAIN

CHUNK = 1 << 16


def verify(directory: Path, progress: ProgressListener | None = None) -> VerifyReport:
    """Report a file that is missing, empty, cut or changed, a missing column, and the first sample that has a label
    that is none, a dense field that is no number or a category that its field does not have.

    Raises ``InputError`` if there is nothing to verify, or the making was interrupted.
    """
    made = read_manifest(directory)
    if made is None and (directory / WORK_NAME).exists():
        raise interrupted(directory)
    if made is None:
        raise InputError(f"{directory}: has no {MANIFEST_NAME}: how many categories a field has is not known")
    problems: list[DatasetProblem] = []
    sums = trusted_sums(directory, made.sums_sha256, problems)
    missing = [name for name in COLUMNS if name not in made.columns]
    if missing:
        problems.append(DatasetProblem(MANIFEST_NAME, ProblemKind.MISSING, f"has no column {missing[0]}"))
    path, read = directory / TRAIN, 0
    if not path.is_file():
        problems.append(DatasetProblem(TRAIN, ProblemKind.MISSING, "is not there"))
    else:
        read = path.stat().st_size
        found = _problems(path, made.spec.samples, made.column_sizes, sums.get(TRAIN), progress)
        problems += [DatasetProblem(TRAIN, kind, detail) for kind, detail in found]
    return VerifyReport(
        directory=directory,
        form=Form.RAW,
        made=True,
        depth=Depth.STRUCTURE,
        files=int(path.is_file()),
        records=read // RECORD,
        bytes=read,
        lists=(),
        limits=(),
        problems=tuple(sorted(set(problems))),
    )


def _problems(
    path: Path, wanted: int, sizes: Sequence[int], known_sum: str | None, progress: ProgressListener | None
) -> Iterator[tuple[ProblemKind, str]]:
    size, digest, broken = path.stat().st_size, hashlib.sha256(), None
    if not size:
        yield ProblemKind.TRUNCATED, "is empty"
        return
    if size % RECORD:
        yield ProblemKind.TRUNCATED, f"ends in the middle of a sample of {RECORD} bytes"
    elif size != wanted * RECORD:
        yield ProblemKind.TRUNCATED, f"has {size // RECORD} of {wanted} samples"
    with path.open("rb") as file:
        for start in range(0, size, CHUNK * RECORD):
            data = file.read(CHUNK * RECORD)
            digest.update(data)
            words = np.frombuffer(data[: len(data) - len(data) % RECORD], "<u4").reshape(-1, len(COLUMNS))
            broken = broken or first_broken(words, sizes, start // RECORD)
            if progress:
                progress(start + len(data), size)
    if broken is not None:
        yield ProblemKind.BROKEN, broken
    if known_sum is not None and not size % RECORD and digest.hexdigest() != known_sum:
        yield ProblemKind.CORRUPTED, "its checksum is not the one on record"


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
