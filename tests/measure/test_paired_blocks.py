"""The ratio of two programs that run in turn in blocks of seconds."""

import math

import numpy as np
import pytest
from scipy import stats

from trainmark.measure.paired_blocks import (
    LEAST_ROUNDS,
    Block,
    Disturbance,
    DisturbanceSlopes,
    Side,
    block_rate,
    disturbance_slopes,
    paired_ratio,
    ratios_of_rounds,
    round_orders,
)


def test_the_rate_of_a_block_leaves_out_the_step_that_contains_the_pause() -> None:
    # The step of the record at 10.0 began before the pause, so that its time is not one of this block.
    times = np.array([1.0, 2.0, 10.0, 10.5, 11.0, 11.5, 12.0, 12.5, 20.0])
    done = np.arange(9.0)

    assert block_rate(times, done, Block(Side.A, 9.9, 13.0)) == pytest.approx(2.0)


def test_a_block_of_few_records_has_no_rate() -> None:
    times = np.arange(5.0)

    assert block_rate(times, times, Block(Side.A, -1.0, 5.0)) is None


def test_a_round_without_a_rate_in_one_block_is_left_out() -> None:
    orders = round_orders(2, np.random.default_rng(1))
    blocks = [Block(side, 0.0, 1.0) for order in orders for side in order]
    rates: list[float | None] = [2.0 if block.side is Side.A else 4.0 for block in blocks]
    rates[1] = None

    assert ratios_of_rounds(blocks, rates) == [pytest.approx(0.5)]


def test_a_steady_drift_cancels_in_a_round() -> None:
    blocks = [Block(side, 0.0, 1.0) for side in (Side.A, Side.B, Side.B, Side.A)]

    assert ratios_of_rounds(blocks, [math.exp(0.1 * at) for at in range(4)]) == [pytest.approx(1.0)]


def test_each_round_has_each_program_twice_in_an_order_by_chance() -> None:
    orders = round_orders(50, np.random.default_rng(3))

    assert {"".join(order) for order in orders} == {"abba", "baab"}
    assert orders == round_orders(50, np.random.default_rng(3))


def test_fewer_rounds_than_the_level_needs_give_no_interval() -> None:
    assert paired_ratio([0.9] * (LEAST_ROUNDS - 1)) is None
    assert paired_ratio([0.9] * LEAST_ROUNDS) is not None


@pytest.mark.parametrize("rounds", [8, 9, 12, 20])
def test_the_interval_excludes_one_exactly_if_the_exact_test_of_wilcoxon_rejects(rounds: int) -> None:
    random = np.random.default_rng(rounds)
    for shift in np.linspace(0.0, 0.2, 40):
        ratios = np.exp(random.normal(-shift, 0.1, rounds))
        found = paired_ratio(ratios.tolist())
        assert found is not None
        p_value = stats.wilcoxon(np.log(ratios), method="exact").pvalue

        assert (found.change != "indistinguishable") == (p_value <= 0.01)


def test_a_hog_in_single_blocks_does_not_hide_a_change_of_ten_percent() -> None:
    random = np.random.default_rng(5)
    ratios = np.exp(random.normal(math.log(1 / 1.1), 0.04, 16))
    ratios[3], ratios[7] = 0.4, 2.5

    found = paired_ratio(ratios.tolist())

    assert found is not None
    assert found.change == "slower"
    assert found.value == pytest.approx(1 / 1.1, rel=0.05)


def test_equal_programs_are_called_different_in_about_one_of_a_hundred_comparisons() -> None:
    random = np.random.default_rng(7)
    calls = 0
    for _ in range(400):
        # Heavy tails, as of a machine that others use.
        found = paired_ratio(np.exp(0.05 * random.standard_t(2, 12)).tolist())
        assert found is not None
        calls += found.change != "indistinguishable"

    assert calls <= 10


def noisy_blocks(seed: int, effect: float, rounds: int = 12) -> tuple[list[Block], list[float | None]]:
    """Blocks of two programs that wait for a part of each, and are slower by 40 % at a busy core; A by ``effect``."""
    random = np.random.default_rng(seed)
    sides = [side for order in round_orders(rounds, random) for side in order]
    blocks = []
    rates: list[float | None] = []
    for side in sides:
        load = Disturbance(float(random.beta(2, 8)), float(random.beta(2, 2)))
        blocks.append(Block(side, 0.0, 1.0, load))
        slower = (1 + effect * (side is Side.A)) * math.exp(random.normal(0, 0.02))
        rates.append(100 * (1 - load.waited) * (1 - 0.4 * load.others) / slower)
    return blocks, rates


def changes(effect: float, *, adjusted: bool) -> list[str]:
    found = []
    for seed in range(40):
        blocks, rates = noisy_blocks(seed, effect)
        slopes = disturbance_slopes(blocks, rates) if adjusted else None
        ratio = paired_ratio(ratios_of_rounds(blocks, rates, slopes))
        assert ratio is not None
        found.append(ratio.change)
    return found


def test_at_equal_disturbance_a_change_of_ten_percent_is_found_that_the_plain_rates_hide() -> None:
    assert changes(0.1, adjusted=True).count("slower") == 40
    assert changes(0.1, adjusted=False).count("slower") < 20


def test_at_equal_disturbance_equal_programs_stay_indistinguishable() -> None:
    assert changes(0.0, adjusted=True).count("indistinguishable") >= 38


def test_nothing_is_adjusted_where_no_program_was_disturbed_or_where_it_is_not_known() -> None:
    blocks, rates = noisy_blocks(1, 0.1)

    found = disturbance_slopes(blocks, rates)
    assert found.waited == pytest.approx(1.0, abs=0.25)
    assert found.others == pytest.approx(0.5, abs=0.15)
    quiet = [Block(block.side, 0.0, 1.0, Disturbance(0.001, 0.0)) for block in blocks]
    assert disturbance_slopes(quiet, rates) == DisturbanceSlopes()
    assert disturbance_slopes([Block(block.side, 0.0, 1.0) for block in blocks], rates) == DisturbanceSlopes()
