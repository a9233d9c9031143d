"""Comparison of the ranks of one job, from one log with rank tags or a log of each rank: which are slower, and where.

A rank's pace is compared with the median of the other ranks at the same step, so what slows all of them names no rank.
The interval of the ratio comes from eight parts of the steps, at a level shared among the ranks. Ranks that average
their gradients wait for each other and then have one pace: only the time that they wait for data differs.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.errors import InputError
from trainmark.logs.model import Floats, ParsedLog, Records
from trainmark.measure.statistics import CONFIDENCE, student_t
from trainmark.measure.steadiness import PARTS
from trainmark.schema.ranks import RankComparison, RankSpeed

LEAST_DIFFERENCE = 0.02
"""A rank is reported from this difference on, of its pace or of its wait for data in parts of a step."""
USUAL_NODE = 8
"""The ranks of one node where neither the logs nor their names say how many it has."""
_WARMUP = 20
_EPOCH = 1e9
_RANK = re.compile(r"(?:global[-_]?rank|rank|worker|proc(?:ess)?|trainer|task)[-_.]?(\d+)", re.IGNORECASE)
_HOST = re.compile(r"(?<![A-Za-z0-9])((?:node|host|nid|ip|machine|pod)[-_]?\w*?\d+(?:-\d+)*)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class RankLog:
    """The records of one rank, in the log ``log``; ``host`` is None if it is unknown."""

    rank: int
    host: str | None
    log: str
    records: Records


@dataclass(frozen=True, slots=True)
class _Series:
    """A rank's values by (epoch, step): its time for a step, in seconds or as the inverse of a rate, and its wait.

    ``by_clock``: its times for a step are those between its lines.
    """

    of: RankLog
    pace: Mapping[float, float]
    data: Mapping[float, float]
    by_clock: bool


def compare_ranks(logs: Sequence[ParsedLog], skip: int | None = None) -> RankComparison:
    """Return the comparison of the ranks whose logs these are, named by the tags of their lines or by the logs' paths.

    Raises ``InputError`` as ``compare_rank_logs`` does.
    """
    ranks = list(_named_ranks([log for log in logs if log.records.count]))
    per_node = next((log.facts.gpus_per_node for log in logs if log.facts.gpus_per_node), None)
    return compare_rank_logs(ranks, logs[0].unit if logs else None, per_node, skip)


def compare_rank_logs(
    ranks: Sequence[RankLog], unit: str | None, per_node: int | None, skip: int | None = None
) -> RankComparison:
    """Return the comparison; raise ``InputError`` if fewer than two ranks print records of the same steps.

    ``per_node`` is the number of a node's ranks, where no host is known. Without ``skip`` the first 20 common records
    are left out, or a quarter of fewer than 80.
    """
    if len(ranks) < 2:
        raise InputError(
            f"{len(ranks)} rank prints records: --ranks needs a log whose lines have rank tags, or a log of each rank"
        )
    _refuse_equal_names(ranks)
    series = [_series(one) for one in ranks]
    common = sorted(set.intersection(*(set(one.pace) for one in series)))
    first = min(_WARMUP, len(common) // 4) if skip is None else skip
    steps = common[first:]
    if not steps:
        raise InputError(
            f"the {len(series)} ranks print no step that all of them have after the first {first}"
        )
    pace = np.array([[one.pace[step] for step in steps] for one in series])
    if any(one.by_clock for one in series):
        # Clocks are coarse: two lines may have one moment, and the time between them is none.
        pace = np.concatenate([_evened(part) for part in np.array_split(pace, PARTS, axis=1)], axis=1)
    has_data = all(set(steps) <= set(one.data) for one in series)
    data = np.array([[one.data[step] for step in steps] for one in series]) if has_data else None
    everyone = range(len(series))
    first_look = [_speed(series, number, pace, data, everyone) for number in everyone]
    # The slow ranks of a whole node raise the median that they are held against.
    usual = [number for number, one in enumerate(first_look) if not one.is_slower and not one.waits_for_data]
    found = (_speed(series, number, pace, data, usual or everyone) for number in everyone)
    speeds = tuple(sorted(found, key=lambda one: one.rank))
    hosts = _hosts(speeds, per_node or USUAL_NODE)
    findings = (*_findings(speeds, hosts, "is_slower"), *_findings(speeds, hosts, "waits_for_data"))
    return RankComparison(
        ranks=speeds, steps=len(steps), unit=unit, findings=findings, notes=tuple(_notes(speeds, len(steps)))
    )


def _named_ranks(logs: Sequence[ParsedLog]) -> Iterator[RankLog]:
    names = names_from([log.log for log in logs])
    for log, (rank, host) in zip(logs, names, strict=True):
        if ranks := log.tagged_ranks():
            per_node = log.facts.gpus_per_node or _per_node(log)
            for one in ranks:
                node = f"node {one.rank // per_node}" if per_node else None
                yield RankLog(one.rank, node or host, log.log, one.records)
        else:
            yield RankLog(rank, host, log.log, log.records)


def _per_node(log: ParsedLog) -> int | None:
    """Return the devices of a node, where the log names devices and nodes."""
    gpus, nodes = log.facts.gpus, log.facts.nodes
    return gpus // nodes if gpus and nodes and nodes > 1 and gpus % nodes == 0 else None


def _series(of: RankLog) -> _Series:
    records = of.records
    keys = np.arange(records.count, dtype=float)
    if records.step is not None:
        keys = records.step.array()
        if records.epoch is not None:
            keys = keys + _EPOCH * records.epoch.array()
    data = records.data_time_s.array() if records.data_time_s is not None else None
    by_clock = records.step_time_s is None and records.rate is None
    return _Series(of, _by_step(keys, _pace(records)), _by_step(keys, data), by_clock)


def _pace(records: Records) -> Floats | None:
    """Return what a step takes in each record: its time, the inverse of its rate, or the time since the last record."""
    if records.step_time_s is not None:
        return records.step_time_s.array()
    if records.rate is not None:
        return np.asarray(1 / records.rate.array())
    if records.clock_s is not None and records.count > 1:
        return np.concatenate(([np.nan], np.diff(records.clock_s.array())))
    return None


def _evened(part: Floats) -> Floats:
    """Return each rank's mean over a part of the steps, for each of these steps."""
    return np.repeat(part.mean(axis=1, keepdims=True), part.shape[1], axis=1) if part.size else part


