"""Lists of stored results for pages: a part of them at a time, by indexes that hold no run's document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, and_, false, func, or_, select, tuple_

from trainmark.schema.case import UNKNOWN
from trainmark.schema.results import RunResult, StoredManifest
from trainmark.store.database import Store, with_zone
from trainmark.store.tables import campaigns, manifests, runs

MODEL = "model"
_TEXT = {
    MODEL: runs.c.model,
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


@dataclass(frozen=True, slots=True)
class StoredCase:
    """A part of a case's results: its runs and the suite of each campaign by number, oldest first, and the manifests.

    ``total`` is the number of campaigns that have the case, ``unread`` the number of those in the part that only
    another version of trainmark can read.
    """

    runs: Mapping[int, Sequence[RunResult]]
    suites: Mapping[int, str]
    manifests: Mapping[str, StoredManifest]
    total: int
    unread: int = 0


_MANIFEST: TypeAdapter[StoredManifest] = TypeAdapter(StoredManifest)


def count_cases(store: Store, most: int) -> dict[str, int]:
    """Return the number of campaigns of each case; at most ``most`` cases, those with most campaigns first."""
    number = func.count(runs.c.campaign_id.distinct())
    counted = select(runs.c.case_id, number).group_by(runs.c.case_id)
    with store.reading() as connection:
        rows = connection.execute(counted.order_by(number.desc(), runs.c.case_id).limit(most)).all()
    return {row.case_id: row[1] for row in rows}


def read_case(store: Store, case_id: str, first: int, size: int) -> StoredCase:
    """Return the results of a case in ``size`` campaigns, from number ``first`` (0 is the newest) on."""
    if "\0" in case_id:
        return StoredCase({}, {}, {}, 0)
    of_case = runs.c.case_id == case_id
    numbers = select(runs.c.campaign_id).where(of_case).distinct().order_by(runs.c.campaign_id.desc())
    found: dict[int, list[RunResult]] = {}
    unread: set[int] = set()
    with store.reading() as connection:
        every = list(connection.scalars(numbers))
        part = every[first : first + size]
        chosen = runs.c.campaign_id.in_(part)
        rows = connection.execute(
            select(runs.c.campaign_id, runs.c.result)
            .where(of_case, chosen)
            .order_by(runs.c.campaign_id, runs.c.repeat)
        )
        for campaign, document in rows:
            try:
                found.setdefault(campaign, []).append(RunResult.model_validate(document))
            except ValidationError:
                unread.add(campaign)
        used = select(runs.c.fingerprint).where(of_case, chosen)
        documents = connection.execute(select(manifests).where(manifests.c.fingerprint.in_(used)))
        known = {row.fingerprint: _MANIFEST.validate_python(row.document) for row in documents}
        named = connection.execute(select(campaigns.c.id, campaigns.c.suite).where(campaigns.c.id.in_(part)))
        suites = {row.id: row.suite for row in named}
    read = {campaign: of for campaign, of in found.items() if campaign not in unread}
    return StoredCase(read, suites, known, len(every), len(unread))


def campaign_starts(store: Store, suite: str, most: int) -> dict[int, datetime]:
    """Return the start of the ``most`` newest campaigns of a suite that have a started run, by their numbers."""
    newest = (
        select(campaigns.c.id).where(campaigns.c.suite == suite).order_by(campaigns.c.id.desc()).limit(most)
    )
    with store.reading() as connection:
        numbers = list(connection.scalars(newest))
        started = (
            select(runs.c.campaign_id, func.min(runs.c.started_at))
            .where(runs.c.campaign_id.in_(numbers), runs.c.started_at.is_not(None))
            .group_by(runs.c.campaign_id)
        )
        rows = connection.execute(started).all()
    return {campaign: at for campaign, moment in rows if (at := with_zone(moment)) is not None}


def list_results(store: Store, chosen: Mapping[str, str], first: int, size: int) -> ListedResults:
    """Return ``size`` results from number ``first`` (from 0) on, of those with the ``chosen`` value on each axis.

    The value of ``devices`` is the text of ``devices_text``; an unknown value matches nothing.
    """
    where = _condition(chosen)
    columns = (runs.c.campaign_id, runs.c.case_id)
    groups = select(*columns).where(*where).group_by(*columns)
    # Counted within each campaign: databases count pairs by a table of all of them, and this by an index.
    cases = func.count(runs.c.case_id.distinct()).label("cases")
    counted = select(cases).where(*where).group_by(runs.c.campaign_id).subquery()
    part = groups.order_by(runs.c.campaign_id.desc(), runs.c.case_id.desc()).limit(size).offset(first)
    with store.reading() as connection:
        total = connection.scalar(select(func.sum(counted.c.cases))) or 0
        rows = connection.execute(part).all()
    return ListedResults(tuple(ListedResult(*row) for row in rows), int(total))


def axis_values(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the different values of each axis, in no particular order; an unknown model is named by its program."""
    columns = (*_TEXT.values(), runs.c.nodes, runs.c.devices_per_node)
    with store.reading() as connection:
        rows = connection.execute(select(*columns).distinct()).all()
        suites = connection.scalars(select(campaigns.c.suite).distinct()).all()
        foreign = select(runs.c.workload).where(runs.c.model == UNKNOWN).distinct()
        programs = set(connection.scalars(foreign).all())
    found = {name: tuple({row[place] for row in rows}) for place, name in enumerate(_TEXT)}
    found[MODEL] = tuple({*found[MODEL], *programs} - {UNKNOWN})
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
        elif name == MODEL:
            # The program's name is read of the few runs without a model alone, as the index has no other column.
            of_program = and_(runs.c.model == UNKNOWN, runs.c.workload == value)
            found.append(or_(runs.c.model == value, of_program))
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
