"""Changes of level in noisy series: found where they are, and not found where there are none."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.history.change_points import LEAST_AFTER, find_changes

COUNT = 60


def independent(seed: int, spread: float = 0.01) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(0, spread, COUNT)


def test_a_shift_of_three_percent_is_found_at_its_place() -> None:
    values = independent(1)
    values[40:] -= 0.03

    (step,) = find_changes(values).steps

    assert abs(step.index - 40) <= 2
    assert step.earliest <= 40 <= step.latest
    assert step.size == pytest.approx(-0.03, abs=0.008)
    assert step.confirmed


def test_two_shifts_are_both_found() -> None:
    values = independent(2)
    values[20:] -= 0.05
    values[40:] += 0.08

    assert [round(step.index / 20) for step in find_changes(values).steps] == [1, 2]


@pytest.mark.parametrize(
    "levels",
    [
        [(0, 12), (-0.2, 6), (0, 8)],
        [(0, 10), (0.2, 12), (0, 6)],
        [(0, 12), (-0.1, 12), (-0.2, 12)],
        [(0, 8), (-0.2, 6), (0, 8), (-0.2, 6)],
    ],
    ids=["repaired", "reverted", "two falls", "twice"],
)
def test_shifts_that_hide_each_other_are_found(levels: list[tuple[float, int]]) -> None:
    values = np.concatenate([np.full(count, level) for level, count in levels])
    places = np.cumsum([count for _, count in levels])[:-1].tolist()

    steps = find_changes(values + independent(2)[: values.size]).steps

    assert [step.index for step in steps] == places
    assert all(step.confirmed for step in steps)


def test_a_steep_drift_is_no_staircase() -> None:
    drift = -0.1 * np.arange(20) / 20
    found = [find_changes(drift + independent(seed)[:20]).steps for seed in range(40)]

    assert sum(any(step.confirmed for step in steps) for steps in found) <= 2


def test_spikes_are_marked_and_are_no_change() -> None:
    values = independent(3)
    values[[10, 30, 50]] -= 0.3

    found = find_changes(values)

    assert found.steps == ()
    assert found.spikes[[10, 30, 50]].all()
    assert found.spikes.sum() <= 4
    assert found.spread < 0.015


def test_two_levels_are_named_and_are_no_change() -> None:
    values = independent(4, 0.003) - np.where(np.random.default_rng(5).random(COUNT) < 0.3, 0.04, 0)

    found = find_changes(values)

    assert [step for step in found.steps if step.confirmed] == []
    assert found.two_levels == pytest.approx(0.04, abs=0.005)


def test_a_drift_is_named_and_is_no_change() -> None:
    values = independent(6) + 0.05 * np.arange(COUNT) / COUNT

    found = find_changes(values)

    assert found.steps == ()
    assert found.drift == pytest.approx(0.05, abs=0.02)


def test_machines_that_take_turns_are_levels_of_their_own() -> None:
    machines = np.random.default_rng(7).integers(0, 3, COUNT)
    values = independent(8) + np.asarray([0.0, -0.2, 0.1])[machines]

    assert find_changes(values, machines.tolist()).steps == ()

    values[30:] -= 0.06
    (step,) = find_changes(values, machines.tolist()).steps
    assert abs(step.index - 30) <= 2


def test_a_machine_that_replaced_another_for_good_is_a_change() -> None:
    values = independent(9)
    values[30:] += 0.1

    (step,) = find_changes(values, [0] * 30 + [1] * 30).steps

    assert step.index == 30


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_change_with_too_few_results_after_it_is_not_confirmed(after: int) -> None:
    values = independent(10)
    values[-after:] -= 0.1

    (step,) = find_changes(values).steps

    assert step.index == COUNT - after
    assert not step.confirmed


def test_a_change_is_confirmed_by_the_fourth_result_after_it() -> None:
    values = independent(11)
    values[-LEAST_AFTER:] -= 0.1

    (step,) = find_changes(values).steps

    assert step.confirmed


def test_equal_results_are_no_change_and_no_error() -> None:
    found = find_changes([1.0] * COUNT)

    assert found.steps == ()
    assert found.spread == pytest.approx(0)


def test_a_step_without_any_noise_is_found() -> None:
    (step,) = find_changes([1.0] * 20 + [0.9] * 20).steps

    assert (step.index, step.earliest, step.latest) == (20, 20, 20)


def test_changes_below_the_least_do_not_count() -> None:
    values = independent(12, 0.001)
    values[30:] -= 0.01

    assert find_changes(values).steps == ()
    assert len(find_changes(values, least=0.005).steps) == 1


def test_a_fall_is_compared_with_the_least_as_a_part_of_the_rate_before() -> None:
    values = independent(12, 0.001)
    values[30:] += np.log1p(-0.185)

    assert find_changes(values, least=0.2).steps == ()
    assert len(find_changes(values, least=0.18).steps) == 1


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(-20, 20), min_size=10, max_size=40),
    machines=st.lists(st.integers(0, 3), min_size=40, max_size=40),
)
def test_any_series_has_steps_in_order_within_it(values: list[float], machines: list[int]) -> None:
    found = find_changes(values, machines[: len(values)])

    places = [step.index for step in found.steps]
    assert places == sorted(set(places))
    assert all(0 < place < len(values) for place in places)
    assert all(step.earliest <= step.index <= step.latest for step in found.steps)
    assert np.isfinite(found.levels).all()
