"""The pace of a running run, by the steps that it reports: how long a step takes, and the whole run."""

from dataclasses import dataclass

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
