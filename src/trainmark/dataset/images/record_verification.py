"""Finding what is wrong with TFRecord shards and RecordIO files, whether trainmark wrote them or not."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from trainmark.dataset.images.converted import ConvertedManifest, missing_shards, read_converted
from trainmark.dataset.images.examination import Examined, examine
from trainmark.dataset.images.layout import files_in
from trainmark.dataset.images.shards import INDEX_FOLDER, find_records, find_shards, shard_of, tfrecord_split
from trainmark.dataset.manifest import MANIFEST_NAME, SUMS_NAME, sha256, trusted_sums
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.processes import ProgressListener, spread
from trainmark.tasks.image_classification.data import Form


def verify_records(
    directory: Path, form: Form, *, depth: Depth, jobs: int = 1, progress: ProgressListener | None = None
) -> VerifyReport:
    """Read every record once, with ``jobs`` processes, and report what is wrong; ``progress`` counts files.

    A converted data set is held against its manifest and checksums. In any, the framing of every record, its picture,
    its label and the index are checked, and that no shard is missing.
    """
    manifest = read_converted(directory)
    found = sorted(path for path in files_in(directory) if path not in (MANIFEST_NAME, SUMS_NAME))
    shards = [shard.name for shard in find_shards(directory)]
    names = shards if form is Form.TFRECORD else find_records(directory)
    problems: list[DatasetProblem] = []
    sums = trusted_sums(directory, manifest.sums_sha256, problems) if manifest else {}
    examined: dict[str, Examined] = {}
    with closing(spread(partial(examine, directory, form, depth), names, jobs)) as results:
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
        records=sum(len(file.places) for file in examined.values()),
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
    for split, its in by_split.items():
        if len(counts[split]) > 1:
            said = " and ".join(str(count) for count in sorted(counts[split]))
            yield DatasetProblem(
                its[0], ProblemKind.WRONG_COUNT, f"the shards of {split} announce {said} of them"
            )
            continue
        for missing in missing_shards(its):
            yield DatasetProblem(
                missing, ProblemKind.MISSING, f"{len(its)} of {counts[split].pop()} shards are there"
            )


def _changed(
    directory: Path, sums: Mapping[str, str], examined: Mapping[str, Examined]
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
            yield DatasetProblem(name, ProblemKind.CORRUPTED, f"its SHA-256 is not the one in {SUMS_NAME}")


def _extra(found: Sequence[str], sums: Mapping[str, str]) -> Iterator[DatasetProblem]:
    for path in found:
        if sums and path not in sums:
            yield DatasetProblem(path, ProblemKind.EXTRA, f"{SUMS_NAME} does not name it")


def _index_problems(
    directory: Path, form: Form, examined: Mapping[str, Examined], indices: Sequence[str]
) -> Iterator[DatasetProblem]:
    for file in examined.values():
        name = f"{INDEX_FOLDER}/{file.name}.idx" if form is Form.TFRECORD else f"{file.name[:-4]}.idx"
        if name not in indices:
            if form is Form.RECORDIO or indices:
                yield DatasetProblem(name, ProblemKind.MISSING, "'trainmark data index' makes it")
            continue
        try:
            places = _read_index((directory / name).read_text(encoding="ascii"))
        except OSError as error:
            yield DatasetProblem(name, ProblemKind.UNREADABLE, error.strerror or str(error))
            continue
        except ValueError as error:
            yield DatasetProblem(name, ProblemKind.BAD_INDEX, str(error))
            continue
        yield from _compared(name, file, places)


def _read_index(text: str) -> list[tuple[int, int]]:
    places = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise ValueError(f"line {number} is not two numbers")
        places.append((int(words[0]), int(words[1])))
    return places


def _compared(name: str, file: Examined, places: Sequence[tuple[int, int]]) -> Iterator[DatasetProblem]:
    """Compare an index with the records as far as they could be read."""
    if file.ended and len(places) != len(file.places):
        detail = f"has {len(places)} lines, and {file.name} has {len(file.places)} records"
        yield DatasetProblem(name, ProblemKind.BAD_INDEX, detail)
        return
    for number, (said, real) in enumerate(zip(places, file.places, strict=False), start=1):
        if said != real:
            detail = f"line {number} says {said[0]} {said[1]}, and in {file.name} it is {real[0]} {real[1]}"
            yield DatasetProblem(name, ProblemKind.BAD_INDEX, detail)
            return


def _counts(
    manifest: ConvertedManifest | None, form: Form, examined: Mapping[str, Examined], *, broken: bool
) -> Iterator[DatasetProblem]:
    """Hold the number of records and labels against the manifest, unless what is broken explains it already."""
    if manifest is None or broken:
        return
    for split, wanted in manifest.records.items():
        word = tfrecord_split(split) if form is Form.TFRECORD else split.value
        files = [file for file in examined.values() if file.name.startswith((f"{word}-", f"{word}."))]
        count = sum(len(file.places) for file in files)
        if count != wanted:
            detail = f"{count} records of {split}, and {MANIFEST_NAME} says {wanted}"
            yield DatasetProblem(MANIFEST_NAME, ProblemKind.WRONG_COUNT, detail)
    last = manifest.first_label + manifest.classes - 1
    for file in examined.values():
        outside = [label for label in file.labels if not manifest.first_label <= label <= last]
        if outside:
            detail = (
                f"a label is {outside[0]}, and those of this data set are {manifest.first_label} to {last}"
            )
            yield DatasetProblem(file.name, ProblemKind.MISLABELLED, detail)


def _limits(form: Form, sums: Mapping[str, str], depth: Depth, indexed: bool) -> tuple[str, ...]:
    limits = []
    if not sums:
        if form is Form.RECORDIO:
            limits.append("no checksums: changed bytes among a picture's pixels are not found")
        if depth is Depth.STRUCTURE:
            limits.append("pictures were not decoded: what only a decoder refuses is not found (--deep)")
        limits.append("no manifest: the number of records and the labels have nothing to be checked against")
    if form is Form.TFRECORD and not indexed:
        limits.append(f"no index files in {INDEX_FOLDER}/: DALI needs them ('trainmark data index')")
    return tuple(limits)
