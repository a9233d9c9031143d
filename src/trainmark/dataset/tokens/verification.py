"""Verify files of tokens, of any origin."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.dataset.manifest import read_trusted_sums
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import refuse_unfinished
from trainmark.dataset.tokens.manifest import read_manifest, read_part
from trainmark.tasks.causal_lm.axes import Form

CHUNK = 1 << 22


def verify(
    directory: Path,
    *,
    vocabulary: int | None = None,
    depth: Depth = Depth.STRUCTURE,
    progress: ProgressListener | None = None,
) -> VerifyReport:
    """Read every file once, and report missing, empty, truncated or modified files and tokens out of range.

    ``vocabulary`` defaults to that of ``dataset.json``. Raises ``InputError`` if there is nothing to verify, or the
    creation was interrupted.
    """
    made = read_manifest(directory)
    refuse_unfinished(directory, made, "make-tokens")
    problems: list[DatasetProblem] = []
    sums = read_trusted_sums(directory, made.sums_sha256, problems) if made else {}
    counts = dict(made.spec.files) if made else {}
    names = sorted({*counts, *(path.name for path in directory.glob("*.bin"))})
    limit = vocabulary or (made.vocabulary if made else None)
    type_name = made.type if made else "uint16"
    kind = np.dtype(type_name).newbyteorder("<")
    total = sum((directory / name).stat().st_size for name in names if (directory / name).is_file())
    read = records = files = 0
    for name in names:
        if made and name not in counts:
            problems.append(DatasetProblem(name, ProblemKind.EXTRA, "dataset.json does not name it"))
        if not (directory / name).is_file():
            problems.append(DatasetProblem(name, ProblemKind.MISSING, "does not exist"))
            continue
        whole = _File(directory / name, kind, counts.get(name), limit, sums.get(name))
        problems += whole.problems(lambda done: progress(done, total) if progress else None, read)
        files, records, read = files + 1, records + whole.tokens, read + whole.tokens * kind.itemsize
    limits = []
    if made is None:
        limits.append(f"no dataset.json: read as {type_name}, and checksums were not checked")
    if limit is None:
        limits.append("the vocabulary is unknown: tokens were not checked against it (use --vocabulary)")
    return VerifyReport(
        directory=directory,
        form=Form.TOKENS,
        made=made is not None,
        depth=depth,
        files=files,
        records=records,
        bytes=read,
        lists=(),
        limits=tuple(limits),
        problems=tuple(sorted(set(problems))),
    )


@dataclass(frozen=True, slots=True)
class _File:
    """One file with its expected number of tokens, their exclusive upper ``limit`` and its checksum, if known."""

    path: Path
    kind: np.dtype[Any]
    wanted: int | None
    limit: int | None
    sum: str | None

    @property
    def tokens(self) -> int:
        return self.path.stat().st_size // self.kind.itemsize

    def problems(self, report_bytes: Callable[[int], None], before: int) -> Iterator[DatasetProblem]:
        """Read the file; report the total bytes read, including ``before``, to ``report_bytes``."""
        size, name = self.path.stat().st_size, self.path.name
        if not size:
            yield DatasetProblem(name, ProblemKind.TRUNCATED, "is empty")
            return
        if size % self.kind.itemsize:
            detail = f"ends in the middle of a token of {self.kind.itemsize} bytes"
            yield DatasetProblem(name, ProblemKind.TRUNCATED, detail)
        elif self.wanted not in (None, self.tokens):
            detail = f"has {self.tokens} of {self.wanted} tokens"
            yield DatasetProblem(name, ProblemKind.TRUNCATED, detail)
        digest, outside = hashlib.sha256(), None
        for start in range(0, self.tokens, CHUNK):
            part = read_part(self.path, self.kind, start, CHUNK)
            if self.limit is not None and outside is None and (part >= self.limit).any():
                first = int(np.argmax(part >= self.limit))
                outside = f"token {start + first} is {part[first]}, outside of the vocabulary of {self.limit}"
            digest.update(part.tobytes())
            report_bytes(before + (start + len(part)) * self.kind.itemsize)
        if outside is not None:
            yield DatasetProblem(name, ProblemKind.BROKEN, outside)
        if self.sum is not None and not size % self.kind.itemsize and digest.hexdigest() != self.sum:
            yield DatasetProblem(name, ProblemKind.CORRUPTED, "its checksum differs from the recorded one")
