"""The search for the first bad candidate: which one to run next, and when to stop.

First good and bad are run in the order A B B A, until their difference is certain. Then the candidate is run that
divides the probability most evenly, and each second run is followed by one of the good candidate: A x x A x x A. A
candidate that cannot be built or has no number is skipped, as git bisect skips it.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from trainmark.bisection.posterior import GOOD, Array, Contrast, Run, contrast, posterior
from trainmark.measure.statistics import log_margin
from trainmark.schema.bisection import Bisection, Ending, MeasuredRun, Skipped, Verdict

CONFIDENCE = 0.98
LEAST = 0.01
MOST_RUNS = 60
_FIRST_ORDER = ("good", "bad", "bad", "good")
_CERTAIN = 3.5
"""The t-value from which the difference of good and bad is certain."""
_LOW, _HIGH, _LEAST_RUNS_BETWEEN = 0.25, 0.75, 2
"""A candidate between these shares of the change, in so many runs, is neither good nor bad."""
_MOST_BLOCKS = 5
_MOST_FAILURES = 2
"""A candidate that fails so many times without a number is skipped."""


class Search:
    """A bisection in progress; ``state`` has all that was measured, so that it can be written and resumed."""

    def __init__(
        self,
        state: Bisection,
        confidence: float = CONFIDENCE,
        least: float = LEAST,
        most_runs: int = MOST_RUNS,
    ) -> None:
        self.state = state
        self.confidence = confidence
        self.least = least
        self.most_runs = most_runs

    @property
    def count(self) -> int:
        """The number of candidates, with the good and the bad one."""
        return len(self.state.candidates)

    @property
    def runs(self) -> list[Run]:
        """The runs with a number."""
        return [Run(run.candidate, math.log(run.rate)) for run in self.state.runs if run.rate is not None]

    @property
    def skipped(self) -> frozenset[int]:
        """The candidates that cannot be measured."""
        return frozenset(one.candidate for one in self.state.skipped)

    def difference(self) -> Contrast | None:
        """Return the difference of bad and good, if both were run."""
        return contrast(self.runs, self.count - 1)

    def probabilities(self) -> Array:
        """Return the probability of each candidate to be the first bad one."""
        found = self.difference()
        if found is None:
            chances: Array = np.full(self.count, 1 / (self.count - 1), dtype=np.float64)
            chances[GOOD] = 0.0
            return chances
        return posterior(self.runs, self.count, found)

    def next_candidate(self) -> int | None:
        """Return the number of the candidate to run next; None if the search has ended."""
        if self.verdict() is not None:
            return None
        if (end := self._next_end()) is not None:
            return end
        done = [run.candidate for run in self.state.runs]
        if len(done) > 1 and GOOD not in done[-2:]:
            return GOOD
        return self._dividing()

    def add(self, result: MeasuredRun | Skipped) -> None:
        """Add a run, or a candidate that cannot be built."""
        state = self.state
        if isinstance(result, Skipped):
            self.state = state.model_copy(update={"skipped": (*state.skipped, result)})
            return
        runs = (*state.runs, result)
        skipped = state.skipped
        failures = [run for run in runs if run.candidate == result.candidate and run.rate is None]
        numbers = [run for run in runs if run.candidate == result.candidate and run.rate is not None]
        if len(failures) >= _MOST_FAILURES and not numbers:
            skipped = (*skipped, Skipped(candidate=result.candidate, reason=result.reason or "no number"))
        self.state = state.model_copy(update={"runs": runs, "skipped": skipped})

    def verdict(self) -> Verdict | None:
        """Return the result; None while the search goes on."""
        ends = {GOOD, self.count - 1} & self.skipped
        found = self.difference()
        if ends:
            return self._ended(Ending.ONLY_SKIPPED, range(1, self.count), 0.0, found)
        if self._next_end() is not None or found is None:
            return None
        if not self._is_certain():
            return self._ended(Ending.NO_DIFFERENCE, (), 0.0, found)
        groups = self._groups()
        chances = self.probabilities()
        sums = [float(sum(chances[one] for one in group)) for group in groups]
        best = int(np.argmax(sums))
        group, confidence = groups[best], sums[best]
        if confidence >= self.confidence and self._edges_measured(group):
            ending = Ending.FOUND if len(group) == 1 else Ending.ONLY_SKIPPED
            return self._ended(ending, group, confidence, found)
        if len(self.state.runs) >= self.most_runs:
            return self._ended(Ending.NOT_CERTAIN, group, confidence, found)
        return None

    def end(self) -> None:
        """Store the verdict in the state."""
        self.state = self.state.model_copy(update={"verdict": self.verdict()})

    def _is_certain(self) -> bool:
        found = self.difference()
        if found is None or found.score < _CERTAIN:
            return False
        return abs(found.size) >= log_margin(self.least, rises=found.size > 0)

    def _next_end(self) -> int | None:
        """Return good or bad if it is to be run next, because their difference is not certain (any more)."""
        ends = [run.candidate for run in self.state.runs if run.candidate in (GOOD, self.count - 1)]
        is_searching = len(ends) < len(self.state.runs)
        if (is_searching or len(ends) >= 4) and (self._is_certain() or len(ends) >= 4 * _MOST_BLOCKS):
            return None
        if not is_searching:
            return GOOD if _FIRST_ORDER[len(ends) % 4] == "good" else self.count - 1
        return self.count - 1 if ends.count(self.count - 1) < ends.count(GOOD) else GOOD

    def _groups(self) -> list[list[int]]:
        """Return the candidates by what can be told apart: those between two that can be measured are one group."""
        groups: list[list[int]] = [[]]
        for candidate in range(1, self.count):
            groups[-1].append(candidate)
            if candidate not in self.skipped and candidate < self.count - 1:
                groups.append([])
        return [group for group in groups if group]

    def _edges_measured(self, group: Sequence[int]) -> bool:
        """Return whether the group's last candidate and the one before its first were run, as far as they can be."""
        done = {run.candidate for run in self.state.runs if run.rate is not None}
        return group[0] - 1 in done and group[-1] in done

    def _dividing(self) -> int:
        """Return the candidate whose run divides the probability most evenly."""
        chances = self.probabilities()
        below = np.cumsum(chances)
        allowed = [one for one in range(1, self.count - 1) if one not in self.skipped]
        wanted = self._unmeasured_edge(chances, allowed)
        if wanted is not None:
            return wanted
        return min(allowed, key=lambda one: (abs(float(below[one]) - 0.5), one))

    def _unmeasured_edge(self, chances: Array, allowed: Collection[int]) -> int | None:
        """Return a neighbour of a nearly certain culprit that was not run yet."""
        groups = self._groups()
        best = max(groups, key=lambda group: float(sum(chances[one] for one in group)))
        if float(sum(chances[one] for one in best)) < self.confidence:
            return None
        done = {run.candidate for run in self.state.runs if run.rate is not None}
        return next((one for one in (best[-1], best[0] - 1) if one not in done and one in allowed), None)

    def _ended(
        self, ending: Ending, culprits: Sequence[int], confidence: float, found: Contrast | None
    ) -> Verdict:
        size, error = (found.size, 1.96 * found.error) if found is not None else (None, 0.0)
        return Verdict(
            ending=ending,
            culprits=tuple(culprits),
            confidence=confidence,
            ratio=None if size is None else math.exp(size),
            low=None if size is None else math.exp(size - error),
            high=None if size is None else math.exp(size + error),
            between=() if size is None else tuple(self._between(size)),
        )

    def _between(self, change: float) -> Iterator[int]:
        """Yield the candidates that certainly differ from the good one by a part of the change only."""
        counts = Counter(run.candidate for run in self.runs)
        for candidate in range(1, self.count - 1):
            # One run may be a disturbed one.
            if counts[candidate] < _LEAST_RUNS_BETWEEN:
                continue
            found = contrast(self.runs, candidate)
            if found is not None and found.score >= _CERTAIN and _LOW <= found.size / change <= _HIGH:
                yield candidate
