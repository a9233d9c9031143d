"""The comparison of the ranks of another project's program, from the logs of its nodes or of each rank."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from trainmark.campaign.log_measurement import RunLog, read_run_log
from trainmark.campaign.rank_files import rank_files
from trainmark.errors import InputError
from trainmark.execution import name_on
from trainmark.insight.log_ranks import RankLog, compare_rank_logs
from trainmark.logs import ParsedLog
from trainmark.programs.reading import read_by_format
from trainmark.schema.case import Case
from trainmark.schema.measurement import About, Measurement, Suspicion
from trainmark.schema.names import ARRIVALS, LOG
from trainmark.schema.outcome import OutcomeRecord
from trainmark.schema.ranks import RankComparison
from trainmark.workload import Card, deals_ranks_in_turn, reaches_nodes
from trainmark.workload.card import OWN_FORMAT

RANK_SLOWER = "rank-slower"
"""The code of the doubt that a rank or all ranks of a host are slower than the others."""
RANK_WAITS = "rank-waits-for-data"
"""The code of the doubt that a rank or all ranks of a host wait longer for data than the others."""


def compare_run_ranks(
    case: Case, card: Card, folder: Path, record: OutcomeRecord, measurement: Measurement
) -> RankComparison | None:
    """Return the comparison of the ranks of a run of several; None if fewer than two print the same steps."""
    if card.log_format == OWN_FORMAT or card.result is not None:
        return None
    found = read_run_log(card, folder, record.commands)
    if found.known is None:
        return None
    hosts = record.hosts or tuple(str(node.host) for node in record.nodes)
    ranks = max((_of_nodes(case, card, folder, found), _of_files(case, folder, found)), key=len)
    named = [
        RankLog(one.rank, _host(case, card, hosts, one.rank), one.log, one.records)
        for one in sorted(ranks, key=lambda one: one.rank)
    ]
    try:
        return compare_rank_logs(
            named, found.parsed.unit, case.devices_per_node, measurement.warmup_steps or None
        )
    except InputError:
        return None


def rank_doubts(found: RankComparison) -> tuple[Suspicion, ...]:
    """Return a doubt for each finding about slow ranks."""
    return tuple(
        Suspicion(
            code=RANK_WAITS if " for data than " in sentence else RANK_SLOWER,
            sentence=sentence,
            about=About.MACHINE,
        )
        for sentence in found.findings
    )


def _host(case: Case, card: Card, hosts: Sequence[str], rank: int) -> str | None:
    """Return the host of a rank: launchers fill a node before the next one, unless their words say otherwise."""
    if case.nodes < 2:
        return None
    node = rank % case.nodes if deals_ranks_in_turn(card.command) else rank // case.devices_per_node
    return hosts[node] if node < len(hosts) else None


def _of_nodes(case: Case, card: Card, folder: Path, found: RunLog) -> list[RankLog]:
    """Return the ranks in the logs of the nodes, by their tags; a log without tags is that of its node's first rank."""
    logs = [(0, found.parsed)]
    others = ((node, folder / name_on(LOG, node)) for node in range(1, case.nodes))
    logs += [
        (node, found.read_alike(path, folder / name_on(ARRIVALS, node)))
        for node, path in others
        if path.is_file()
    ]
    tags = {node: [one.rank for one in log.tagged_ranks()] for node, log in logs}
    highest = max((max(ranks) for node, ranks in tags.items() if node and ranks), default=-1)
    # torchrun numbers the ranks of each node from 0.
    local = not reaches_nodes(card.command) and highest < case.devices_per_node
    return [one for node, log in logs for one in _tagged(log, node * case.devices_per_node, local=local)]


def _tagged(log: ParsedLog, first: int, *, local: bool) -> Iterator[RankLog]:
    if ranks := log.tagged_ranks():
        for one in ranks:
            yield RankLog(one.rank + (first if local else 0), None, log.log, one.records)
    elif log.records.count:
        yield RankLog(first, None, log.log, log.records)


def _of_files(case: Case, folder: Path, found: RunLog) -> list[RankLog]:
    """Return the ranks that wrote logs of their own."""
    ranks: dict[int, RankLog] = {}
    for file in rank_files(folder):
        rank = file.rank(case.devices_per_node)
        if rank in ranks or rank >= case.world_size:
            continue
        log = read_by_format(file.path, found.known, None)
        if log.records.count:
            ranks[rank] = RankLog(rank, None, str(file.path), log.records)
    return list(ranks.values())
