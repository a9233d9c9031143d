"""Statistics over several campaigns of one baseline, and the level of a whole table of comparisons.

Two campaigns of an unchanged program differ by more than their runs do: another day, a warmer machine. With several
campaigns of the baseline this variation is estimated and is part of every interval. The model, on logarithms, of the
median of case c in campaign i is ``case(c) + common(i) + specific(c, i) + noise(c, i)``:

* ``common`` moves all cases of a campaign at once. Its standard deviation is that of the campaigns' weighted means over
  the cases, with B - 1 degrees of freedom for B campaigns;
* ``specific`` is a case's own deviation in a campaign, with one variance for all cases. It is the value at which the
  weighted sum of squared residuals equals the median of its chi-squared distribution with (C - 1)(B - 1) degrees of
  freedom (Q-profile; Viechtbauer, Statistics in Medicine 26, 2007, at the median instead of at the ends);
* ``noise`` is that of the runs: it comes from the interval of each case in each campaign, as for a ratio.

The interval of a ratio combines the three by MOVER (Zou and Donner 2008), each at its own degrees of freedom.

A table has many cases, so that verdicts at 95 % each would call some unchanged case faster or slower in most tables.
``judge_table`` uses the method of Holm (Scandinavian Journal of Statistics 6, 1979): in at most 5 % of tables is any
unchanged case called, whatever happened to the others. With several campaigns half of the 5 % is reserved for the
common effect, which is one event for all cases. ``benchmarks/compare.py`` has the simulation.

Few runs of a case that jump between two levels may lie on one level by chance, so that their spread says nothing of the
jumps. With one baseline the spread of the other cases does: the p-value is the larger one of the case's own and of a
moderated t-test (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004), whose variance is the
case's own shrunk towards the table's; how far follows from how much the cases' variances differ. Runs that resemble the
run before them show too little of their error too: with one baseline, a correlation that the table's cases show
together widens it (``run_correlation``); several baselines show the error of a campaign themselves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.measure.run_correlation import inflation
from trainmark.measure.statistics import CONFIDENCE, log_margin, student_t
from trainmark.schema.comparison import CampaignVariation
from trainmark.schema.measurement import Estimate, Interval, IntervalMethod, Ratio

TABLE_LEVEL = 0.05
"""The largest share of tables without any change in which a case is called faster or slower."""
COMMON_SHARE = 0.5
"""The share of the level that is reserved for an effect common to all cases, if there are several baselines."""
_BISECTIONS = 40
_LEAST_CASES = 3
"""The least cases whose variances show how much variances differ in a table."""
_LEAST_FREEDOM = 4.0
"""The degrees of freedom that the table's variance is worth at least: as much as five runs."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contrast:
    """A candidate's logarithm minus the mean of its baselines', and the known facts about its error.

    ``up`` and ``down`` are the standard errors from the runs' variation towards higher and lower values with their
    degrees of freedom. ``campaigns`` is the number of baselines.
    """

    value: float
    up: tuple[float, float]
    down: tuple[float, float]
    campaigns: int


def contrast(candidate: Estimate, baselines: Sequence[Estimate], correlation: float = 0.0) -> Contrast:
    """Return the contrast of a candidate with its baselines, all of which have an interval.

    ``correlation`` is that of a run with the run before it: the runs' spread shows too little of the error then.
    """
    value = math.log(candidate.median) - math.fsum(math.log(one.median) for one in baselines) / len(baselines)
    weight = 1 / len(baselines) ** 2
    sides = []
    for towards_high in (True, False):
        terms = [_variance(candidate, towards_high, correlation)]
        terms += [
            (weight * variance, freedom)
            for variance, freedom in (_variance(one, not towards_high, correlation) for one in baselines)
        ]
        sides.append(_summed(terms))
    return Contrast(value, sides[0], sides[1], len(baselines))


def campaign_variation(table: Sequence[Sequence[Estimate]]) -> CampaignVariation | None:
    """Return the variation between the campaigns of a table: a row for each case, an estimate for each campaign.

    All estimates have an interval. None if there are fewer than two campaigns, or no case.
    """
    if not table or len(table[0]) < 2:
        return None
    logs = np.array([[math.log(one.median) for one in row] for row in table])
    cases, campaigns = logs.shape
    residuals = logs - logs.mean(axis=1, keepdims=True)
    noise = np.array([_noise(row) for row in table])
    freedom = (cases - 1) * (campaigns - 1)
    variance = _specific_variance(residuals, noise, freedom)
    return CampaignVariation(
        campaigns=campaigns,
        cases=cases,
        common=float(np.sqrt((_common(residuals, noise + variance) ** 2).sum() / (campaigns - 1))),
        specific=math.sqrt(variance),
    )


