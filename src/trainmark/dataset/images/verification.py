"""Verify image data sets of any origin; this module checks image folders."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmark.dataset.images.folder import require_folder
from trainmark.dataset.images.jpeg import find_fault
from trainmark.dataset.images.labels import find_mislabelled, labels_by_folder, labels_of_made
from trainmark.dataset.images.layout import (
    ListEntry,
    ListFile,
    class_in_name,
    class_of,
    files_in,
    find_lists,
    is_picture,
    read_list,
)
from trainmark.dataset.images.manifest import read_manifest
from trainmark.dataset.images.record_verification import verify_records
from trainmark.dataset.images.shards import recognise
from trainmark.dataset.manifest import MANIFEST_NAME, SUMS_NAME, read_trusted_sums, sha256
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.processes import ProgressListener, map_in_processes
from trainmark.errors import InputError
from trainmark.tasks.image_classification.axes import Form

_BATCH = 64


def verify(
    directory: Path,
    *,
    lists: Sequence[Path] = (),
    depth: Depth = Depth.STRUCTURE,
    jobs: int = 1,
    progress: ProgressListener | None = None,
) -> VerifyReport:
    """Verify the image folder, TFRecord shards or RecordIO files in ``directory``; ``lists`` are for image folders.

    Raises ``InputError`` if there is no such folder, or nothing in it to verify.
    """
    form = recognise(directory) if directory.is_dir() else Form.IMAGE_FOLDER
    if form is Form.IMAGE_FOLDER:
        return verify_image_folder(directory, lists=lists, depth=depth, jobs=jobs, progress=progress)
    if lists:
        raise InputError(f"{directory}: holds {form}, to which list files do not apply")
    return verify_records(directory, form, depth=depth, jobs=jobs, progress=progress)


def verify_image_folder(
    directory: Path,
    *,
    lists: Sequence[Path] = (),
    depth: Depth = Depth.STRUCTURE,
    jobs: int = 1,
    progress: ProgressListener | None = None,
) -> VerifyReport:
    """Read every file of the image folder once, with ``jobs`` processes, and report problems.

    Reports damaged pictures, duplicates, and contradictions between lists (``lists``, or those with usual names) and
    class folders; a folder that trainmark created is also compared with its checksums. Raises ``InputError`` if there
    is no such folder, it has no pictures, or its creation was interrupted.
    """
    require_folder(directory)
    manifest = read_manifest(directory)
    found = {path for path in files_in(directory) if manifest or is_picture(path)}
    list_files = [read_list(directory, file) for file in lists or find_lists(directory)]
    listed = [entry for file in list_files for entry in file.entries]
    if not found and not listed:
        raise InputError(f"{directory}: holds no pictures")

    problems: list[DatasetProblem] = []
    sums = read_trusted_sums(directory, manifest.sums_sha256, problems) if manifest else {}
    found -= {MANIFEST_NAME, SUMS_NAME} if manifest else set()
    wanted = {**dict.fromkeys((entry.path for entry in listed), ""), **sums}
    checked = _check_files(directory, sorted(found | wanted.keys()), depth, jobs, progress)

    problems += _missing(checked, listed, sums)
    problems += _damaged(checked, sums)
    problems += _extra(checked, found, listed, sums)
    problems += _duplicates(checked, sums)
    problems += _list_problems(list_files, listed)
    labels = labels_of_made(manifest.recipe.spec) if manifest else labels_by_folder(listed)
    problems += [
        DatasetProblem(entry.path, ProblemKind.MISLABELLED, detail)
        for entry, detail in find_mislabelled(listed, labels)
    ]
    problems += _contradicted_names(path for path in checked if path not in sums)
    there = [file for file in checked.values() if file.kind is not ProblemKind.MISSING]
    return VerifyReport(
        directory=directory,
        form=Form.IMAGE_FOLDER,
        made=manifest is not None,
        depth=depth,
        files=len(there),
        records=len(there),
        bytes=sum(file.bytes for file in there),
        lists=tuple(file.name for file in list_files),
        limits=_limits(bool(sums), depth, bool(listed), bool(labels)),
        problems=tuple(sorted(set(problems))),
    )


@dataclass(frozen=True, slots=True)
class _Checked:
    """The result of reading one file; ``kind`` is None if the file is intact."""

    path: str
    bytes: int
    sha256: str
    kind: ProblemKind | None
    detail: str


def _check_files(
    directory: Path, paths: Sequence[str], depth: Depth, jobs: int, progress: ProgressListener | None
) -> dict[str, _Checked]:
    size = max(1, min(_BATCH, len(paths) // max(1, jobs)))
    batches = [paths[at : at + size] for at in range(0, len(paths), size)]
    checked: dict[str, _Checked] = {}
    with closing(map_in_processes(partial(_check_batch, directory, depth), batches, jobs)) as results:
        for result in results:
            checked.update((file.path, file) for file in result)
            if progress:
                progress(len(checked), len(paths))
    return {path: checked[path] for path in paths}


def _check_batch(directory: Path, depth: Depth, paths: Sequence[str]) -> list[_Checked]:
    return [_check(directory, path, depth) for path in paths]


def _check(directory: Path, path: str, depth: Depth) -> _Checked:
    try:
        data = (directory / path).read_bytes()
    except FileNotFoundError:
        return _Checked(path, 0, "", ProblemKind.MISSING, "does not exist")
    except OSError as error:
        return _Checked(path, 0, "", ProblemKind.UNREADABLE, error.strerror or str(error))
    fault = find_fault(data, depth) if is_picture(path) else None
    kind, detail = (ProblemKind(fault[0].value), fault[1]) if fault else (None, "")
    return _Checked(path, len(data), sha256(data), kind, detail)


def _missing(
    checked: Mapping[str, _Checked], listed: Sequence[ListEntry], sums: Mapping[str, str]
) -> Iterator[DatasetProblem]:
    named_at = {entry.path: entry.where for entry in reversed(listed)}
    for path, file in checked.items():
        if file.kind is ProblemKind.MISSING:
            by = named_at.get(path) or (SUMS_NAME if path in sums else "")
            yield DatasetProblem(path, file.kind, f"{by} names it" if by else "is a dangling link")


def _damaged(checked: Mapping[str, _Checked], sums: Mapping[str, str]) -> Iterator[DatasetProblem]:
    owner = {digest: path for path, digest in sums.items()}
    for path, file in checked.items():
        if file.kind is ProblemKind.MISSING:
            continue
        if file.kind:
            yield DatasetProblem(path, file.kind, file.detail)
        elif path in sums and file.sha256 != sums[path]:
            other = owner.get(file.sha256)
            if other is None:
                yield DatasetProblem(
                    path, ProblemKind.CORRUPTED, f"its SHA-256 differs from the one in {SUMS_NAME}"
                )
            else:
                swapped = class_of(other) != class_of(path)
                kind = ProblemKind.MISLABELLED if swapped else ProblemKind.CORRUPTED
                yield DatasetProblem(path, kind, f"contains the picture of {other}")


def _extra(
    checked: Mapping[str, _Checked], found: set[str], listed: Sequence[ListEntry], sums: Mapping[str, str]
) -> Iterator[DatasetProblem]:
    """Yield files that no list or checksum names; in a foreign folder only if a list names neighbouring files."""
    owner = {digest: path for path, digest in sums.items()}
    named = {entry.path for entry in listed}
    covered = {path.partition("/")[0] for path in named}
    for path in sorted(found - named - sums.keys()):
        if not sums and path.partition("/")[0] not in covered:
            continue
        original = owner.get(checked[path].sha256)
        lost = original is not None and checked[original].kind is ProblemKind.MISSING
        if original is not None and lost and class_of(original) != class_of(path):
            yield DatasetProblem(path, ProblemKind.MISLABELLED, f"is {original}, moved to another class")
        elif original is not None and lost:
            yield DatasetProblem(path, ProblemKind.EXTRA, f"is {original}, renamed")
        else:
            by = f"neither {SUMS_NAME} nor a list" if sums else "no list"
            yield DatasetProblem(path, ProblemKind.EXTRA, f"{by} names it")


def _duplicates(checked: Mapping[str, _Checked], sums: Mapping[str, str]) -> Iterator[DatasetProblem]:
    by_digest: dict[str, list[str]] = defaultdict(list)
    for path, file in checked.items():
        replaced = path in sums and sums[path] != file.sha256
        if file.kind is None and is_picture(path) and not replaced:
            by_digest[file.sha256].append(path)
    for digest, paths in by_digest.items():
        # The original is the file whose recorded checksum matches, else the first by name.
        original, *copies = sorted(paths, key=lambda path: (sums.get(path) != digest, path))
        for copy in copies:
            other_class = class_of(copy) != class_of(original)
            yield DatasetProblem(
                copy,
                ProblemKind.DUPLICATE,
                f"has the same bytes as {original}" + (", of another class" if other_class else ""),
            )


def _list_problems(files: Sequence[ListFile], listed: Sequence[ListEntry]) -> Iterator[DatasetProblem]:
    for file in files:
        if file.bad_lines:
            detail = f"{file.bad_lines} lines are not 'path label'; the first is {file.first_bad}"
            yield DatasetProblem(file.name, ProblemKind.BAD_LIST, detail)
        elif not file.entries:
            yield DatasetProblem(file.name, ProblemKind.BAD_LIST, "is empty")
    first: dict[str, ListEntry] = {}
    for entry in listed:
        other = first.setdefault(entry.path, entry)
        if other is not entry:
            detail = (
                f"is listed twice: {other.where} (label {other.label}), {entry.where} (label {entry.label})"
            )
            yield DatasetProblem(entry.path, ProblemKind.DUPLICATE, detail)


def _contradicted_names(paths: Iterator[str]) -> Iterator[DatasetProblem]:
    """Yield ImageNet's pictures whose name gives another class than their folder."""
    for path in paths:
        name, folder = class_in_name(path), class_of(path)
        if name and folder and class_in_name(f"{folder}_") and name != folder:
            yield DatasetProblem(path, ProblemKind.MISLABELLED, f"its name says {name}, its folder {folder}")


def _limits(has_sums: bool, depth: Depth, has_lists: bool, has_labels: bool) -> tuple[str, ...]:
    """Return the limits of this verification as sentences."""
    limits = []
    if not has_sums:
        limits.append("no checksums: modified pixels are not found")
        if depth is Depth.STRUCTURE:
            limits.append(
                "pictures were not decoded: damage that only a decoder detects is not found (use --deep)"
            )
    if not has_lists:
        limits.append("no list file: labels were not checked")
    elif not has_labels:
        limits.append("the folders are not classes: labels were not checked")
    return tuple(limits)
