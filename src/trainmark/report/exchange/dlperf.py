"""``--to dlperf-json``: model, topology, mean, median and speedup of the runs, in the form of document 002.

The rules are that document's (计算规则): mean and median over the runs of a topology, the speedup by the median
against one node with one device, two decimals.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from statistics import fmean, median

from trainmark.errors import InputError
from trainmark.measure.pooling import same_kinds
from trainmark.measure.rules import no_speedup
from trainmark.report.exchange.rows import SpeedRow

BASELINE = "1n1g"

TopologyResult = dict[str, float | int | None]
DlperfResult = dict[str, dict[str, TopologyResult]]


def dlperf_json(rows: Iterable[SpeedRow]) -> DlperfResult:
    """Return ``{model: {topology: {average_speed, batch_size_per_device, median_speed, speedup}}}``.

    Runs without a number are not part of a mean or a median; both are null if a topology has only such runs. All
    speedups are null without a ``1n1g`` that has a number; a single speedup is null if a side was disturbed by its
    machine, ran on other hardware or on several machines. If a model ran with several batches, precisions or variants,
    each gets a separate entry with a longer name, such as ``r50_b128_fp32``. Raises ``InputError`` if two runs of one
    case have the same number, or runs of one case have different units.
    """
    return {name: _model(members[0].model, members) for name, members in _models(rows).items()}


def without_speedup(rows: Iterable[SpeedRow]) -> tuple[str, ...]:
    """Return a sentence for each topology without a speedup because it or ``1n1g`` ran on other hardware.

    The format has no field for the reason.
    """
    sentences = []
    for name, members in _models(rows).items():
        topologies = _topologies(members)
        alone = _hardware(topologies.get(BASELINE, []))
        for topology, runs in topologies.items():
            if BASELINE in topologies and not same_kinds(_hardware(runs), alone):
                baseline = BASELINE if topology != BASELINE else f"{name} {BASELINE}"
                sentences.append(no_speedup(f"{name} {topology}", _hardware(runs), baseline, alone))
    return tuple(sentences)


def _models(rows: Iterable[SpeedRow]) -> dict[str, list[SpeedRow]]:
    """Return the rows by their model's name, which is longer if a model ran in several variants."""
    groups: dict[tuple[str, str], list[SpeedRow]] = {}
    for row in rows:
        groups.setdefault((row.model, _suffix(row)), []).append(row)
    variants = Counter(model for model, _ in groups)
    return {
        f"{model}_{suffix}" if variants[model] > 1 else model: members
        for (model, suffix), members in groups.items()
    }


def _suffix(row: SpeedRow) -> str:
    words = (f"b{row.batch_per_device}", row.precision, *(value for _, value in row.variant))
    return "_".join(word for word in words if word)


def _model(model: str, rows: list[SpeedRow]) -> dict[str, TopologyResult]:
    units = sorted({row.unit for row in rows if row.unit is not None})
    if len(units) > 1:
        raise InputError(f"{model}: {' and '.join(units)} cannot share one result")
    topologies = _topologies(rows)
    for topology, members in topologies.items():
        repeat, count = Counter(row.repeat for row in members).most_common(1)[0]
        if count > 1:
            raise InputError(f"{model} {topology}: {count} runs are number {repeat}")
    baseline = topologies.get(BASELINE, [])
    return {topology: _topology(members, baseline) for topology, members in topologies.items()}


def _topologies(rows: list[SpeedRow]) -> dict[str, list[SpeedRow]]:
    topologies: dict[str, list[SpeedRow]] = {}
    for row in sorted(rows, key=lambda row: (row.nodes, row.devices, row.repeat)):
        topologies.setdefault(row.topology, []).append(row)
    return topologies


def _hardware(rows: list[SpeedRow]) -> frozenset[Hashable]:
    return frozenset().union(*(row.hardware for row in rows))


def _topology(rows: list[SpeedRow], alone: list[SpeedRow]) -> TopologyResult:
    speed, baseline = _sound_median(rows), _sound_median(alone)
    if not same_kinds(_hardware(rows), _hardware(alone)):
        baseline = None
    return {
        "average_speed": _rounded(_mean(rows)),
        "batch_size_per_device": rows[0].batch_per_device,
        "median_speed": _rounded(_median(rows)),
        "speedup": None if speed is None or baseline is None else _rounded(speed / baseline),
    }


def _sound_median(rows: Iterable[SpeedRow]) -> float | None:
    return _median(row for row in rows if row.one_machine and not row.spoiled)


def _speeds(rows: Iterable[SpeedRow]) -> list[float]:
    return [row.speed for row in rows if row.speed is not None]


def _mean(rows: Iterable[SpeedRow]) -> float | None:
    speeds = _speeds(rows)
    return fmean(speeds) if speeds else None


def _median(rows: Iterable[SpeedRow]) -> float | None:
    speeds = _speeds(rows)
    return median(speeds) if speeds else None


def _rounded(value: float | None) -> float | None:
    """Round to two decimals as numpy does (the nearest hundredth, ties to even): 5099.425 gives 5099.42.

    ``round(value, 2)`` uses the binary value instead and gives 5099.43, which is not the published number.
    """
    return None if value is None else round(value * 100) / 100