def _by_step(keys: Floats, values: Floats | None) -> dict[float, float]:
    if values is None:
        return {}
    good = np.isfinite(keys) & np.isfinite(values)
    return dict(zip(keys[good].tolist(), values[good].tolist(), strict=True))


def names_from(paths: Sequence[str]) -> list[tuple[int, str | None]]:
    """Return rank and host of each log by its path: ``node03/rank17.log``, ``attempt_0/3/stdout.log``, ``train.5.log``.

    Where no name has a word for the rank, it is the last number that is another in each path, else the log's place.
    """
    hosts = [_host(path) for path in paths]
    found = [_RANK.findall(path) for path in paths]
    if all(found):
        ranks = [int(numbers[-1]) for numbers in found]
    else:
        numbers = [[int(word) for word in _NUMBER.findall(path)] for path in paths]
        columns = list(zip(*numbers, strict=True)) if len({len(one) for one in numbers}) == 1 else []
        distinct = [column for column in columns if len(set(column)) == len(paths)]
        ranks = list(distinct[-1]) if distinct else list(range(len(paths)))
    return list(zip(ranks, hosts, strict=True))


def _host(path: str) -> str | None:
    found = _HOST.findall(path)
    return str(found[-1]).rstrip("-_") if found else None


def _refuse_equal_names(ranks: Sequence[RankLog]) -> None:
    (name, count), *_ = Counter((one.host, one.rank) for one in ranks).most_common(1)
    if count > 1:
        twice = " and ".join(one.log for one in ranks if (one.host, one.rank) == name)
        raise InputError(f"{twice} are both rank {name[1]}: give the logs of one job, one of each rank")


