"""Lists of stored results for pages: a part of them at a time, by indexes that hold no run's document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, false, func, select, tuple_

from trainmark.store.database import Store
from trainmark.store.tables import campaigns, runs

_TEXT = {
    "model": runs.c.model,
    "framework": runs.c.framework,
    "precision": runs.c.precision,
    "batch": runs.c.batch_per_device,
}
DEVICES, SUITE = "devices", "suite"
AXES = (*_TEXT, DEVICES, SUITE)
"""The axes by which a list can be filtered."""


@dataclass(frozen=True, slots=True)
class ListedResult:
    """A case with runs in a campaign."""

    campaign: int
    case_id: str


@dataclass(frozen=True, slots=True)
class ListedResults:
    """A part of a list, newest campaign first, and the length of the whole list."""

    rows: tuple[ListedResult, ...]
    total: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """A stored run: its number in the database, its campaign, its case, and its document."""

    id: int
    campaign: int
    case_id: str
    document: Mapping[str, Any]


def list_results(store: Store, chosen: Mapping[str, str], first: int, size: int) -> ListedResults:
    """Return ``size`` results from number ``first`` (from 0) on, of those with the ``chosen`` value on each axis.

    The value of ``devices`` is the text of ``devices_text``; an unknown value matches nothing.
    """
    where = _condition(chosen)
    columns = (runs.c.campaign_id, runs.c.case_id)
    groups = select(*columns).where(*where).group_by(*columns)
    part = groups.order_by(runs.c.campaign_id.desc(), runs.c.case_id.desc()).limit(size).offset(first)
    with store.reading() as connection:
        total = connection.scalar(select(func.count()).select_from(groups.subquery())) or 0
        rows = connection.execute(part).all()
    return ListedResults(tuple(ListedResult(*row) for row in rows), total)


def axis_values(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the different values of each axis, in no particular order."""
    columns = (*_TEXT.values(), runs.c.nodes, runs.c.devices_per_node)
    with store.reading() as connection:
        rows = connection.execute(select(*columns).distinct()).all()
        suites = connection.scalars(select(campaigns.c.suite).distinct()).all()
    found = {name: tuple({row[place] for row in rows}) for place, name in enumerate(_TEXT)}
    devices = tuple({devices_text(row[-2], row[-1]) for row in rows})
    return {**found, DEVICES: devices, SUITE: tuple(suites)}


def devices_text(nodes: int, devices_per_node: int) -> str:
    """Return a number of devices as tables write it: ``8``, or ``32 (4n8g)`` on several nodes."""
    total = nodes * devices_per_node
    return str(total) if nodes == 1 else f"{total} ({nodes}n{devices_per_node}g)"


def last_run(store: Store) -> int:
    """Return the number of the newest stored run, 0 without one; every change of a run gives it a new number."""
    with store.reading() as connection:
        return connection.scalar(select(func.max(runs.c.id))) or 0


def runs_after(store: Store, number: int, most: int = 1000) -> Sequence[NewRun]:
    """Return at most ``most`` runs with a larger number, in the order of their numbers."""
    columns = (runs.c.id, runs.c.campaign_id, runs.c.case_id, runs.c.result)
    newer = select(*columns).where(runs.c.id > number).order_by(runs.c.id).limit(most)
    with store.reading() as connection:
        return [NewRun(*row) for row in connection.execute(newer)]


def _condition(chosen: Mapping[str, str]) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for name, value in chosen.items():
        if "\0" in value:
            # PostgreSQL has no such text and would refuse the question.
            found.append(false())
        elif name in _TEXT:
            found.append(_TEXT[name] == value)
        elif name == DEVICES:
            found.append(tuple_(runs.c.nodes, runs.c.devices_per_node).in_([_topology(value)]))
        elif name == SUITE:
            found.append(runs.c.campaign_id.in_(select(campaigns.c.id).where(campaigns.c.suite == value)))
    return found


def _topology(text: str) -> tuple[int, int]:
    """Return nodes and devices per node of the text of a number of devices; (0, 0), which no run has, for another."""
    total, _, topology = text.partition(" ")
    nodes, _, each = topology.strip("()").removesuffix("g").partition("n")
    digits = (nodes, each) if topology else ("1", total)
    if not all(word.isascii() and word.isdigit() and len(word) < 9 for word in digits):
        return (0, 0)
    return int(digits[0]), int(digits[1])
