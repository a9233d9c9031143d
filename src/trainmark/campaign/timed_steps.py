"""A short run that times a few steps of another project's program, to tell whether its case can end in time."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.campaign.run_environment import CannotStart, RunEnvironment, plan_run
from trainmark.execution import run_plan
from trainmark.node import Heartbeat, StepPace, free_ports, read_tail
from trainmark.schema.case import MAX_BATCH, Case
from trainmark.schema.names import LOG
from trainmark.schema.outcome import Outcome
from trainmark.schema.suite import Limits, Protocol
from trainmark.workload import Card
from trainmark.workload.card import OWN_FORMAT

LONGEST_S = 20.0
"""Seconds after which a short run is ended, also if it has shown no pace."""

_OF_TOTAL = re.compile(rb"(?i)\b(?:global_?)?(?:step|iter(?:ation)?)s?\b[ \t:=\[#]*\d+ *(?:/|of) *(\d+)")


@dataclass(frozen=True, slots=True)
class TimedSteps:
    """The result of a short run: the seconds of a step, and of the whole run with its number of steps.

    All are None for a program that ended within the short run, and ``run_s`` and ``steps`` for one whose number of
    steps is unknown.
    """

    step_s: float | None = None
    run_s: float | None = None
    steps: int | None = None


@dataclass(slots=True)
class _Watch:
    pace: StepPace = field(default_factory=StepPace)

    def __call__(self, pulse: Heartbeat) -> tuple[Outcome, str] | None:
        self.pace.add(pulse)
        if self.pace.step_s is not None or pulse.elapsed_s > LONGEST_S:
            return Outcome.OK, "enough steps are timed"
        return None


def can_be_timed(case: Case, card: Card) -> bool:
    """Return whether a short run can time a case: one of another project's program, on one node, that is complete."""
    foreign = card.log_format != OWN_FORMAT and card.result is None
    return foreign and case.nodes == 1 and case.batch_per_device != MAX_BATCH and not case.left_open


def time_steps(
    case: Case, run_env: RunEnvironment, protocol: Protocol, limits: Limits, folder: Path
) -> TimedSteps | None:
    """Run a case for some seconds in ``folder``; None if it has to be prepared first, or shows no step."""
    setting = run_env.setting(case)
    if isinstance(setting, CannotStart):
        return None
    port = free_ports(1, run_env.hosts_of(case))
    plan = plan_run(run_env, case, protocol, setting.interpreter, 1, folder, port=port)
    if isinstance(plan, CannotStart) or plan.cannot_run is not None or plan.preparations:
        return None
    watch, card = _Watch(), run_env.workload(case).card
    folder.mkdir(parents=True, exist_ok=True)
    record = run_plan(plan, folder, limits, run_env.hosts, watch)
    if record.outcome is not Outcome.OK:
        return None
    if record.reason is None:
        return TimedSteps()
    steps = _total_steps(card, protocol, read_tail(folder / LOG))
    if (step_s := watch.pace.step_s) is None:
        return None
    return TimedSteps(step_s, None if steps is None else watch.pace.run_s(steps), steps)


def _total_steps(card: Card, protocol: Protocol, tail: bytes) -> int | None:
    """Return the number of steps of a whole run, by the command, the card, or the log; None if they do not state it."""
    if card.stop_after is not None and card.stop_after.steps is not None:
        return card.stop_after.steps
    if card.takes_steps:
        return protocol.steps
    totals = _OF_TOTAL.findall(tail)
    return int(totals[-1]) if totals else None
