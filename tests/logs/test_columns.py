"""Columns of a log's records: in memory, in a file, and side by side."""

import numpy as np
import pytest

from trainmark.logs.model import BLOCK_VALUES, BUFFERED_VALUES, Column, in_step, median


@pytest.mark.parametrize("late", [3, BUFFERED_VALUES - 7, 2 * BUFFERED_VALUES + 5])
def test_a_column_that_begins_late_is_read_with_the_others(late: int) -> None:
    early, joins = Column(), Column()
    count = late + BLOCK_VALUES + 11
    for start in range(0, count, 1000):
        early.append(np.arange(start, min(start + 1000, count), dtype=np.float64))
    joins.append(np.full(late, np.nan))
    joins.append(np.arange(late, count, dtype=np.float64))

    blocks = list(in_step([early, joins]))

    assert all(len(one) == len(other) <= BLOCK_VALUES for one, other in blocks)
    assert np.array_equal(np.concatenate([one for one, _ in blocks]), np.arange(count))
    second = np.concatenate([other for _, other in blocks])
    assert np.isnan(second[:late]).all()
    assert np.array_equal(second[late:], np.arange(late, count))


def test_a_truncated_temporary_file_is_an_error() -> None:
    column = Column()
    column.append(np.arange(2 * BUFFERED_VALUES, dtype=np.float64))
    assert column._file is not None
    column._file.truncate(100)

    with pytest.raises(OSError, match="is the disk of TMPDIR full"):
        column.array()


@pytest.mark.parametrize("values", [[3.0], [1.0, 2.5], [5.0, 1.0, 2.0], [1.0, np.nan], [0.1, 0.2, 0.3, 0.4]])
def test_the_median_is_that_of_numpy(values: list[float]) -> None:
    assert np.array_equal(median(values), np.median(values), equal_nan=True)


def test_values_of_a_short_column_cannot_be_changed_through_what_is_read() -> None:
    column = Column.of([1.0, 2.0, 3.0])

    with pytest.raises(ValueError, match="read-only"):
        column.array()[0] = 9.0
    assert [list(block) for block in column.blocks(1, 5)] == [[2.0, 3.0]]
    assert list(column.array(5)) == []
