"""The level of a table of comparisons, and the variation between campaigns."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from trainmark.measure import estimate, ratio
from trainmark.measure.campaigns import (
    TABLE_LEVEL,
    TableVariance,
    campaign_variation,
    contrast,
    judge_table,
    largest_unchanged_difference,
    ratio_between_campaigns,
    table_variance,
)
from trainmark.schema.measurement import Estimate

RANDOM = np.random.Generator
TABLES = 30


def campaign(random: RANDOM, effects: Sequence[float], spread: float = 0.01, runs: int = 5) -> list[Estimate]:
    """Return the estimates of one campaign, whose cases are faster by ``effects`` (on logarithms)."""
    rates = np.exp(np.array(effects)[:, None] + spread * random.standard_normal((len(effects), runs)))
    found = [estimate(row.tolist()) for row in rates]
    return [one for one in found if one is not None]


def called(
    candidate: Sequence[Estimate], baselines: Sequence[Sequence[Estimate]], within: float = 0.0
) -> list[bool]:
    rows = list(zip(*baselines, strict=True))
    contrasts = [contrast(now, row) for now, row in zip(candidate, rows, strict=True)]
    values = judge_table(contrasts, campaign_variation(rows), within)
    return [value <= TABLE_LEVEL for value in values]


@pytest.mark.parametrize("cases", [16, 30])
def test_few_tables_of_unchanged_cases_have_a_false_call(cases: int) -> None:
    random, single, table = np.random.default_rng(cases), 0, 0
    for _ in range(TABLES):
        one, other = (campaign(random, np.zeros(cases).tolist()) for _ in range(2))
        intervals = [ratio(now, before) for now, before in zip(other, one, strict=True)]
        single += any(
            found is not None
            and found.interval is not None
            and not found.interval.low <= 1 <= found.interval.high
            for found in intervals
        )
        table += any(called(other, [one]))
    assert single > 0.35 * TABLES, "each case by its own interval"
    assert table <= 0.1 * TABLES


@pytest.mark.parametrize(("gap", "share"), [(0.1, 0.5), (0.25, 0.2)])
def test_few_tables_have_a_false_call_if_three_runs_of_each_case_jump_between_two_levels(
    gap: float, share: float
) -> None:
    random, table = np.random.default_rng(2), 0
    for _ in range(TABLES):
        sides = []
        for _ in range(2):
            jumps = np.log1p(-gap) * (random.random((30, 3)) < share)
            rates = np.exp(jumps + 0.01 * random.standard_normal((30, 3)))
            sides.append([found for row in rates if (found := estimate(row.tolist())) is not None])
        one, other = ([case for case in side if case.interval is not None] for side in sides)
        both = min(len(one), len(other))
        table += any(called(other[:both], [one[:both]]))
    assert table <= 0.1 * TABLES


def test_the_variances_of_a_table_with_one_variance_are_pooled_and_those_of_unlike_cases_are_not() -> None:
    random = np.random.default_rng(4)

    def variance(*spreads: float) -> TableVariance:
        sides = [
            [campaign(random, [0.0], spread, runs=8)[0] for spread in spreads for _ in range(20)]
            for _ in range(2)
        ]
        found = table_variance(
            [contrast(now, [before]) for now, before in zip(sides[1], sides[0], strict=True)]
        )
        assert found is not None
        return found

    assert variance(0.01).freedom > 10
    assert variance(0.001, 0.1).freedom == 4
    assert table_variance([]) is None


@pytest.mark.parametrize(("common", "specific"), [(0.0, 0.0), (0.01, 0.0), (0.0, 0.01), (0.005, 0.005)])
def test_few_tables_have_a_false_call_if_campaigns_differ_and_three_baselines_are_given(
    common: float, specific: float
) -> None:
    random, alone, several = np.random.default_rng(7), 0, 0
    for _ in range(TABLES):
        campaigns = [
            campaign(
                random,
                (common * random.standard_normal() + specific * random.standard_normal(16)).tolist(),
            )
            for _ in range(4)
        ]
        alone += any(called(campaigns[3], campaigns[:1]))
        several += any(called(campaigns[3], campaigns[:3]))
    assert several <= 0.1 * TABLES
    if common or specific:
        assert alone > 0.3 * TABLES, "within one campaign the effect looks like a change"


def test_a_real_change_is_found_among_unchanged_cases() -> None:
    random = np.random.default_rng(3)
    baselines = [campaign(random, [0.0] * 16) for _ in range(3)]
    found = called(campaign(random, [math.log(0.9), *[0.0] * 15]), baselines)
    assert found == [True, *[False] * 15]


def test_a_change_within_the_margin_is_none() -> None:
    random = np.random.default_rng(3)
    one, other = campaign(random, [0.0] * 4, 0.001), campaign(random, [0.02] * 4, 0.001)
    assert called(other, [one]) == [True] * 4
    assert called(other, [one], within=0.03) == [False] * 4


@pytest.mark.parametrize(
    ("factor", "within", "expected"),
    [
        (0.952, 0.05, False),
        (0.948, 0.05, True),
        (1.048, 0.05, False),
        (1.052, 0.05, True),
        (0.001, 1.0, False),
    ],
)
def test_a_margin_is_a_part_of_the_baseline_in_both_directions(
    factor: float, within: float, expected: bool
) -> None:
    random = np.random.default_rng(3)
    (one,), (other,) = campaign(random, [0.0], 1e-5), campaign(random, [math.log(factor)], 1e-5)
    assert called([other], [[one]], within=within) == [expected]


def test_one_baseline_gives_the_interval_of_a_ratio() -> None:
    random = np.random.default_rng(5)
    for runs in (3, 5, 8):
        (one,), (other,) = campaign(random, [0.0], runs=runs), campaign(random, [0.1], runs=runs)
        expected, found = ratio(other, one), ratio_between_campaigns(contrast(other, [one]), None)
        assert expected is not None
        assert expected.interval is not None
        assert found.interval is not None
        assert found.value == pytest.approx(expected.value)
        assert found.interval.low == pytest.approx(expected.interval.low)
        assert found.interval.high == pytest.approx(expected.interval.high)


def test_the_variation_between_campaigns_is_found_and_widens_every_interval() -> None:
    random = np.random.default_rng(11)
    effects = [0.02 * random.standard_normal() + 0.01 * random.standard_normal(40) for _ in range(12)]
    campaigns = [campaign(random, effect.tolist(), 0.005) for effect in effects]
    rows = list(zip(*campaigns, strict=True))
    found = campaign_variation(rows)
    assert found is not None
    assert (found.campaigns, found.cases) == (12, 40)
    assert 0.012 < found.common < 0.03
    assert found.specific == pytest.approx(0.01, rel=0.15)
    single = contrast(campaigns[0][0], rows[0][1:])
    narrow, wide = (ratio_between_campaigns(single, one).interval for one in (None, found))
    assert narrow is not None
    assert wide is not None
    assert wide.high / wide.low > (narrow.high / narrow.low) * 1.02
    assert 0.05 < largest_unchanged_difference(found, 16) < 0.15


def test_equal_campaigns_have_no_variation_and_one_campaign_shows_none() -> None:
    one = campaign(np.random.default_rng(1), [0.0] * 3)
    found = campaign_variation([(case, case, case) for case in one])
    assert found is not None
    assert (found.common, found.specific) == (0.0, 0.0)
    assert campaign_variation([(case,) for case in one]) is None
    assert campaign_variation([]) is None
    assert called(one, [one, one, one]) == [False] * 3


def test_the_significance_grows_with_the_number_of_cases() -> None:
    random = np.random.default_rng(2)
    one, other = campaign(random, [0.0]), campaign(random, [0.03])
    (alone,) = judge_table([contrast(other[0], one)], None)
    many = judge_table([contrast(other[0], one), *[contrast(one[0], one)] * 15], None)
    assert many[0] == pytest.approx(min(1.0, 16 * alone))
    assert many[1:] == [1.0] * 15
