"""Find the lines of list files whose label contradicts the class folders."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trainmark.dataset.images.layout import ListEntry, class_of
from trainmark.dataset.images.spec import ImageFolderSpec, class_folder


def labels_of_made(spec: ImageFolderSpec) -> dict[str, int]:
    """Return the label of each class folder of a data set that trainmark created."""
    return {class_folder(label): label for label in range(spec.classes)}


def labels_by_folder(listed: Sequence[ListEntry]) -> dict[str, int | None]:
    """Return each class folder's majority label over all lists.

    A folder without a majority label has None. If half of the folders or more have none, the folders are not classes (a
    flat layout), and the result is empty.
    """
    by_folder: dict[str, Counter[int]] = defaultdict(Counter)
    for entry in listed:
        folder = class_of(entry.path)
        if folder is not None:
            by_folder[folder][entry.label] += 1
    labels = {folder: _majority(counts) for folder, counts in by_folder.items()}
    undecided = sum(label is None for label in labels.values())
    return labels if undecided * 2 < len(labels) else {}


def find_mislabelled(
    listed: Sequence[ListEntry], labels: Mapping[str, int | None]
) -> Iterator[tuple[ListEntry, str]]:
    """Yield the lines that contradict ``labels`` (by class folder), with a description.

    Lines of folders missing from ``labels`` are skipped.
    """
    for entry in listed:
        folder = class_of(entry.path)
        if folder is None or folder not in labels or entry.label == labels[folder]:
            continue
        expected = labels[folder]
        reason = f"{folder} is {expected}" if expected is not None else f"{folder} has no majority label"
        yield entry, f"{entry.where} gives label {entry.label}, but {reason}"


def _majority(counts: Counter[int]) -> int | None:
    label, count = counts.most_common(1)[0]
    return label if count * 2 > counts.total() else None
