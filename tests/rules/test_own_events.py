"""A run's own events give one number: by ``parse`` and by a campaign, to the last digit, or by neither."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs.events import parse_events
from trainmark.logs.model import Status
from trainmark.measure import NotMeasurable, measure_events
from trainmark.measure.rules import measure_log
from trainmark.programs import read_stream


def text(times: list[float], summary: dict[str, Any]) -> str:
    parameters = {"schema": "trainmark.events/1", "world_size": 1, "batch_per_device": 8, "global_batch": 8}
    steps = [([0, n], {"phase": "measured", "step_time_s": seconds}) for n, seconds in enumerate(times)]
    events = [("PARAMETER", parameters | {"unit": "tokens/s", "precision": "fp32"}), *steps, ([], summary)]
    return "".join(f"DLLL {json.dumps({'step': step, 'data': data})}\n" for step, data in events)


def numbers(events: str) -> tuple[float | None, float | None]:
    """Return what a campaign makes of events, and what ``parse`` does."""
    try:
        measured = measure_events(parse_events(events.split("\n"))).throughput
    except NotMeasurable:
        measured = None
    return measured, measure_log(read_stream(io.BytesIO(events.encode()))).value


@given(
    times=st.lists(st.floats(1e-4, 10), min_size=1, max_size=40),
    longer=st.floats(1, 1e4),
    lost=st.booleans(),
)
def test_parse_and_campaign_compute_the_same_number(times: list[float], longer: float, lost: bool) -> None:
    window_s, samples = sum(times) * longer, 8 * len(times) - 8 * lost
    events = text(times, {"outcome": "ok", "throughput": 1.0, "window_s": window_s, "samples": samples})
    campaign, parsed = numbers(events)
    assert campaign == parsed
    assert campaign == (None if lost else samples / window_s)


@given(times=st.lists(st.floats(1, 10), min_size=1, max_size=40), part=st.floats(0.01, 0.8))
def test_a_window_shorter_than_its_steps_has_no_number_in_either(times: list[float], part: float) -> None:
    summary = {"outcome": "ok", "throughput": 1.0, "window_s": sum(times) * part, "samples": 8 * len(times)}
    assert numbers(text(times, summary)) == (None, None)


@pytest.mark.parametrize("summary", [{}, {"throughput": 40.0}, {"window_s": 2.0, "throughput": 40.0}])
def test_an_incomplete_window_has_no_number_in_either(summary: dict[str, Any]) -> None:
    assert numbers(text([0.1] * 10, summary)) == (None, None)


def test_a_window_that_contradicts_its_steps_is_invalid_with_a_reason() -> None:
    events = text([0.1] * 10, {"window_s": 1.0, "samples": 79, "throughput": 79.0})
    result = measure_log(read_stream(io.BytesIO(events.encode())))
    assert (result.status, result.value) == (Status.INVALID, None)
    assert "79 samples" in result.problems[0].message


def test_the_unit_is_the_runs_own() -> None:
    log = read_stream(
        io.BytesIO(text([0.1] * 10, {"window_s": 1.0, "samples": 80, "throughput": 80.0}).encode())
    )
    assert log.unit == "tokens/s"
