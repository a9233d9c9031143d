"""Verify TFRecord shards and RecordIO files of any origin."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from trainmark.dataset.images.converted import ConvertedManifest, missing_shards, read_converted
from trainmark.dataset.images.examination import ExaminedFile, examine
from trainmark.dataset.images.layout import files_in
from trainmark.dataset.images.shards import INDEX_FOLDER, find_records, find_shards, shard_of, tfrecord_split
from trainmark.dataset.manifest import MANIFEST_NAME, SUMS_NAME, read_trusted_sums, sha256
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.processes import ProgressListener, map_in_processes
from trainmark.tasks.image_classification.axes import Form


def verify_records(
    directory: Path, form: Form, *, depth: Depth, jobs: int = 1, progress: ProgressListener | None = None
) -> VerifyReport:
    """Read every record once, with ``jobs`` processes, and report problems; ``progress`` counts files.

    Checks the framing, picture and label of every record, the index, and that no shard is missing; for data sets that
    trainmark converted also the manifest and checksums.
    """
    manifest = read_converted(directory)
    found = sorted(path for path in files_in(directory) if path not in (MANIFEST_NAME, SUMS_NAME))
    shards = [shard.name for shard in find_shards(directory)]
    names = shards if form is Form.TFRECORD else find_records(directory)
    problems: list[DatasetProblem] = []
    sums = read_trusted_sums(directory, manifest.sums_sha256, problems) if manifest else {}
    examined: dict[str, ExaminedFile] = {}
    with closing(map_in_processes(partial(examine, directory, form, depth), names, jobs)) as results:
        for result in results:
            examined[result.name] = result
            problems += result.problems
            if progress:
                progress(len(examined), len(names))
    indices = [path for path in found if path.endswith(".idx")]
    problems += _absent(directory, form, sums, names)
    problems += _changed(directory, sums, examined)
    problems += _extra(found, sums)
    problems += _index_problems(directory, form, examined, indices)
    problems += _counts(manifest, form, examined, broken=bool(problems))
    return VerifyReport(
        directory=directory,
        form=form,
        made=manifest is not None,
        depth=depth,
        files=len(names),
        records=sum(len(file.locations) for file in examined.values()),
        bytes=sum(file.bytes for file in examined.values()),
        lists=tuple(path for path in found if path.endswith(".lst")),
        limits=_limits(form, sums, depth, bool(indices)),
        problems=tuple(sorted(set(problems))),
    )


def _absent(
    directory: Path, form: Form, sums: Mapping[str, str], names: Sequence[str]
) -> Iterator[DatasetProblem]:
    for name in sums:
        if not (directory / name).is_file():
            yield DatasetProblem(name, ProblemKind.MISSING, f"{SUMS_NAME} names it")
    if sums or form is not Form.TFRECORD:
        return
    by_split: dict[str, list[str]] = {}
    counts: dict[str, set[int]] = {}
    for name in names:
        shard = shard_of(name)
        assert shard is not None
        by_split.setdefault(shard.split, []).append(name)
        counts.setdefault(shard.split, set()).add(shard.count)
    for split, present in by_split.items():
        if len(counts[split]) > 1:
            listed = " and ".join(str(count) for count in sorted(counts[split]))
            yield DatasetProblem(
                present[0], ProblemKind.WRONG_COUNT, f"the shards of {split} announce {listed} of them"
            )
            continue
        for missing in missing_shards(present):
            yield DatasetProblem(
                missing, ProblemKind.MISSING, f"{len(present)} of {counts[split].pop()} shards are there"
            )


def _changed(
    directory: Path, sums: Mapping[str, str], examined: Mapping[str, ExaminedFile]
) -> Iterator[DatasetProblem]:
    for name, digest in sums.items():
        path = directory / name
        if not path.is_file():
            continue
        try:
            known = examined[name].sha256 if name in examined else sha256(path.read_bytes())
        except OSError as error:
            yield DatasetProblem(name, ProblemKind.UNREADABLE, error.strerror or str(error))
            continue
        if known and known != digest:
            yield DatasetProblem(
                name, ProblemKind.CORRUPTED, f"its SHA-256 differs from the one in {SUMS_NAME}"
            )


def _extra(found: Sequence[str], sums: Mapping[str, str]) -> Iterator[DatasetProblem]:
    for path in found:
        if sums and path not in sums:
            yield DatasetProblem(path, ProblemKind.EXTRA, f"{SUMS_NAME} does not name it")


def _index_problems(
    directory: Path, form: Form, examined: Mapping[str, ExaminedFile], indices: Sequence[str]
) -> Iterator[DatasetProblem]:
    for file in examined.values():
        name = f"{INDEX_FOLDER}/{file.name}.idx" if form is Form.TFRECORD else f"{file.name[:-4]}.idx"
        if name not in indices:
            if form is Form.RECORDIO or indices:
                yield DatasetProblem(name, ProblemKind.MISSING, "'trainmark data index' makes it")
            continue
        try:
            locations = _read_index((directory / name).read_text(encoding="ascii"))
        except OSError as error:
            yield DatasetProblem(name, ProblemKind.UNREADABLE, error.strerror or str(error))
            continue
        except ValueError as error:
            yield DatasetProblem(name, ProblemKind.BAD_INDEX, str(error))
            continue
        yield from _compare_index(name, file, locations)


def _read_index(text: str) -> list[tuple[int, int]]:
    locations = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise ValueError(f"line {number} is not two numbers")
        locations.append((int(words[0]), int(words[1])))
    return locations


def _compare_index(
    name: str, file: ExaminedFile, locations: Sequence[tuple[int, int]]
) -> Iterator[DatasetProblem]:
    """Compare an index with the readable records."""
    if file.ended and len(locations) != len(file.locations):
        detail = f"has {len(locations)} lines, but {file.name} has {len(file.locations)} records"
        yield DatasetProblem(name, ProblemKind.BAD_INDEX, detail)
        return
    for number, (listed, actual) in enumerate(zip(locations, file.locations, strict=False), start=1):
        if listed != actual:
            detail = (
                f"line {number} says {listed[0]} {listed[1]}, but {file.name} has {actual[0]} {actual[1]}"
            )
            yield DatasetProblem(name, ProblemKind.BAD_INDEX, detail)
            return


def _counts(
    manifest: ConvertedManifest | None, form: Form, examined: Mapping[str, ExaminedFile], *, broken: bool
) -> Iterator[DatasetProblem]:
    """Compare the number of records and the labels with the manifest, unless other problems explain differences."""
    if manifest is None or broken:
        return
    for split, expected in manifest.records.items():
        word = tfrecord_split(split) if form is Form.TFRECORD else split.value
        files = [file for file in examined.values() if file.name.startswith((f"{word}-", f"{word}."))]
        count = sum(len(file.locations) for file in files)
        if count != expected:
            detail = f"{count} records of {split}, but {MANIFEST_NAME} names {expected}"
            yield DatasetProblem(MANIFEST_NAME, ProblemKind.WRONG_COUNT, detail)
    last = manifest.first_label + manifest.classes - 1
    for file in examined.values():
        outside = [label for label in file.labels if not manifest.first_label <= label <= last]
        if outside:
            detail = (
                f"a label is {outside[0]}, but those of this data set are {manifest.first_label} to {last}"
            )
            yield DatasetProblem(file.name, ProblemKind.MISLABELLED, detail)


def _limits(form: Form, sums: Mapping[str, str], depth: Depth, indexed: bool) -> tuple[str, ...]:
    limits = []
    if not sums:
        if form is Form.RECORDIO:
            limits.append("no checksums: modified pixels are not found")
        if depth is Depth.STRUCTURE:
            limits.append(
                "pictures were not decoded: damage that only a decoder detects is not found (use --deep)"
            )
        limits.append("no manifest: the number of records and the labels were not checked")
    if form is Form.TFRECORD and not indexed:
        limits.append(f"no index files in {INDEX_FOLDER}/: DALI needs them ('trainmark data index')")
    return tuple(limits)
