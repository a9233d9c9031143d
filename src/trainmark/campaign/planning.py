"""The plans of a suite's first runs, for ``trainmark plan``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from trainmark.campaign.batch_search import FIRST, probe_protocol
from trainmark.campaign.best_search import axes_of_trial, candidates, trial_protocol, why_none
from trainmark.campaign.run_environment import (
    CannotStart,
    RunEnvironment,
    RunPlanner,
    load_programs,
    plan_run,
    run_planner,
)
from trainmark.execution import ResultDirectory
from trainmark.node import Host, LocalHost
from trainmark.placement import (
    FrameworkPython,
    device_of,
    place_of,
)
from trainmark.schema.case import MAX_BATCH, Case
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Plan
from trainmark.schema.suite import Protocol, Suite


def plan_campaign(
    suite: Suite, cases: Sequence[Case], out: Path, home: Path, hosts: Sequence[Host] | None = None
) -> Iterator[Plan | CannotStart]:
    """Yield the plan of each case's first run; only the devices of the hosts (or this machine) are queried.

    For a case with the batch ``max``, the first run tries the smallest batch; for a case with open axes, it is the
    short run of the first candidate.

    Raises ``InputError`` if the suite names an unknown workload or environment.
    """
    run_env = RunEnvironment(suite, load_programs(suite), hosts or (LocalHost(),), home)
    plans = FirstPlans(run_env, suite.protocol, ResultDirectory(out.absolute()))
    yield from map(plans.plan, cases)


class FirstPlans:
    """The plans of cases' first runs; those of one place share what a run of all of them needs (``place_of``)."""

    def __init__(self, run_env: RunEnvironment, protocol: Protocol, directory: ResultDirectory) -> None:
        self._run_env, self._protocol, self._directory = run_env, protocol, directory
        self._by_place: dict[tuple[object, ...], RunPlanner | CannotStart] = {}

    def plan(self, case: Case) -> Plan | CannotStart:
        """Return the plan of a case's first run (see ``plan_campaign``), or why it cannot be started."""
        if case.left_open or case.batch_per_device == MAX_BATCH:
            return self._first_trial(case)
        place = place_of(case)
        if (planner := self._by_place.get(place)) is None:
            planner = self._by_place[place] = self._planner(case)
        return (
            planner if isinstance(planner, CannotStart) else planner.plan(case, self._directory.run(case, 1))
        )

    def _planner(self, case: Case) -> "RunPlanner | CannotStart":
        start = self._start(case)
        if isinstance(start, CannotStart):
            return start
        return run_planner(start[0], case, self._protocol, start[1], 1)

    def _first_trial(self, case: Case) -> Plan | CannotStart:
        """Return the plan of the first short run that searches what the case leaves open."""
        start = self._start(case)
        if isinstance(start, CannotStart):
            return start
        (run_env, interpreter), protocol, folder = start, self._protocol, self._directory.run(case, 1)
        if case.left_open:
            card, device = run_env.workload(case).card, device_of(case, run_env.machine)
            first = next(iter(candidates(case, card, device)), None)
            if first is None:
                return CannotStart(Outcome.UNSUPPORTED, why_none(case, card, device))
            folder, protocol = (
                self._directory.trial(case, axes_of_trial(case, first)),
                trial_protocol(protocol),
            )
            case = first
        if case.batch_per_device == MAX_BATCH:
            folder, case = self._directory.probe(case, FIRST), case.at_batch(FIRST)
            protocol = probe_protocol(protocol)
        return plan_run(run_env, case, protocol, interpreter, 1, folder)

    def _start(self, case: Case) -> tuple[RunEnvironment, FrameworkPython] | CannotStart:
        """Return the hosts of a case and the Python that would run its program, or why it cannot be started."""
        run_env = self._run_env.of(case)
        if isinstance(run_env, CannotStart):
            return run_env
        interpreter = run_env.expected_interpreter(case)
        if isinstance(interpreter, CannotStart):
            return interpreter
        return run_env.data_file_problem(case) or (run_env, interpreter)
