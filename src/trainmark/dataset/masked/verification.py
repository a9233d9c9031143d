"""Verify files of sequences with hidden words, of any origin."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainmark.dataset.example import decode_lists
from trainmark.dataset.manifest import read_trusted_sums, sha256_of_file
from trainmark.dataset.masked.manifest import PATTERN, read_manifest
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import refuse_unfinished
from trainmark.dataset.tfrecord import FramingFault, Record, read_records
from trainmark.tasks.masked_lm.axes import Form

OF_TOKENS = ("input_ids", "input_mask", "segment_ids")
OF_WORDS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")

Features = dict[str, list[int] | list[float]]


def verify(
    directory: Path,
    *,
    vocabulary: int | None = None,
    depth: Depth = Depth.STRUCTURE,
    progress: ProgressListener | None = None,
) -> VerifyReport:
    """Read every record once, and report missing, truncated or modified files and invalid records.

    ``vocabulary`` defaults to that of ``dataset.json``. Raises ``InputError`` if there is nothing to verify, or the
    creation was interrupted.
    """
    made = read_manifest(directory)
    refuse_unfinished(directory, made, "make-masked")
    problems: list[DatasetProblem] = []
    sums = read_trusted_sums(directory, made.sums_sha256, problems) if made else {}
    counts = dict(made.spec.files) if made else {}
    names = sorted({*counts, *(path.name for path in directory.glob(PATTERN))})
    limit = vocabulary or (made.spec.vocabulary if made else None)
    shape: tuple[int, ...] | None = None
    if made:
        shape = (made.spec.sequence_length, made.spec.predictions)
    there = [name for name in names if (directory / name).is_file()]
    total = sum((directory / name).stat().st_size for name in there)
    read = records = 0
    for name in names:
        if made and name not in counts:
            problems.append(DatasetProblem(name, ProblemKind.EXTRA, "dataset.json does not name it"))
        if name not in there:
            problems.append(DatasetProblem(name, ProblemKind.MISSING, "does not exist"))
            continue
        file = _File(directory / name, shape, limit)
        problems += file.problems(lambda done: progress(done, total) if progress else None, read)
        shape, read, records = file.shape, read + file.read, records + file.records
        if file.whole and counts.get(name, file.records) != file.records:
            detail = f"has {file.records} of {counts[name]} records"
            problems.append(DatasetProblem(name, ProblemKind.WRONG_COUNT, detail))
        if name in sums and sha256_of_file(directory / name) != sums[name]:
            detail = "its checksum differs from the recorded one"
            problems.append(DatasetProblem(name, ProblemKind.CORRUPTED, detail))
    limits = []
    if made is None:
        limits.append(
            "no dataset.json: lengths are taken from the first record, and checksums were not checked"
        )
    if limit is None:
        limits.append("the vocabulary is unknown: tokens were not checked against it (use --vocabulary)")
    return VerifyReport(
        directory=directory,
        form=Form.MASKED,
        made=made is not None,
        depth=depth,
        files=len(there),
        records=records,
        bytes=read,
        lists=(),
        limits=tuple(limits),
        problems=tuple(sorted(set(problems))),
    )


@dataclass(slots=True)
class _File:
    """One file. ``shape`` is (tokens, predictions) of a sequence; by default that of the first record.

    The other fields are complete once ``problems`` is exhausted.
    """

    path: Path
    shape: tuple[int, ...] | None
    vocabulary: int | None
    read: int = 0
    records: int = 0
    whole: bool = True

    def problems(self, report_bytes: Callable[[int], None], before: int) -> Iterator[DatasetProblem]:
        """Read the file; report the total bytes read, including ``before``, to ``report_bytes``."""
        with self.path.open("rb") as file:
            for number, record in enumerate(read_records(file, self.path.stat().st_size)):
                self.read += record.size
                report_bytes(before + self.read)
                kind, problem = self._check_record(record)
                if kind is not None:
                    yield DatasetProblem(self.path.name, kind, f"record {number} {problem}")

    def _check_record(self, record: Record) -> tuple[ProblemKind | None, str]:
        if record.broken is not None:
            self.whole = False
            kind = ProblemKind.TRUNCATED if record.broken is FramingFault.TRUNCATED else ProblemKind.BROKEN
            return kind, f"at byte {record.offset}: {record.broken}"
        self.records += 1
        try:
            features = decode_lists(record.data)
        except ValueError as error:
            return ProblemKind.UNDECODABLE, f"is not an Example: {error}"
        self.shape = self.shape or tuple(len(features.get(key, ())) for key in (OF_TOKENS[0], OF_WORDS[0]))
        problem = next(_record_problems(features, self.shape, self.vocabulary), None)
        return (None, "") if problem is None else (ProblemKind.BROKEN, problem)


def _record_problems(features: Features, shape: tuple[int, ...], vocabulary: int | None) -> Iterator[str]:
    """Yield the problems of a record."""
    length, slots = shape
    wanted = {**dict.fromkeys(OF_TOKENS, length), **dict.fromkeys(OF_WORDS, slots), "next_sentence_labels": 1}
    for key, size in wanted.items():
        if key not in features:
            yield f"has no {key}"
        elif len(features[key]) != size:
            yield f"has {len(features[key])} {key}, not {size}"
    tokens, mask, segments = (features[key] for key in OF_TOKENS)
    positions, words, weights = (features[key] for key in OF_WORDS)
    used = int(sum(mask))
    if list(mask) != [1] * used + [0] * (length - used) or not used:
        yield "has padding between its tokens, or only padding"
    if any(token < 0 or (vocabulary is not None and token >= vocabulary) for token in (*tokens, *words)):
        yield f"has a token outside of the vocabulary{'' if vocabulary is None else f' of {vocabulary}'}"
    if not {*segments, *features["next_sentence_labels"]} <= {0, 1}:
        yield "has a segment or a label that is neither 0 nor 1"
    if any(not 0 <= position < length for position in positions) or any(
        weight and position >= used for position, weight in zip(positions, weights, strict=True)
    ):
        yield "hides words of padding, or past its end"
