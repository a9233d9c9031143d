"""Carrying a plan out: its commands become a job a node, what they left comes here, and the run gets its outcome."""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path

from trainmark.execution.classify import ENDED, Exit, classify, rank_outcomes, signal_name
from trainmark.node import (
    ClockOffset,
    Host,
    HostError,
    HostOSError,
    Job,
    JobOnHost,
    Pulse,
    last_step,
    on_each,
    rank_codes,
    read_tail,
    run_jobs,
)
from trainmark.words.hosts import LOCALHOST
from trainmark.words.measurement import About, Suspicion
from trainmark.words.names import LOG, RUNS, TELEMETRY, name_on
from trainmark.words.outcome import NodeOutcome, Outcome, OutcomeRecord
from trainmark.words.plan import Plan
from trainmark.words.suite import Limits

_MOST_LEVELS = 3
"""Folders of one case above that of a run: the longest is that of a short run for a choice or a batch."""


def carry_out(
    plan: Plan,
    directory: Path,
    limits: Limits,
    hosts: Sequence[Host],
    watch: Callable[[Pulse], None] = lambda _pulse: None,
) -> OutcomeRecord:
    """Run a plan whose run's folder here is ``directory``, and return what became of it.

    Each node's log (``train.log``, of node 1 ``train.node1.log``) holds what it printed, untouched; its telemetry
    lies beside it. ``watch`` is called about twice a second. Whatever happens, a ``KeyboardInterrupt`` included, no
    process of the run is alive when this returns or raises. Raises ``TrainmarkError`` when a log cannot be opened.
    """
    record = OutcomeRecord(
        case_id=plan.case.id,
        repeat=plan.repeat,
        outcome=Outcome.UNSUPPORTED,
        commands=tuple(command.text() for command in plan.commands),
    )
    known = {host.name: host for host in hosts}
    missing = plan.cannot_run or _missing_host(plan, known)
    if missing is not None:
        return record.model_copy(update={"reason": missing})
    launched = sorted({command.node for command in plan.commands})
    # Ranks that mpirun starts on other nodes are watched there, and what they write is the run's.
    others = [at for at, node in enumerate(plan.nodes) if at not in launched and node.host in known]
    nodes = (*launched, *others)
    # All marks lie in the run's folder, by which the next call finds them. An agent that was lost ends what it
    # started; what another attempt has started in this folder is not that.
    marks = {node: f"{directory.resolve()}/{secrets.token_hex(4)}" for node in launched}
    marks |= dict.fromkeys(others, marks[launched[0]])
    places = [(node, known[plan.nodes[node].host]) for node in nodes]
    jobs = [JobOnHost(host, _job(plan, node, limits, marks[node])) for node, host in places]
    started_at = datetime.now(UTC)
    before = on_each(jobs, lambda one: _clock(one.host))
    try:
        carried = run_jobs(jobs, limits, watch)
    except KeyboardInterrupt:
        # What there is of the run lies here then, and nowhere else; whoever cannot wait interrupts again.
        with suppress(OSError):
            _bring_all(places, plan, directory)
        raise
    # Of a run that was ended no ranks are compared, and a host that was lost would be waited for.
    after = [None] * len(jobs) if carried.stopped else on_each(jobs, lambda one: _clock(one.host))
    clocks = dict(zip(nodes, map(_clocks, before, after), strict=True))
    lost = _bring_all(places, plan, directory)
    ends = {nodes[end.place]: end for end in carried.ended}
    kills_of_others = sum(ends[node].oom_kills for node in others)
    exits = [
        Exit(end.code, end.oom_kills + kills_of_others, directory / name_on(LOG, node), node)
        for node, end in ends.items()
        if end.code is not None
    ]
    per_node, codes = plan.case.devices_per_node, rank_codes(directory)
    outcome, reason = carried.stopped or classify(exits, plan.events, plan.case.world_size)
    reason = _with_host(reason, plan)
    if lost is not None and carried.stopped is None:
        # What a rank wrote is missing: nothing can be said of a run that is not whole.
        outcome, reason = Outcome.FAILED, lost
    cause = (
        next((ended.node for ended in exits if ended.code != 0), None) if carried.stopped is None else None
    )
    said = {
        "outcome": outcome,
        "reason": reason,
        "doubts": _not_watched(plan, nodes),
        "hosts": tuple(node.host for node in plan.nodes),
        "nodes": tuple(
            NodeOutcome(
                node=node,
                host=plan.nodes[node].host,
                exit_code=ends[node].code,
                signal=signal_name(ends[node].code),
                oom_kills=ends[node].oom_kills,
                strays=ends[node].strays,
                reason=reason if node == cause else ENDED if ends[node].by_us else None,
                **clocks[node],
            )
            for node in sorted(nodes)
        ),
    }
    if not exits:
        return record.model_copy(update=said)
    return record.model_copy(
        update=said
        | {
            "exit_code": ends[launched[0]].code,
            "started_at": started_at,
            "ended_at": datetime.now(UTC),
            "duration_s": carried.duration_s,
            "last_step": last_step(read_tail(directory / LOG)),
            "strays": sum(end.strays for end in carried.ended),
            "ranks": rank_outcomes(exits, plan.events, codes, per_node, carried.asked),
        }
    )


