"""The plans of a suite's runs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from trainmark.campaign.batch_search import FIRST, probe_protocol
from trainmark.campaign.best_search import axes_of_trial, candidates, trial_protocol, why_none
from trainmark.campaign.card_checks import load_programs
from trainmark.campaign.run_environment import CannotStart, MoreOfSpec, RunEnvironment
from trainmark.execution import ResultDirectory
from trainmark.node import Host, LocalHost
from trainmark.placement import FrameworkPython, build_plan, device_of, prepare, prepare_packages
from trainmark.schema.case import MAX_BATCH, Case
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Plan
from trainmark.schema.suite import Protocol, Suite
from trainmark.workload import UnsupportedByCard


def plan_campaign(
    suite: Suite, cases: Sequence[Case], out: Path, home: Path, hosts: Sequence[Host] | None = None
) -> list[Plan | CannotStart]:
    """Return the plan of each case's first run; only the devices of the hosts (or this machine) are queried.

    For a case with the batch ``max``, the first run tries the smallest batch; for a case with open axes, it is the
    short run of the first candidate.

    Raises ``InputError`` if the suite names an unknown workload or environment.
    """
    run_env = RunEnvironment(suite, load_programs(suite), hosts or (LocalHost(),), home)
    directory = ResultDirectory(out.absolute())
    run_envs = ((case, run_env.of(case)) for case in cases)
    return [
        there if isinstance(there, CannotStart) else first_plan(there, suite.protocol, case, directory)
        for case, there in run_envs
    ]


def first_plan(
    run_env: RunEnvironment, protocol: Protocol, case: Case, directory: ResultDirectory
) -> Plan | CannotStart:
    """Return the plan of a case's first run (see ``plan_campaign``), or why it cannot be started."""
    interpreter, folder = run_env.expected_interpreter(case), directory.run(case, 1)
    if isinstance(interpreter, CannotStart):
        return interpreter
    if (problem := run_env.data_file_problem(case)) is not None:
        return problem
    if case.left_open:
        card, device = run_env.workload(case).card, device_of(case, run_env.machine)
        first = next(iter(candidates(case, card, device)), None)
        if first is None:
            return CannotStart(Outcome.UNSUPPORTED, why_none(case, card, device))
        folder, protocol = directory.trial(case, axes_of_trial(case, first)), trial_protocol(protocol)
        case = first
    if case.batch_per_device == MAX_BATCH:
        folder, case = directory.probe(case, FIRST), case.at_batch(FIRST)
        protocol = probe_protocol(protocol)
    return plan_run(run_env, case, protocol, interpreter, 1, folder)


def plan_run(
    run_env: RunEnvironment,
    case: Case,
    protocol: Protocol,
    interpreter: FrameworkPython,
    repeat: int,
    directory: Path,
    **more: Unpack[MoreOfSpec],
) -> Plan | CannotStart:
    """Return the plan of one run, or why it cannot be started on these hosts; ``RunSpec`` has the arguments."""
    try:
        spec = run_env.spec(case, protocol, interpreter, repeat, directory, **more)
        plan = build_plan(spec)
        nodes = range(min(case.nodes, len(run_env.hosts)))
        before = [prepare_packages(spec, node) for node in nodes]
        before += [prepare(spec, node, run_env.repositories(node)) for node in nodes]
    except UnsupportedByCard as error:
        return CannotStart(Outcome.UNSUPPORTED, str(error))
    preparations = tuple(found for found in before if found is not None)
    return replace(plan, preparations=preparations) if preparations else plan
