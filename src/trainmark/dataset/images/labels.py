"""Telling from a list file and the class folders which lines carry a wrong label."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trainmark.dataset.images.layout import Listed, class_of
from trainmark.dataset.images.spec import ImageFolderSpec, class_folder


def labels_of_made(spec: ImageFolderSpec) -> dict[str, int]:
    """Return the label of each class folder of a made data set."""
    return {class_folder(label): label for label in range(spec.classes)}


def labels_by_folder(listed: Sequence[Listed]) -> dict[str, int | None]:
    """Return the label that more than half of each class folder's lines carry, all lists together.

    A folder with no such label has None. Where that is so of half the folders or more, they are not classes
    (a flat layout), and the result is empty.
    """
    by_folder: dict[str, Counter[int]] = defaultdict(Counter)
    for entry in listed:
        folder = class_of(entry.path)
        if folder is not None:
            by_folder[folder][entry.label] += 1
    labels = {folder: _majority(counts) for folder, counts in by_folder.items()}
    without = sum(label is None for label in labels.values())
    return labels if without * 2 < len(labels) else {}


def find_mislabelled(
    listed: Sequence[Listed], labels: Mapping[str, int | None]
) -> Iterator[tuple[Listed, str]]:
    """Yield the lines that contradict ``labels`` (by class folder), with a sentence on how.

    Lines of other folders than those in ``labels`` are not judged.
    """
    for entry in listed:
        folder = class_of(entry.path)
        if folder is None or folder not in labels or entry.label == labels[folder]:
            continue
        right = labels[folder]
        meant = f"{folder} is {right}" if right is not None else f"no label is that of most of {folder}"
        yield entry, f"{entry.where} gives label {entry.label}, and {meant}"


def _majority(counts: Counter[int]) -> int | None:
    label, count = counts.most_common(1)[0]
    return label if count * 2 > counts.total() else None