def ratio_between_campaigns(found: Contrast, variation: CampaignVariation | None) -> Ratio:
    """Return the candidate's ratio to its baselines, with an interval that covers the variation between campaigns.

    Without a ``variation`` the interval covers only that of the runs within these campaigns.
    """
    up, down = (_reach(side, found.campaigns, variation) for side in (found.up, found.down))
    value = math.exp(found.value)
    return Ratio(
        value=value,
        interval=Interval(
            low=value * math.exp(-down), high=value * math.exp(up), method=IntervalMethod.MOVER_LOG
        ),
    )


def largest_unchanged_difference(variation: CampaignVariation, cases: int) -> float:
    """Return the share by which some of ``cases`` unchanged cases differs between two campaigns at most.

    5 of 100 pairs of campaigns differ by more in some case.
    """
    common = student_t(variation.campaigns - 1, 1 - TABLE_LEVEL * COMMON_SHARE) * variation.common
    level = 1 - TABLE_LEVEL * (1 - COMMON_SHARE) / cases
    freedom = (variation.cases - 1) * (variation.campaigns - 1)
    specific = student_t(freedom, level) * variation.specific if freedom else 0.0
    return math.expm1(math.sqrt(2) * math.hypot(common, specific))


def judge_table(
    contrasts: Sequence[Contrast], variation: CampaignVariation | None, within: float = 0.0
) -> list[float]:
    """Return for each contrast the significance in its table, at most 1: a change is called up to ``TABLE_LEVEL``.

    A change of at most the share ``within`` is none. The values are p-values by Holm's method; those for several
    campaigns are doubled, because half of the level is reserved for the common effect.
    """
    share = 1 - COMMON_SHARE if variation is not None else 1.0
    values = [_p_value(one, variation, within) for one in contrasts]
    if variation is None and (prior := table_variance(contrasts)) is not None:
        values = [
            max(value, _moderated_p_value(one, prior, within))
            for value, one in zip(values, contrasts, strict=True)
        ]
    adjusted, largest = [1.0] * len(values), 0.0
    for place, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, values[index] * (len(values) - place) / share)
        adjusted[index] = min(1.0, largest)
    return adjusted


def _p_value(found: Contrast, variation: CampaignVariation | None, within: float) -> float:
    """Return the two-sided p-value of a difference beyond ``within`` and beyond the common effect's margin."""
    from scipy import special

    beyond = abs(found.value) - log_margin(within, rises=found.value > 0)
    if beyond <= 0:
        return 1.0
    variance, freedom = _total(found.down if found.value > 0 else found.up, found.campaigns, variation)
    if variation is not None:
        margin = _common_margin(found.campaigns, variation, 1 - TABLE_LEVEL * COMMON_SHARE)
        beyond = math.sqrt(max(0.0, beyond**2 - margin**2))
    if variance == 0:
        return 1.0 if beyond == 0 else 0.0
    return float(2 * special.stdtr(freedom, -beyond / math.sqrt(variance)))


@dataclass(frozen=True, slots=True)
class TableVariance:
    """The usual variance of the runs' errors in a table, and the degrees of freedom that it is worth for one case."""

    value: float
    freedom: float


def table_variance(contrasts: Sequence[Contrast]) -> TableVariance | None:
    """Return the variance towards which those of a table's cases are shrunk; None for fewer than three cases.

    A scaled F distribution is fitted to the variances by the moments of their logarithms (Smyth 2004, section 6.2). It
    is at least the median variance with ``_LEAST_FREEDOM``: variances of runs at two levels differ so much among cases
    that the fit alone would leave those that are small by chance as they are.
    """
    from scipy import special

    found = [((one.up[0] ** 2 + one.down[0] ** 2) / 2, min(one.up[1], one.down[1])) for one in contrasts]
    known = np.array([(variance, freedom) for variance, freedom in found if variance > 0])
    if len(known) < _LEAST_CASES:
        return None
    half = known[:, 1] / 2
    logs = np.log(known[:, 0]) - special.digamma(half) + np.log(half)
    excess = float(logs.var(ddof=1) - special.polygamma(1, half).mean())
    median = float(np.median(known[:, 0]))
    if excess <= 0:
        return TableVariance(max(math.exp(logs.mean()), median), math.inf)
    freedom = 2 * _inverse_trigamma(excess)
    centre = logs.mean() + special.digamma(freedom / 2) - math.log(freedom / 2)
    return TableVariance(max(math.exp(centre), median), max(freedom, _LEAST_FREEDOM))


