"""The measurement of one run from events that are complete, damaged or contradictory."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs.events import parse_events
from trainmark.measure import NotMeasurable, measure_events
from trainmark.schema.measurement import Measurement

PARAMETERS = {"schema": "trainmark.events/1", "global_batch": 8, "unit": "images/s"}


def event(step: Any, **data: Any) -> str:
    return "DLLL " + json.dumps({"step": step, "data": data})


def lines(steps: int = 6, warmup: int = 2, step_s: float = 0.1, **summary: Any) -> list[str]:
    measured = steps - warmup
    whole = {"outcome": "ok", "samples": 8 * measured, "window_s": step_s * measured, "first_step_s": 3.0}
    return [
        event("PARAMETER", **PARAMETERS),
        *(
            event(
                [0, i],
                phase="measured" if i >= warmup else "warmup",
                step_time_s=step_s,
                loss=2.0,
                data_wait_s=0.01,
            )
            for i in range(steps)
        ),
        event([], **(whole | summary)),
    ]


def measured(text: list[str]) -> Measurement:
    return measure_events(parse_events(text))


def test_throughput_is_samples_over_the_window_and_never_a_mean_of_rates() -> None:
    found = measured(lines(window_s=0.5))
    assert (found.throughput, found.samples, found.window_s) == (64.0, 32, 0.5)
    assert (found.measured_steps, found.warmup_steps, found.first_step_s) == (4, 2, 3.0)
    assert found.data_wait == pytest.approx(0.04 / 0.5)
    assert found.step_times is not None
    assert (found.step_times.minimum, found.step_times.maximum) == (0.1, 0.1)
    assert found.final_loss == 2.0


def test_the_roofline_is_read_with_the_rate_of_all_memories() -> None:
    found = measured(lines(peak_bytes_per_s=[100, 50], roofline=0.5))
    assert (found.peak_bytes_per_s, found.roofline) == (150, 0.5)
    assert measured(lines(peak_bytes_per_s=None, roofline=None)).roofline is None


def test_an_mfu_above_one_is_dropped() -> None:
    summary: dict[str, Any] = {"peak_operations_per_s": [100], "mfu": {"counted": 0.9, "6N+12LHQT": 1.1}}
    found = measured(lines(**summary))
    assert (found.mfu, found.peak_operations_per_s) == ({}, 100)
    assert measured(lines(**{**summary, "mfu": {"counted": 0.9}})).mfu == {"counted": 0.9}


def test_skipped_steps_are_reported() -> None:
    assert measured(lines()).steps_skipped is None
    assert measured(lines(after_window={"steps_taken": 4, "steps_skipped": 2})).steps_skipped == 2
    assert measured(lines(after_window={"steps_taken": 6})).steps_skipped is None


def test_checks_of_the_work_that_had_nothing_to_look_at_are_reported() -> None:
    assert measured(lines()).work_not_checked is None
    assert measured(lines(after_window={"steps_taken": 6})).work_not_checked is None
    assert measured(lines(after_window={"not_checked": ["loss"]})).work_not_checked == ("loss",)


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"window_s": 0.2}, "a window of 0.2 s cannot contain 4 steps that took 0.4 s"),
    ({"samples": 31}, "the window counts 31 samples, but 4 steps with a global batch of 8 make 32"),
    ({"samples": 0}, "samples: input should be greater than 0"),
    ({"samples": 32.5}, "samples: input should be a valid integer"),
    ({"samples": True}, "samples: input should be a valid integer"),
    ({"window_s": 0}, "window_s: input should be greater than 0"),
    ({"window_s": "1"}, "window_s: input should be a valid number"),
    ({"window_s": 1e-320}, "32 samples cannot have taken 1e-320 s"),
    ({"window_s": 10**400}, "window_s"),
    ({"peak_memory_bytes": [1, "much"]}, r"peak_memory_bytes\.1"),
    ({"suspect": [{"code": "x"}]}, r"suspect\.0\.sentence: field required"),
    ({"suspect": "all"}, "suspect"),
]


@pytest.mark.parametrize(
    ("summary", "reason"), CONTRADICTIONS, ids=[str(list(s)) + t[:9] for s, t in CONTRADICTIONS]
)
def test_a_contradictory_window_is_not_measurable(summary: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotMeasurable, match=reason):
        measured(lines(**summary))


def test_a_short_window_has_no_more_slack_than_a_long_one() -> None:
    with pytest.raises(NotMeasurable, match=r"a window of 0\.004 s cannot contain 4 steps that took 0\.04 s"):
        measured(lines(step_s=0.01, window_s=0.004))
    assert measured(lines(step_s=0.01, window_s=0.04)).throughput == 800


def test_a_step_of_zero_seconds_is_not_measurable() -> None:
    with pytest.raises(NotMeasurable, match=r"a step cannot have taken 0\.0 s"):
        measured(lines(step_s=0.0, window_s=1.0))


def test_a_run_that_ended_during_its_warm_up_is_not_measurable() -> None:
    with pytest.raises(NotMeasurable, match="no measured step"):
        measured(lines(steps=2, samples=8, window_s=1.0))
    with pytest.raises(NotMeasurable, match="no measured window"):
        measured(lines()[:-1])
    with pytest.raises(NotMeasurable, match="no parameters"):
        measured(lines()[1:])
    with pytest.raises(NotMeasurable, match="do not include a global batch"):
        measured([event("PARAMETER", unit="images/s"), *lines()[1:]])


def test_a_run_with_a_missing_step_line_is_not_measurable() -> None:
    text = lines()
    del text[4]
    with pytest.raises(NotMeasurable, match="the window counts 32 samples, but 3 steps"):
        measured(text)


def test_the_runs_own_doubts_become_doubts_about_its_work() -> None:
    (doubt,) = measured(lines(suspect=[{"code": "loss-not-finite", "sentence": "NaN."}])).suspicions
    assert (doubt.code, doubt.sentence, doubt.about) == ("loss-not-finite", "NaN.", "work")


def test_a_run_without_finite_losses_has_no_final_loss() -> None:
    text = [line.replace('"loss": 2.0', '"loss": null') for line in lines()]
    assert measured(text).final_loss is None


DAMAGE = [
    "DLLL {", "DLLL []", "DLLL 7", "\x00\x01", 'DLLL {"step": [], "data": {"window_s": NaN}}',
    'DLLL {"step": [], "data": {"reason": "\\ud800"}}', "DLLL " + "[" * 100_000, "DLLL " + "9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("line", DAMAGE, ids=[line[:24] for line in DAMAGE])
def test_a_damaged_line_is_counted_and_changes_nothing(line: str) -> None:
    events = parse_events([*lines(), line, ""])
    assert events.damaged_lines == 1
    assert measure_events(events) == measured(lines())


def test_a_number_too_large_for_a_float_is_a_step_without_a_time() -> None:
    events = parse_events([event([0, 0], phase="measured", step_time_s=10**400)])
    assert np.isnan(events.step_times_s).all()


@given(st.data())
def test_truncated_events_are_never_measurable(data: st.DataObject) -> None:
    text = "\n".join(lines()) + "\n"
    cut = data.draw(st.integers(0, len(text) - 2))
    with pytest.raises(NotMeasurable):
        measured(text[:cut].split("\n"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ["window_s", "samples", "first_step_s", "compile_s", "peak_memory_bytes", "suspect", "outcome"]


@given(st.dictionaries(st.sampled_from(KEYS), json_values))
def test_any_summary_gives_a_measurement_or_a_reason(summary: dict[str, Any]) -> None:
    with suppress(NotMeasurable):
        found = measured(lines(**summary))
        assert Measurement.model_validate_json(found.model_dump_json()) == found