def _speed(
    series: Sequence[_Series], number: int, pace: Floats, data: Floats | None, against: Sequence[int]
) -> RankSpeed:
    """Return rank ``number`` held against the ranks ``against`` but itself; against all others if none is left."""
    one = series[number].of
    others = [other for other in against if other != number] or [
        other for other in range(len(series)) if other != number
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = pace[number] / np.median(pace[others], axis=0)
    slower = float(np.median(ratios)) - 1
    known = bool(np.isfinite(slower))
    interval = _interval(ratios, len(series))
    more = None if data is None else data[number] - np.median(data[others], axis=0)
    step = float(np.median(pace[number]))
    in_seconds = one.records.rate is None or one.records.step_time_s is not None
    more_s = None if more is None else float(np.median(more))
    # A rank that waits must do so in most parts of the run, and by more than the steps' own spread.
    lasting = more is not None and all(
        float(np.median(part)) > 0 for part in np.array_split(more, min(PARTS, len(more)))
    )
    least_s = LEAST_DIFFERENCE * float(np.median(pace))
    return RankSpeed(
        rank=one.rank,
        host=one.host,
        log=one.log,
        records=one.records.count,
        step_time_s=step if in_seconds else None,
        rate=None if one.records.rate is None else float(np.median(one.records.rate.array())),
        data_time_s=None if data is None else float(np.median(data[number])),
        slower_by=slower if known else None,
        interval=interval,
        more_data_s=more_s,
        is_slower=interval is not None and interval[0] > 0 and slower > LEAST_DIFFERENCE,
        waits_for_data=in_seconds and lasting and more_s is not None and more_s > least_s,
    )


def _interval(ratios: Floats, ranks: int) -> tuple[float, float] | None:
    """Return the interval of a ratio minus 1, so that of all ranks together 5 % of jobs have one falsely outside 0."""
    logs = np.log(ratios[np.isfinite(ratios) & (ratios > 0)])
    if len(logs) < 2 * PARTS:
        return None
    parts = np.array([np.median(part) for part in np.array_split(logs, PARTS)])
    width = student_t(PARTS - 1, 1 - (1 - CONFIDENCE) / ranks) * parts.std(ddof=1) / np.sqrt(PARTS)
    middle = float(parts.mean())
    return float(np.expm1(middle - width)), float(np.expm1(middle + width))


def _findings(
    ranks: Sequence[RankSpeed], hosts: Mapping[str, Sequence[RankSpeed]], which: str
) -> Iterator[str]:
    """Yield a sentence for each host all of whose ranks are concerned, and for each other rank."""
    concerned = [one for one in ranks if getattr(one, which)]
    rest = list(concerned)
    others = "the other" if len(ranks) == 2 else "the others"
    for host, members in hosts.items():
        if 1 < len(members) < len(ranks) and all(getattr(one, which) for one in members):
            rest = [one for one in rest if one not in members]
            yield f"{host}: its {len(members)} ranks {_what(members, which, others)}"
    for one in rest:
        on = f" on {one.host}" if one.host else ""
        yield f"rank {one.rank}{on} {_what([one], which, others)}"


def _hosts(ranks: Sequence[RankSpeed], per_node: int) -> dict[str, list[RankSpeed]]:
    """Return the ranks of each host; where no host is known, neighbours in number are taken for those of one node."""
    found: dict[str, list[RankSpeed]] = {}
    if any(one.host for one in ranks):
        for one in ranks:
            if one.host:
                found.setdefault(one.host, []).append(one)
        return found
    for one in ranks:
        first = one.rank // per_node * per_node
        name = f"ranks {first} to {first + per_node - 1} (one node of {per_node}?)"
        found.setdefault(name, []).append(one)
    return found


def _what(members: Sequence[RankSpeed], which: str, others: str) -> str:
    verb = "is" if len(members) == 1 else "are"
    if which == "is_slower":
        by = float(np.median([one.slower_by or 0.0 for one in members]))
        return f"{verb} {by:.1%} slower than {others}"
    more = float(np.median([one.more_data_s or 0.0 for one in members]))
    waits = "waits" if len(members) == 1 else "wait"
    return f"{waits} {more:.3g} s a step longer for data than {others}"


def _notes(ranks: Sequence[RankSpeed], steps: int) -> Iterator[str]:
    if steps < 2 * PARTS:
        yield f"{steps} common steps show no interval (it needs {2 * PARTS}): no rank is called slower"
    elif not any(one.is_slower or one.waits_for_data for one in ranks):
        widest = max(abs(one.slower_by or 0.0) for one in ranks)
        sentence = f"all ranks have one pace within {widest:.1%}"
        if ranks[0].data_time_s is None:
            sentence += (
                "; ranks that average gradients wait for each other, and no time of waiting is printed"
            )
        yield sentence
