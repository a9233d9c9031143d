"""The points of a case's history, from a database or result directories, each with its environment as facts."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from trainmark.measure.pooling import machine_kinds
from trainmark.schema.history import ChangeCause
from trainmark.schema.manifest import Manifest
from trainmark.schema.outcome import PartName
from trainmark.schema.results import Results, RunResult, StoredManifest, pooled
from trainmark.store import Store

_METHOD_PARTS = {PartName.CARD, PartName.COMMANDS, PartName.DATA, PartName.FILES}
_HARDWARE = re.compile(r"^(cpu|memory|virtualisation|accelerators\.(gpus|topology))\b|^os\.machine$")
_LEFT_OUT = re.compile(
    r"^(collected|peaks|hostname|trainmark)\b|\.(uuid|pci|allowed)$|^cpu\.(allowed|pinned)$"
)
"""Facts that differ without a meaning for speed, or that are facts under another name."""
_RUNS_OF_A_HOST = 3.0
"""Results that a host has on average, if hosts are machines of their own: those of a cloud come once and go."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of a result: its value, and what a change of it is a change of (None for the program's software)."""

    value: str
    cause: ChangeCause | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One result of a case: ``value`` in the case's unit, ``facts`` by name."""

    source: str
    at: datetime
    value: float
    runs: int = 1
    host: str = ""
    kind: str = ""
    unit: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)


def points_of_store(store: Store, address: str) -> dict[str, list[Point]]:
    """Return the points of each case of a database, one for each campaign, in the order of time."""
    found: dict[str, list[Point]] = {}
    for campaign in store.campaigns():
        stored = store.runs_of(campaign)
        for case, runs in stored.runs.items():
            point = point_of(f"{address}#{campaign.id}", list(runs), stored.manifests)
            if point is not None:
                found.setdefault(case, []).append(point)
    return in_order(found)


def points_of_results(documents: Iterable[tuple[str, Results]]) -> dict[str, list[Point]]:
    """Return the points of each case of result directories, in the order of time."""
    found: dict[str, list[Point]] = {}
    for source, results in documents:
        for case in results.cases:
            point = point_of(source, list(case.runs), results.manifests, results.measured[0])
            if point is not None:
                found.setdefault(case.id, []).append(point)
    return in_order(found)


def in_order(found: dict[str, list[Point]]) -> dict[str, list[Point]]:
    """Return the points of each case in the order of time; of copies of a campaign, the one with the most runs.

    Copies are points of one machine whose first runs started in the same microsecond.
    """
    return {case: sorted(_distinct(points), key=lambda point: point.at) for case, points in found.items()}


def _distinct(points: Iterable[Point]) -> Iterable[Point]:
    found: dict[tuple[datetime, str], Point] = {}
    for point in points:
        first = found.setdefault((point.at, point.host), point)
        if point.runs > first.runs:
            found[point.at, point.host] = point
    return found.values()


def point_of(
    source: str,
    runs: Sequence[RunResult],
    manifests: Mapping[str, StoredManifest],
    otherwise: datetime | None = None,
) -> Point | None:
    """Return the point of a case's runs; None if no run has a number. ``otherwise`` is the time without a start."""
    used = pooled(runs)
    rates = [run.measurement.throughput for run in used if run.measurement is not None]
    rates = [rate for rate in rates if rate > 0 and math.isfinite(rate)]
    times = [run.started_at for run in runs if run.started_at is not None]
    at = min(times) if times else otherwise
    if not rates or at is None:
        return None
    first = used[0]
    manifest = manifests.get(first.manifest or "")
    known = manifest if isinstance(manifest, Manifest) else None
    hosts = [node.hostname or "" for node in known.nodes] if known is not None else []
    kinds = sorted(map(str, machine_kinds(first, manifests)))
    return Point(
        source=source,
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
        value=median(rates),
        runs=len(rates),
        host="+".join(sorted(set(hosts))),
        kind=" ".join(kinds),
        unit=first.measurement.unit if first.measurement else "",
        facts=dict(_facts(first, known)),
    )


def _facts(run: RunResult, manifest: Manifest | None) -> Iterator[tuple[str, Fact]]:
    measured = run.measurement
    if measured is not None:
        yield "rule", Fact(measured.rule, ChangeCause.METHOD)
        yield "warm-up steps", Fact(str(measured.warmup_steps), ChangeCause.METHOD)
        yield "measured steps", Fact(str(measured.measured_steps), ChangeCause.METHOD)
    if run.identity is not None:
        for part in run.identity.parts:
            cause = ChangeCause.METHOD if part.name in _METHOD_PARTS else None
            yield part.name.value, Fact(f"{part.word} ({part.short_digest})", cause)
    if manifest is None:
        return
    nodes = [node.model_dump(mode="json") for node in manifest.nodes]
    yield "trainmark", Fact(manifest.nodes[0].trainmark, ChangeCause.METHOD)
    yield "nodes", Fact(str(len(nodes)), ChangeCause.HARDWARE)
    for name, value in _flat(nodes[0]):
        if not _LEFT_OUT.search(name):
            yield name, Fact(value, ChangeCause.HARDWARE if _HARDWARE.match(name) else None)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the facts of a document with their dotted names; GPUs of one host are one list of each fact."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for key in value[0]:
            counted = Counter(str(one.get(key)) for one in value if isinstance(one, Mapping))
            text = ", ".join(f"{count} x {word}" if count > 1 else word for word, count in counted.items())
            yield f"{path}.{key}", text
    elif value not in (None, [], {}):
        yield path, str(value)


def machines_of(points: Sequence[Point]) -> tuple[list[int], tuple[str, ...]]:
    """Return the number of each point's machine, and the machines' names.

    Hosts are the machines if each has several results; else hosts of one kind are one machine.
    """
    hosts = Counter(point.host for point in points)
    by_host = len(points) / len(hosts) >= _RUNS_OF_A_HOST
    keys = [(point.kind, point.host if by_host else "") for point in points]
    order = list(dict.fromkeys(keys))
    names = tuple(host or kind or "unknown" for kind, host in order)
    if len(set(names)) < len(names):
        names = tuple(f"{name} ({number})" for number, name in enumerate(names, start=1))
    return [order.index(key) for key in keys], names
