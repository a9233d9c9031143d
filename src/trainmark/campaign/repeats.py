"""The number of runs of a case, why it got no more, and the gain of more runs or of another protocol."""

from collections.abc import Sequence
from math import inf
from statistics import mean

from trainmark.campaign.schedule import Attempt, ended_by
from trainmark.measure import expected_half_width, runs_to_wait_for, spread_of
from trainmark.schema.measurement import Estimate
from trainmark.schema.results import Expected, Repeats
from trainmark.schema.suite import Protocol, ProtocolName

MOST_RUNS_FORESEEN = 1000
MIN_RUNS = 3
DLPERF = Protocol.model_validate(ProtocolName.DLPERF.value)


def count_repeats(
    protocol: Protocol, attempts: Sequence[Attempt], found: Estimate | None, left_s: float = inf
) -> Repeats:
    """Return why a case with these finished runs ended or continues; ``found`` is their estimate.

    ``left_s`` are the remaining seconds of the suite's budget.
    """
    target = protocol.target_half_width
    spread = spread_of(found) if found else None
    lasted = [a.duration_s for a in attempts if a.throughput is not None]
    run_s = mean(lasted) if lasted else None
    spent_s = sum(a.duration_s for a in attempts)
    to_target = twice = dlperf = None
    if found is not None and spread is not None and run_s is not None:
        twice = _expected(2 * found.n, spread, run_s)
        least = max(protocol.min_repeats, MIN_RUNS)
        needed = None if target is None else runs_to_wait_for(spread, target, least, MOST_RUNS_FORESEEN)
        to_target = None if needed is None else _expected(needed, spread, run_s)
        steps_s = [a.step_s for a in attempts if a.step_s is not None]
        other_s = run_s + (DLPERF.steps - protocol.steps) * mean(steps_s) if steps_s else run_s
        if other_s > 0:
            dlperf = _expected(min(DLPERF.max_repeats, int(spent_s / other_s + 1e-9)), spread, other_s)
    return Repeats(
        ended_by=ended_by(protocol, attempts, left_s),
        runs=found.n if found else 0,
        spoiled=sum(a.spoiled for a in attempts),
        spent_s=spent_s,
        target=target,
        half_width=found.half_width if found else None,
        to_target=to_target,
        twice=twice,
        dlperf=dlperf,
    )


def _expected(runs: int, spread: float, run_s: float) -> Expected:
    half = expected_half_width(spread, runs) if runs >= MIN_RUNS else None
    return Expected(runs=runs, half_width=half, seconds=runs * run_s)
