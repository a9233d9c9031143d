"""What is wrong with samples of clicks, whatever file they lie in."""

from collections.abc import Container, Sequence

import numpy as np
from numpy.typing import NDArray

from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.records import COLUMNS


def missing_column(columns: Container[str]) -> str | None:
    """Return what is wrong with columns that are not all of Criteo's."""
    missing = [name for name in COLUMNS if name not in columns]
    return f"has no column {missing[0]}" if missing else None


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
