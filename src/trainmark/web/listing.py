"""The table of results for a server: a part of a database's results, or all of result directories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Protocol

from trainmark.errors import TrainmarkError
from trainmark.history import Point, in_order, point_of
from trainmark.report.context import BATCH, DEVICES, FRAMEWORK, MODEL, PRECISION
from trainmark.report.language import Catalogue
from trainmark.report.time_charts import MOST_CARRIED
from trainmark.site import Campaign, DirectorySource, StoreSource
from trainmark.site.entries import Entry, anchor_of, entries_of, with_age
from trainmark.site.explorer import SUITE, AxisChoice, ordered
from trainmark.site.index import SiteIndex
from trainmark.store import axis_values, campaign_starts, count_cases, last_run, list_results, read_case

PAGE = 100
"""The number of results in one part of a table."""

MOST_OF_DIRECTORIES = 2000
"""The largest number of results of result directories, which have no index."""

_AXES = (MODEL, FRAMEWORK, PRECISION, BATCH, DEVICES, SUITE)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a table, newest first: its entries, the number before it, and the number of all that match."""

    entries: tuple[Entry, ...]
    first: int
    total: int


@dataclass(frozen=True, slots=True)
class CasesOverTime:
    """The points of some cases for the page over time, and the numbers of all results.

    ``cases`` are the numbers of results by case, those with most first. ``points`` are by case in the order of time,
    ``times`` and ``suites`` as in ``SiteIndex``. ``total`` is the number of results of the chosen case; None if
    ``points`` are the newest results of several cases.
    """

    cases: Mapping[str, int]
    points: Mapping[str, Sequence[Point]]
    times: Mapping[str, Mapping[str, datetime]]
    suites: Mapping[str, str]
    total: int | None = None


class Listing(Protocol):
    """The results of a source as a server shows them."""

    def revision(self) -> str:
        """Return a word that changes whenever a result does."""

    def part(self, chosen: Mapping[str, str], first: int, /) -> Part:
        """Return the results with the chosen value on each axis, from number ``first`` on."""

    def choices(self, say: Catalogue) -> tuple[AxisChoice, ...] | None:
        """Return the values of the axes that filter the whole table; None if a part is the whole."""

    def campaign(self, key: str) -> Campaign:
        """Return a campaign; raise ``InputError`` for an unknown key."""

    def newest_pairs(self) -> Sequence[tuple[str, str]]:
        """Return the newest two campaigns of each suite on each machine, the earlier first."""

    def models(self) -> frozenset[str]:
        """Return the models of all results."""

    def over_time(self, case: str, first: int, /) -> CasesOverTime:
        """Return the results of a case, from number ``first`` (0 is the newest) on; of several cases without one."""


class StoreListing:
    """The results of a database: each part is read when it is shown."""

    def __init__(self, source: StoreSource) -> None:
        self._source = source
        self._lock = Lock()
        self._values: tuple[str, dict[str, tuple[str, ...]]] | None = None
        self._pairs: tuple[str, list[tuple[str, str]]] | None = None

    def revision(self) -> str:
        """Return the number of the newest run."""
        return str(last_run(self._source.store))

    def part(self, chosen: Mapping[str, str], first: int) -> Part:
        """Return a part of the results."""
        listed = list_results(self._source.store, chosen, first, PAGE)
        cases: dict[int, list[str]] = {}
        for row in listed.rows:
            cases.setdefault(row.campaign, []).append(row.case_id)
        wanted = {campaign: frozenset(ids) for campaign, ids in cases.items()}
        found = {
            (entry.key, entry.anchor): entry
            for campaign in self._source.some(wanted)
            for entry in entries_of(campaign)
        }
        places = [(f"c{row.campaign}", anchor_of(row.case_id)) for row in listed.rows]
        return Part(tuple(found[place] for place in places if place in found), first, listed.total)

    def choices(self, say: Catalogue) -> tuple[AxisChoice, ...]:
        """Return the values of the database's columns."""
        revision = self.revision()
        with self._lock:
            if self._values is None or self._values[0] != revision:
                self._values = (revision, axis_values(self._source.store))
            values = self._values[1]
        return tuple(
            AxisChoice(
                name, say("column_suite" if name == SUITE else f"aspect_{name}"), ordered(values[name])
            )
            for name in _AXES
            if len(values[name]) > 1
        )

    def campaign(self, key: str) -> Campaign:
        """Return a campaign with all of its cases."""
        return self._source.campaign(key)

    def newest_pairs(self) -> Sequence[tuple[str, str]]:
        """Return the newest two campaigns of each suite on each machine, among the newest campaigns."""
        revision = self.revision()
        with self._lock:
            if self._pairs is None or self._pairs[0] != revision:
                self._pairs = (revision, _newest(self._source).newest_pairs())
            return self._pairs[1]

    def models(self) -> frozenset[str]:
        """Return the models of all results."""
        return frozenset(axis_values(self._source.store)[MODEL])

    def over_time(self, case: str, first: int) -> CasesOverTime:
        """Return the points of a case, whose results alone are read."""
        store = self._source.store
        cases = count_cases(store, MOST_CASES)
        chosen = [case] if case else [name for name, count in cases.items() if count > 1][:CASES_AT_ONCE]
        points: dict[str, list[Point]] = {}
        suites: dict[str, str] = {}
        total = None
        for name in chosen:
            found = read_case(store, name, first, MOST_POINTS if case else POINTS_OF_EACH)
            suites |= {f"c{number}": suite for number, suite in found.suites.items()}
            made = (point_of(f"c{number}", runs, found.manifests) for number, runs in found.runs.items())
            points[name] = [point for point in made if point is not None]
            total = found.total if case else None
        times = {
            suite: {f"c{number}": at for number, at in campaign_starts(store, suite, MOST_CARRIED).items()}
            for suite in (dict.fromkeys(suites.values()) if not first else ())
        }
        return CasesOverTime(cases, in_order(points), times, suites, total)


