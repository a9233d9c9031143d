"""Find missing columns and invalid samples of clicks, in any file format."""

from collections.abc import Container, Sequence

import numpy as np
from numpy.typing import NDArray

from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.records import COLUMNS


def missing_column(columns: Container[str]) -> str | None:
    """Describe the first of Criteo's columns that is missing; None if all exist."""
    missing = [name for name in COLUMNS if name not in columns]
    return f"has no column {missing[0]}" if missing else None


def first_invalid_sample(words: NDArray[np.uint32], sizes: Sequence[int], before: int) -> str | None:
    """Describe the first invalid sample; None if all are valid. ``before`` samples precede ``words`` in the file."""
    dense = np.ascontiguousarray(words[:, 1 : 1 + DENSE]).view("<f4")
    wrong = np.concatenate(
        [words[:, :1] > 1, ~np.isfinite(dense), words[:, 1 + DENSE :] >= np.asarray(sizes)], axis=1
    )
    if not wrong.any():
        return None
    row, column = map(int, np.unravel_index(int(wrong.argmax()), wrong.shape))
    name = COLUMNS[column]
    if name == "label":
        problem = f"label {words[row, 0]}, not 0 or 1"
    elif column <= DENSE:
        problem = f"{dense[row, column - 1]} in {name}, which is not a number"
    else:
        problem = f"category {words[row, column]} in {name}, which has {sizes[column - 1 - DENSE]} categories"
    return f"sample {before + row} has {problem}"
