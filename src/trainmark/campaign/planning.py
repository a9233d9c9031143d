"""The plans of a suite's runs, and the workloads that they use."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from trainmark.campaign.batch_search import FIRST, probe_protocol
from trainmark.campaign.best_search import axes_of_trial, candidates, trial_protocol, why_none
from trainmark.campaign.run_environment import CannotStart, MoreOfSpec, RunEnvironment
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory
from trainmark.node import Host, LocalHost
from trainmark.placement import FrameworkPython, build_plan, device_of, prepare
from trainmark.schema.case import MAX_BATCH, Case
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Plan
from trainmark.schema.suite import Protocol, Suite
from trainmark.suite import read_document
from trainmark.workload import UnsupportedByCard, Workloads, load_workloads
from trainmark.workload.card import AUTO_FORMAT, OWN_FORMAT


def load_programs(suite: Suite) -> Workloads:
    """Return the workloads that a suite can use; raise ``InputError`` for a card that cannot be used.

    Reading a card does not import log formats and rules, so this function checks before anything runs that the card's
    format and rule exist.
    """
    files = [Path(card) for card in suite.cards]
    workloads = load_workloads(files)
    for path in files:
        document = read_document(path)
        name, rule = document.values.get("log_format", AUTO_FORMAT), document.values.get("rule")
        skip = document.values.get("skip")
        if name == OWN_FORMAT and rule in (None, "window"):
            continue
        if name == AUTO_FORMAT and rule is None:
            continue
        from trainmark.measure.rules import find_rule
        from trainmark.programs import find_format
        from trainmark.programs.given import described_format

        if name == OWN_FORMAT:
            raise document.error(
                ("rule",),
                f"has no effect: {OWN_FORMAT}'s events are always measured by their own window",
            )
        try:
            if isinstance(name, Mapping):
                described_format(name, "log_format", str(document.values.get("name")))
            elif name != AUTO_FORMAT:
                find_format(name)
        except InputError as error:
            raise document.error(("log_format",), str(error)) from None
        try:
            if rule is not None:
                find_rule(rule, skip)
        except InputError as error:
            raise document.error(("rule",), str(error)) from None
    return workloads


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
        before = [prepare(spec, node, run_env.repositories(node)) for node in nodes]
    except UnsupportedByCard as error:
        return CannotStart(Outcome.UNSUPPORTED, str(error))
    return replace(plan, preparations=tuple(found for found in before if found is not None))
