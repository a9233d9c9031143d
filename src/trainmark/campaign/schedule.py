"""Order of the runs: pass by pass over the cases, in random order, until each has enough runs; why a case got no more.

Runs of one case are spread over the whole campaign instead of following each other, so that a machine that slows down
(heat, other load) slows all cases alike and not only the last ones. Each pass has a new random order, so that the
after-effects of a case do not always hit the same next case. The order depends only on the protocol's seed, the pass
and the case's id: a resumed campaign continues in the same order.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from statistics import mean

from trainmark.measure import expected_half_width, narrow_enough, runs_to_wait_for, spread_of
from trainmark.schema.measurement import Estimate, Sampling
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import EndedBy, Expected, Repeats
from trainmark.schema.suite import Protocol, ProtocolName

_HOPELESS = frozenset({Outcome.OOM, Outcome.UNSUPPORTED, Outcome.INVALID, Outcome.SKIPPED})
"""Outcomes that another run of the same case would only repeat."""
MOST_RUNS_FORESEEN = 1000
MIN_RUNS = 3
DLPERF = Protocol.model_validate(ProtocolName.DLPERF.value)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A finished run in the form that the schedule uses.

    ``throughput`` is None unless the outcome is ``ok``. ``started`` is false if something was missing before the
    program could start, such as the data set. ``hopeless`` is true of a failure that another run would only repeat,
    such as a missing module. ``spoiled`` is true if the machine disturbed the run. ``step_s`` is the mean step time in
    seconds, ``steps`` the number of measured steps, if known.
    """

    outcome: Outcome
    throughput: float | None
    duration_s: float
    started: bool = True
    hopeless: bool = False
    spoiled: bool = False
    step_s: float | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a campaign: the finished runs, the least number of runs in total, and what is left of the budget.

    ``left_s`` are seconds, infinite without a budget.
    """

    finished: int
    at_least: int
    left_s: float = math.inf


def wants_another(protocol: Protocol, attempts: Sequence[Attempt], left_s: float = math.inf) -> bool:
    """Return whether a case with these finished runs needs another run; see ``ended_by``."""
    return ended_by(protocol, attempts, left_s) is None


def ended_by(protocol: Protocol, attempts: Sequence[Attempt], left_s: float = math.inf) -> EndedBy | None:
    """Return why a case with these finished runs gets no further run; None if it gets one.

    ``left_s`` are the remaining seconds of the suite's budget: a run that is expected to take longer, judging by the
    mean of the case's runs so far, is not started. ``_ended_by_protocol`` has the other reasons.
    """
    if (ended := _ended_by_protocol(protocol, attempts)) is not None:
        return ended
    expected_s = sum(a.duration_s for a in attempts) / len(attempts) if attempts else 0.0
    return EndedBy.BUDGET if expected_s > left_s else None


def _ended_by_protocol(protocol: Protocol, attempts: Sequence[Attempt]) -> EndedBy | None:
    """Return why the protocol gives a case with these finished runs no further run; None if it gives one.

    An outcome that another run would only repeat ends the case. Otherwise it gets at least ``min_repeats`` undisturbed
    runs and, if the protocol has a target, more until the interval is narrow enough; but never more than
    ``max_repeats`` runs in total, and after ``min_repeats`` runs in total none once the case has taken ``max_case_s``
    seconds.
    """
    if any(attempt.outcome in _HOPELESS or not attempt.started or attempt.hopeless for attempt in attempts):
        return EndedBy.OUTCOME
    if len(attempts) < protocol.min_repeats:
        return None
    sound = [a for a in attempts if not a.spoiled]
    throughputs = [a.throughput for a in sound if a.throughput is not None]
    steps = [a.steps for a in sound if a.throughput is not None and a.steps is not None]
    target = protocol.target_half_width if protocol.sampling is Sampling.WAITED else None
    enough = len(throughputs) >= protocol.min_repeats
    if target is not None and enough and narrow_enough(throughputs, target, steps):
        return EndedBy.EQUAL_RUNS if len(set(throughputs)) == 1 else EndedBy.TARGET
    if len(attempts) >= protocol.max_repeats:
        return EndedBy.FIXED if protocol.min_repeats == protocol.max_repeats else EndedBy.MAXIMUM
    if protocol.max_case_s is not None and sum(a.duration_s for a in attempts) >= protocol.max_case_s:
        return EndedBy.TIME
    if len(sound) < protocol.min_repeats:
        return None
    if not throughputs:
        return EndedBy.OUTCOME
    return EndedBy.FIXED if target is None else None


class Schedule:
    """The order of a campaign's runs: always a random one of the cases with the fewest finished runs.

    ``cases`` are the cases' ids, ``attempts`` their finished runs. A step takes time logarithmic in the number of
    cases, because suites have thousands. ``left_s`` are the remaining seconds of the suite's budget; a case whose next
    run is expected to take longer gets none.
    """

    def __init__(
        self,
        protocol: Protocol,
        cases: Sequence[str],
        attempts: Sequence[Sequence[Attempt]],
        left_s: float = math.inf,
    ) -> None:
        self._protocol = protocol
        self._left_s = left_s
        self._cases = cases
        self._attempts = [list(of_case) for of_case in attempts]
        self._coming = [self._count_coming(case) for case in range(len(self._attempts))]
        self._finished = sum(len(of_case) for of_case in self._attempts)
        self._at_least = self._finished + sum(self._coming)
        self._waiting = [self._turn(case) for case, coming in enumerate(self._coming) if coming]
        heapq.heapify(self._waiting)

    @property
    def progress(self) -> Progress:
        """The campaign's progress."""
        return Progress(self._finished, self._at_least, self._left_s)

    def take(self, may_run: Callable[[int], bool]) -> int | None:
        """Return the number of a case that may run now, and reserve it until ``done`` or ``put_back``.

        Only the waiting cases with the fewest finished runs are considered, so that cases that need few hosts do not
        starve a case that needs many.
        """
        self._retire_over_budget()
        fewest = min((turn[0] for turn in self._waiting), default=None)
        for turn in sorted(turn for turn in self._waiting if turn[0] == fewest):
            if may_run(turn[-1]):
                self._waiting.remove(turn)
                heapq.heapify(self._waiting)
                return turn[-1]
        return None

    def put_back(self, case: int) -> None:
        """Put a taken case back to the waiting ones, because it was not run."""
        heapq.heappush(self._waiting, self._turn(case))

    def next(self) -> int | None:
        """Return the number of the case to run now, or None if every case has enough runs."""
        self._retire_over_budget()
        return self._waiting[0][-1] if self._waiting else None

    def likely_next(self) -> int | None:
        """Return the case that is likely to run after the one that ``next`` returned; None if none is."""
        turns = heapq.nsmallest(2, self._waiting)
        current = turns[0][-1]
        if len(self._attempts[current]) + 1 < self._protocol.max_repeats:
            turns.append(self._turn(current, 1))
        return min(turns[1:])[-1] if turns[1:] else None

    def add(self, attempt: Attempt) -> None:
        """Count a finished run of the case that ``next`` returned."""
        *_, case = heapq.heappop(self._waiting)
        self.done(case, attempt)

    def done(self, case: int, attempt: Attempt) -> None:
        """Count a finished run of a case that was taken."""
        self._attempts[case].append(attempt)
        self._left_s -= attempt.duration_s
        before, self._coming[case] = self._coming[case], self._count_coming(case)
        self._finished += 1
        self._at_least += 1 + self._coming[case] - before
        if self._coming[case]:
            heapq.heappush(self._waiting, self._turn(case))

    def spend(self, seconds: float) -> None:
        """Subtract seconds from the budget that belong to no finished run."""
        self._left_s -= seconds

    @property
    def left_s(self) -> float:
        """The remaining seconds of the budget; infinite without a budget."""
        return self._left_s

    def retire(self, case: int) -> None:
        """Remove a waiting case from the schedule."""
        self._waiting = [turn for turn in self._waiting if turn[-1] != case]
        heapq.heapify(self._waiting)
        self._at_least -= self._coming[case]
        self._coming[case] = 0

    def _retire_over_budget(self) -> None:
        """Stop waiting for the cases whose next run no longer fits into the budget."""
        if self._left_s == math.inf:
            return
        for case in [turn[-1] for turn in self._waiting if not self._count_coming(turn[-1])]:
            self.retire(case)

    def _turn(self, case: int, more: int = 0) -> tuple[int, bytes, int]:
        """Return the sort key of a waiting case: finished runs, then a random number for the pass, then its index.

        ``more`` runs count as finished, too.
        """
        done, seed = len(self._attempts[case]) + more, self._protocol.order_seed
        words = "" if seed is None else f"{seed} {done} {self._cases[case]}"
        return done, blake2b(words.encode(), digest_size=8).digest(), case

    def _count_coming(self, case: int) -> int:
        done = self._attempts[case]
        if not wants_another(self._protocol, done, self._left_s):
            return 0
        sound = sum(not attempt.spoiled for attempt in done)
        room = self._protocol.max_repeats - len(done)
        return min(room, max(1, self._protocol.min_repeats - sound))


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