def _inverse_trigamma(value: float) -> float:
    """Return the number whose trigamma function is ``value``, by bisection: the function falls from infinity to 0."""
    from scipy import special

    low, high = 1e-6, 1e6
    for _ in range(_BISECTIONS * 2):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if special.polygamma(1, middle) > value else (low, middle)
    return high


def _moderated_p_value(found: Contrast, prior: TableVariance, within: float) -> float:
    """Return the two-sided p-value of a difference beyond ``within``, by the case's and the table's variance."""
    from scipy import special

    beyond = abs(found.value) - log_margin(within, rises=found.value > 0)
    if beyond <= 0:
        return 1.0
    error, freedom = found.down if found.value > 0 else found.up
    if math.isinf(prior.freedom):
        return float(2 * special.ndtr(-beyond / math.sqrt(prior.value)))
    total = prior.freedom + freedom
    variance = (prior.freedom * prior.value + freedom * error**2) / total
    return float(2 * special.stdtr(total, -beyond / math.sqrt(variance)))


def _reach(
    side: tuple[float, float], campaigns: int, variation: CampaignVariation | None, level: float = CONFIDENCE
) -> float:
    variance, freedom = _total(side, campaigns, variation)
    own = student_t(freedom, level) * math.sqrt(variance) if variance else 0.0
    return own if variation is None else math.hypot(own, _common_margin(campaigns, variation, level))


def _common_margin(campaigns: int, variation: CampaignVariation, level: float) -> float:
    spread = variation.common * math.sqrt(1 + 1 / campaigns)
    return student_t(variation.campaigns - 1, level) * spread if spread else 0.0


def _total(
    side: tuple[float, float], campaigns: int, variation: CampaignVariation | None
) -> tuple[float, float]:
    """Return the variance of runs and specific effects, and its degrees of freedom."""
    error, freedom = side
    terms = [(error**2, freedom)]
    if variation is not None and variation.cases > 1:
        between = variation.specific**2 * (1 + 1 / campaigns)
        terms.append((between, (variation.cases - 1) * (variation.campaigns - 1)))
    error, freedom = _summed(terms)
    return error**2, freedom


def _summed(terms: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the standard error of a sum, and its degrees of freedom by Welch and Satterthwaite."""
    variance = math.fsum(of for of, _ in terms)
    if variance == 0:
        return 0.0, min(freedom for _, freedom in terms)
    return math.sqrt(variance), variance**2 / math.fsum(of**2 / freedom for of, freedom in terms)


def _variance(estimate: Estimate, towards_high: bool, correlation: float) -> tuple[float, float]:
    """Return the variance of a case's median, and its degrees of freedom."""
    grown = inflation(estimate.n, correlation)
    return grown.variance * _error(estimate, towards_high) ** 2, grown.freedom * (estimate.n - 1)


def _error(estimate: Estimate, towards_high: bool) -> float:
    """Return the standard error that a case's interval shows on one side, on logarithms."""
    assert estimate.interval is not None
    end = estimate.interval.high if towards_high else estimate.interval.low
    return abs(math.log(end / estimate.median)) / student_t(estimate.n - 1)


def _noise(row: Sequence[Estimate]) -> float:
    """Return the variance of a case's median within a campaign, from all its campaigns.

    Its reciprocal is used as a weight; the factor makes that unbiased, because few runs often show too small a spread.
    """
    errors = [(_error(one, True) + _error(one, False)) / 2 for one in row]
    freedom = sum(one.n - 1 for one in row)
    correction = freedom / (freedom - 2) if freedom > 2 else 1.0
    return correction * math.fsum(error**2 for error in errors) / len(row)


def _specific_variance(residuals: Array, noise: Array, freedom: int) -> float:
    """Return the variance of the specific effects: the one whose sum of weighted squares is as expected."""
    from scipy import special

    if freedom == 0:
        return 0.0
    expected = float(special.chdtri(freedom, 0.5))

    def squares(variance: float) -> float:
        total = noise + variance
        if not total.all():
            return math.inf
        own = residuals - _common(residuals, total)
        return float((own**2 / total[:, None]).sum())

    low, high = 0.0, 4 * float((residuals**2).sum())
    if high == 0 or squares(low) <= expected:
        return 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if squares(middle) > expected else (low, middle)
    return high


def _common(residuals: Array, variances: Array) -> Array:
    """Return each campaign's weighted mean residual over the cases."""
    weights = 1 / variances if variances.all() else np.ones_like(variances)
    return np.asarray((weights[:, None] * residuals).sum(axis=0) / weights.sum())
