"""The pace of a running run, by the steps that it reports: how long a step takes, the whole run, and lately."""

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from trainmark.node.jobs import Heartbeat

LEAST_TIMED_S = 3.0
"""A pace is an estimate only after this many seconds between the first and the last reported step."""


@dataclass(slots=True)
class StepPace:
    """The pace of a running run, from the steps that it reports; compilation before the first report is no part."""

    first: Heartbeat | None = None
    last: Heartbeat | None = None

    def add(self, pulse: Heartbeat) -> None:
        """Add a heartbeat; one without a new step is ignored."""
        if pulse.step is None or (self.last is not None and pulse.step == self.last.step):
            return
        if self.first is None or self.last is None or (self.last.step or 0) > pulse.step:
            self.first = pulse
        self.last = pulse

    @property
    def step_s(self) -> float | None:
        """The seconds of one step; None until steps were reported for ``LEAST_TIMED_S``."""
        if self.first is None or self.last is None or self.first.step is None or self.last.step is None:
            return None
        elapsed_s = self.last.elapsed_s - self.first.elapsed_s
        if elapsed_s < LEAST_TIMED_S:
            return None
        return elapsed_s / (self.last.step - self.first.step)

    def run_s(self, steps: int) -> float | None:
        """Return the seconds that the whole run of ``steps`` steps takes at this pace; None while it is unknown."""
        step_s = self.step_s
        if step_s is None or self.last is None or self.last.step is None:
            return None
        return self.last.elapsed_s + max(0, steps - self.last.step) * step_s


RECENT_S = 10.0
"""The pace of the last records is that of this many seconds."""
STEADY_PARTS = 4
STEADY_WITHIN = 0.05
"""A run looks steady from a step on if the paces of this many parts since then are within this share of their mean."""


@dataclass(slots=True)
class RecentPace:
    """The pace of the last records of a running run, and the step from which it looks steady.

    It is for a reader who waits; the warm-up test judges the finished run.
    """

    _points: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=2000))

    def add(self, pulse: Heartbeat) -> None:
        """Add a heartbeat; one without a new step is ignored, and a step that goes back begins anew."""
        if pulse.step is None or (self._points and pulse.step == self._points[-1][1]):
            return
        if self._points and pulse.step < self._points[-1][1]:
            self._points.clear()
        self._points.append((pulse.elapsed_s, pulse.step))

    @property
    def steps_per_s(self) -> float | None:
        """The steps a second over the last ``RECENT_S`` seconds; None with fewer than two reported steps."""
        if len(self._points) < 2:
            return None
        last_s, last = self._points[-1]
        first_s, first = next(point for point in self._points if point[0] >= last_s - RECENT_S)
        if first == last:
            first_s, first = self._points[-2]
        return (last - first) / (last_s - first_s)

    @property
    def steady_from(self) -> int | None:
        """The first reported step since which the pace looks steady; None if it does not, or too little is known."""
        points = list(self._points)
        for start in range(max(0, len(points) - 2 * STEADY_PARTS)):
            if _is_even(points[start:]):
                return points[start][1]
        return None


def _is_even(points: list[tuple[float, int]]) -> bool:
    """Return whether the paces of the parts of these reports are alike."""
    ends = [round(part * (len(points) - 1) / STEADY_PARTS) for part in range(STEADY_PARTS + 1)]
    cuts = [points[end] for end in ends]
    paces = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(cuts)]
    mean = sum(paces) / len(paces)
    return all(abs(pace / mean - 1) <= STEADY_WITHIN for pace in paces)