MOST_CAMPAIGNS = 60
"""The number of newest campaigns among which two are chosen to be compared, unless the reader chooses."""

MOST_CASES = 400
"""The largest number of cases that a list offers, those with most results first."""

MOST_POINTS = 500
"""The number of results of a case in one part of its history."""

CASES_AT_ONCE, POINTS_OF_EACH = 10, 60
"""The numbers of cases and of their newest results, unless the reader chooses a case."""


def _newest(source: StoreSource) -> SiteIndex:
    index = SiteIndex()
    for key in source.keys()[-MOST_CAMPAIGNS:]:
        try:
            index.add(source.campaign(key))
        except TrainmarkError:
            continue
    return index


class DirectoryListing:
    """The results of result directories, each read again when one of its files changes."""

    def __init__(self, source: DirectorySource) -> None:
        self._source = source
        self._lock = Lock()
        self._read: dict[str, tuple[str, Campaign | None]] = {}

    def revision(self) -> str:
        """Return the times of the files that tell of results."""
        return "|".join(f"{key}:{_signature(self._source.folder(key))}" for key in self._source.keys())  # noqa: SIM118

    def part(self, _chosen: Mapping[str, str], _first: int) -> Part:
        """Return the newest results; they are filtered in the page."""
        entries = with_age(entry for campaign in self._campaigns() for entry in entries_of(campaign))
        return Part(tuple(entries[:MOST_OF_DIRECTORIES]), 0, len(entries))

    def choices(self, say: Catalogue) -> None:
        """Return None: a part is the whole."""

    def campaign(self, key: str) -> Campaign:
        """Return a campaign."""
        campaign = self._campaign(key)
        return self._source.campaign(key) if campaign is None else campaign

    def newest_pairs(self) -> Sequence[tuple[str, str]]:
        """Return the newest two campaigns of each suite on each machine, the earlier first."""
        return self._index().newest_pairs()

    def models(self) -> frozenset[str]:
        """Return the models of all results."""
        return self._index().models

    def over_time(self, case: str, first: int) -> CasesOverTime:
        """Return the points of a case, or of all cases."""
        index = self._index()
        counted = sorted(((name, len(points)) for name, points in index.points.items()), key=_most_first)
        points = in_order(index.points)
        if not case:
            return CasesOverTime(dict(counted), points, index.times, index.suites)
        every = points.get(case, [])
        part = every[max(0, len(every) - first - MOST_POINTS) : len(every) - first]
        return CasesOverTime(dict(counted), {case: part}, index.times, index.suites, len(every))

    def _index(self) -> SiteIndex:
        index = SiteIndex()
        for campaign in self._campaigns():
            index.add(campaign)
        return index

    def _campaigns(self) -> list[Campaign]:
        found = (self._campaign(key) for key in self._source.keys())  # noqa: SIM118
        return [campaign for campaign in found if campaign is not None]

    def _campaign(self, key: str) -> Campaign | None:
        """Return a campaign as it is now; None while it cannot be read."""
        signature = _signature(self._source.folder(key))
        with self._lock:
            known = self._read.get(key)
            if known is None or known[0] != signature:
                try:
                    known = (signature, self._source.campaign(key))
                except TrainmarkError:
                    known = (signature, None)
                self._read[key] = known
        return known[1]


def _most_first(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


_TELLING = ("results.json", "results.sqlite", "results.sqlite-wal", "suite.yaml")


def _signature(folder: Path) -> str:
    times = []
    for name in _TELLING:
        try:
            status = (folder / name).stat()
            times.append(f"{status.st_mtime_ns}.{status.st_size}")
        except OSError:
            times.append("-")
    return ",".join(times)
