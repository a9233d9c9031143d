"""Facts of all campaigns that the tables of a site need, gathered one campaign at a time."""

from datetime import datetime

from trainmark.history import Point, points_of_results
from trainmark.site.campaigns import Campaign
from trainmark.site.entries import Entry, entries_of


class SiteIndex:
    """The entries, points and times of campaigns, by their keys; it holds no run and no log.

    ``times`` are the start times of each suite's campaigns, ``suites`` is the suite of each campaign, ``points`` are
    those of each case, whose source is the campaign's key.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.points: dict[str, list[Point]] = {}
        self.times: dict[str, dict[str, datetime]] = {}
        self.suites: dict[str, str] = {}

    def add(self, campaign: Campaign) -> None:
        """Add a campaign."""
        results = campaign.results
        self.entries += entries_of(campaign)
        self.suites[campaign.key] = results.suite
        self.times.setdefault(results.suite, {})[campaign.key] = results.measured[0]
        for case, points in points_of_results([(campaign.key, results)]).items():
            self.points.setdefault(case, []).extend(points)

    @property
    def models(self) -> frozenset[str]:
        """The models of all entries."""
        return frozenset(entry.result.case.model for entry in self.entries)

    def newest_pairs(self) -> list[tuple[str, str]]:
        """Return the newest two campaigns of each suite on each machine, the earlier first; a copy of one is none."""
        found: dict[tuple[str, str], dict[str, datetime]] = {}
        for entry in self.entries:
            if entry.result.estimate is not None:
                alike = found.setdefault((entry.suite, entry.machine), {})
                alike[entry.key] = min(entry.at, alike.get(entry.key, entry.at))
        # Campaigns that started in the same microsecond are one and its copies.
        distinct = [{at: key for key, at in times.items()} for times in found.values()]
        pairs = ([keys[at] for at in sorted(keys)[-2:]] for keys in distinct if len(keys) > 1)
        return list(dict.fromkeys((one, other) for one, other in pairs))
