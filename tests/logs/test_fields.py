"""Numbers and time stamps in bulk, against the plain ways to read them."""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs.lines.fields import SHORT_STAMP, extract, numbers, stamps


@given(moments=st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31)), min_size=1, max_size=30))
@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S,%f"])
def test_time_stamps_follow_the_calendar(form: str, moments: list[datetime]) -> None:
    words = [moment.strftime(form).encode() for moment in moments]

    found = stamps(words)

    whole = [m if "%f" in form else m.replace(microsecond=0) for m in moments]
    assert found == pytest.approx([m.replace(tzinfo=UTC).timestamp() for m in whole], abs=2e-6, rel=0)


@pytest.mark.parametrize("count", [3, 400])
def test_a_stamp_without_a_year_is_read_in_a_leap_year(count: int) -> None:
    moments = [datetime(2000, 2, 29, 23, 59, 50, tzinfo=UTC) + timedelta(seconds=n) for n in range(count)]
    text = "".join(f"[{moment:%m/%d %H:%M:%S}] step {n}\n" for n, moment in enumerate(moments)).encode()

    found = extract(re.compile(rb"\[(?P<stamp>" + SHORT_STAMP + rb")\] step (?P<step>\d+)\n"), text).columns

    assert list(found["clock_s"]) == [moment.timestamp() for moment in moments]


def test_an_absent_stamp_is_no_time() -> None:
    assert np.isnan(stamps([b""])).all()


@given(values=st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_numbers_are_read_to_the_last_bit(values: list[float]) -> None:
    assert numbers([repr(value).encode() for value in values]).tolist() == values


def test_an_invalid_number_is_nan_and_its_neighbours_are_read() -> None:
    found = numbers([b"1.5", b"None", b"", b"2"])

    assert found[[0, 3]].tolist() == [1.5, 2.0]
    assert np.isnan(found[[1, 2]]).all()
