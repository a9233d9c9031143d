"""Numbers of JSON lines decoded by shape: the same as those that ``json`` decodes one by one."""

import io
import json
import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs import Facts
from trainmark.logs.lines.digits import IrregularError
from trainmark.logs.lines.json_lines import Hooks, Row, read_object, rows_by_line, rows_by_shape
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.programs import find_format, read_stream, synthetic_log
from trainmark.programs.log_formats.mlperf.events import rows_of

_PREFIX = b"X "


def _read_row(body: str, hooks: Hooks) -> Row | None:
    found = read_object(body, hooks)
    if found is None or "a" not in found:
        return None
    words: list[Any] = [found["a"], found.get("b", {}).get("c"), len(found)]
    return tuple(float("nan") if word is None else word for word in words)


_NUMBERS = st.one_of(
    st.integers(-(10**15), 10**15),
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 6)),
    st.sampled_from([1.5e-05, -2e20, 0.1 + 0.2, 0, -0.0]),
)


@given(
    st.lists(
        st.tuples(_NUMBERS, st.none() | _NUMBERS, st.text('z1}{"\\é', max_size=4)), min_size=1, max_size=60
    )
)
def test_lines_by_shape_have_the_numbers_that_json_decodes(objects: list[tuple[Any, Any, str]]) -> None:
    bodies = [
        json.dumps({"s": text, "b": {"c": inner}, "a": number, text: 3}, ensure_ascii=False)
        for number, inner, text in objects
    ]
    text = "".join(f"12:00 X {body}\n" for body in bodies).encode()

    found = rows_by_shape(text, _PREFIX, 3, _read_row)

    if found is not None:
        wanted = [_read_row(body, {}) for body in bodies]
        rows = [[math.nan] * len(bodies) if column is None else column for column in found.columns]
        assert np.array_equal(np.array(rows).T, np.array(wanted, np.float64), equal_nan=True)


@given(st.lists(st.tuples(_NUMBERS, st.none() | _NUMBERS, st.sampled_from("xyz")), min_size=1, max_size=60))
def test_objects_of_known_shapes_have_the_numbers_that_json_decodes(
    objects: list[tuple[Any, Any, str]],
) -> None:
    bodies = [json.dumps({"b": {"c": inner}, "a": number, text: 3}) for number, inner, text in objects]

    found = list(rows_by_line([body.encode() for body in bodies], _read_row))

    wanted = [row for body in bodies if (row := _read_row(body, {})) is not None]
    assert np.array_equal(np.array(found), np.array(wanted), equal_nan=True)


def test_objects_of_a_known_shape_with_a_leading_zero_are_left_out() -> None:
    bodies = [b'{"a": 11}', b'{"a": 12}', b'{"a": 13}', b'{"a": 01}', b'{"a": 14}']

    assert [row[0] for row in rows_by_line(bodies, _read_row)] == [11, 12, 13, 14]


def test_lines_of_one_shape_are_decoded_as_arrays_and_damaged_ones_left_out() -> None:
    lines = [f'X {{"a": {number}.25, "b": {{"c": {number}e-1}}}}\n' for number in range(10, 99)]
    text = "".join([*lines, "no object\n", 'X {"a": 1.5\n', 'X {"z": 1}\n'] * 2).encode()

    found = rows_by_shape(text, _PREFIX, 3, _read_row)

    assert found is not None
    assert found.columns[0] is not None
    assert found.columns[1] is not None
    assert found.columns[0].tolist() == [number + 0.25 for number in range(10, 99)] * 2
    assert found.columns[1][0] == 10e-1
    assert len(found.samples) == 4


def test_leading_zeros_are_no_json() -> None:
    text = "".join(f'X {{"a": {number:02}}}\n' for number in range(50, 0, -1)).encode()

    assert rows_by_shape(text, _PREFIX, 3, _read_row) is None


def test_a_text_whose_strings_decide_numbers_is_read_line_by_line() -> None:
    def by_name(body: str, hooks: Hooks) -> Row | None:
        if hooks:
            raise IrregularError
        return float(json.loads(body)["name"][-1]), 0, 0

    few = rows_by_shape(b'X {"name": "v1"}\nX {"name": "v2"}\n', _PREFIX, 3, by_name)

    assert few is not None
    assert few.columns[0] is not None
    assert few.columns[0].tolist() == [1, 2]
    assert rows_by_shape(b'X {"name": "v1"}\n' * 20, _PREFIX, 3, by_name) is None


def test_mlperf_events_by_shape_are_those_decoded_one_by_one() -> None:
    text = synthetic_log("mlperf", SampleRun([0.2 + 0.001 * (i % 7) for i in range(3000)])).encode()
    tracked = ':::MLLOG {"key": "tracked_stats", "time_ms": 1690527000123, "value": {"throughput": %s}}\n'
    text += "".join(tracked % (1000 + i / 7) for i in range(40)).encode()

    regular, one_by_one = rows_of(text), rows_of(text + b"no line end")

    assert len(regular.samples) > 1
    assert regular.columns.keys() == one_by_one.columns.keys()
    for name, values in regular.columns.items():
        assert np.array_equal(values, one_by_one.columns[name], equal_nan=True)


def test_own_events_in_another_form_have_the_same_records() -> None:
    text = synthetic_log("trainmark", SampleRun([0.2 + 0.001 * (i % 7) for i in range(200)])).encode()
    own = find_format("trainmark").extract
    assert own is not None

    regular, other = own(text), own(text.replace(b'": ', b'" : '))

    for name, values in regular.columns.items():
        assert values.tolist() == other.columns[name].tolist()


def test_a_result_behind_megabytes_of_other_lines_is_found() -> None:
    losses = b"".join(
        b"Iteration: %6d, Loss function: 5.321, Average Loss: 6.102\n" % i for i in range(60_000)
    )
    result = (
        b"Done benchmarking. Total images: 57000\ttotal time: 88.202\tAverage images/sec: 646.242\t"
        b"Median images/sec: 646.354\n"
    )

    log = read_stream(io.BytesIO(losses + result), given=Facts(gpus=8))

    assert log.format == "nvidia-ssd"
    assert measure_log(log).value == 646.242