def _missing_host(plan: Plan, known: Mapping[str, Host]) -> str | None:
    """Return the host that a plan has commands for and that is not there, in a sentence; None when all are."""
    for command in plan.commands:
        host = plan.nodes[command.node].host if command.node < len(plan.nodes) else None
        if host is None or host not in known:
            who = f"node {command.node}" if host is None else f"node {command.node} ({host})"
            return f"the plan has commands for {who}, and the hosts are {', '.join(known)} only"
    return None


def _job(plan: Plan, node: int, limits: Limits, mark: str) -> Job:
    there = plan.nodes[node].directory
    return Job(
        commands=tuple(command for command in plan.commands if command.node == node),
        directory=there,
        log=there / name_on(LOG, node),
        mark=mark,
        memory=limits.memory,
        signs=(there / plan.events.name,),
        telemetry=there / name_on(TELEMETRY, node),
        ranks=plan.case.world_size,
    )


def is_shared(host: Host, there: Path, here: Path) -> bool:
    """Tell whether a folder on a host and one here are the same: equal paths are no sign of it, nor are others."""
    token = f".trainmark-{secrets.token_hex(8)}"
    (here / token).touch()
    try:
        return host.has(there / token)
    finally:
        (here / token).unlink()


def _not_watched(plan: Plan, nodes: Sequence[int]) -> tuple[Suspicion, ...]:
    """Return the doubt of nodes on which mpirun started ranks: no agent of ours sees what else went on there."""
    others = [node.host for number, node in enumerate(plan.nodes) if number not in nodes]
    if not others:
        return ()
    where = f"mpirun started the ranks on {', '.join(others)}"
    sentence = f"{where}, where nothing was watched: no telemetry, no clock"
    return (Suspicion(code="nodes-not-watched", sentence=sentence, about=About.MACHINE),)


def _with_host(reason: str | None, plan: Plan) -> str | None:
    """Return the reason with the host of the rank, or of the node, that it begins with; this machine needs no name."""
    if reason is None or {node.host for node in plan.nodes} == {LOCALHOST}:
        return reason
    if len(plan.nodes) == 1:
        return f"{reason} (on {plan.nodes[0].host})"
    found = re.match(r"(?:out of memory on )?rank (\d+)\b|the program on node (\d+)\b", reason)
    if found is None:
        return reason
    node = int(found[1]) // plan.case.devices_per_node if found[1] else int(found[2])
    if node >= len(plan.nodes):
        return reason
    return f"{found[0]} on {plan.nodes[node].host}{reason[found.end() :]}".replace(
        f"node {node} on {plan.nodes[node].host}", f"{plan.nodes[node].host} (node {node})"
    )


def _clock(host: Host) -> ClockOffset | None:
    # What follows says so too, where a host is gone.
    with suppress(HostError):
        return host.clock()
    return None


def _clocks(before: ClockOffset | None, after: ClockOffset | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for when, clock in (("", before), ("_after", after)):
        if clock is not None:
            found |= {f"clock_offset{when}_s": clock.offset_s, f"clock_error{when}_s": clock.error_s}
    return found


def _bring_all(places: Sequence[tuple[int, Host]], plan: Plan, directory: Path) -> str | None:
    """Bring what the nodes wrote, one after the other; return why that of one could not be had, or None.

    Hosts that share a disk which is not ours have one folder: the first brings what all wrote.
    """
    lost, brought = None, False
    for node, host in places:
        try:
            if not brought or host.has(plan.nodes[node].directory):
                _bring(host, plan, directory, node)
                brought = True
        except (HostError, HostOSError) as error:
            lost = lost or f"what {host.name} wrote could not be fetched: {error}"
    return lost


def _bring(host: Host, plan: Plan, directory: Path, node: int) -> None:
    """Move a node's files into the run's folder; what would take the place of another node's keeps to ``nodeN``.

    The working tree of the program's source is left: it is not of the run, and goes with the folder.
    """
    there = plan.nodes[node].directory
    if is_shared(host, there, directory):
        return
    own = directory / f"node{node}"
    trees = {made.source.tree.name for made in plan.preparations if made.source and made.node == node}
    host.get(there, own, without=trees)
    host.remove(there)
    # The folders of the case, which this run alone uses now; what is above them is other runs' too.
    above = islice(takewhile(lambda folder: folder.name != RUNS, there.parents), _MOST_LEVELS)
    host.remove_empty(list(above))
    for path in sorted(own.iterdir()):
        if not (directory / path.name).exists():
            path.rename(directory / path.name)
    with suppress(OSError):
        own.rmdir()
