"""The results of a site as entries of its table: a case of a campaign, with what the table and its filters need."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from trainmark.report.sections.machine import gpus, nodes
from trainmark.schema.results import CaseResult, Results, pooled
from trainmark.site.campaigns import Campaign


@dataclass(frozen=True, slots=True)
class Entry:
    """A case of a campaign. ``result`` is without its runs, whose number is ``runs``.

    ``key`` and ``anchor`` are the campaign's page and the place there. ``doubts`` are the codes of the doubts about
    its number, ``doubtful`` marks it. ``older``: a later campaign measured the case on the same machine.
    ``carried``: no later one did, but a later campaign of the suite has no number for the case, so the newest number
    is carried over.
    """

    key: str
    anchor: str
    source: str
    suite: str
    machine: str
    at: datetime
    result: CaseResult
    runs: int
    doubts: tuple[str, ...] = ()
    doubtful: bool = False
    older: bool = False
    carried: bool = False


def anchor_of(case_id: str) -> str:
    """Return the name of a case's place on its campaign's page: ids have characters that addresses lack."""
    return f"c{hashlib.sha256(case_id.encode('utf-8', 'replace')).hexdigest()[:10]}"


def entries_of(campaign: Campaign) -> list[Entry]:
    """Return an entry for each case of a campaign."""
    results = campaign.results
    assert results.findings is not None
    doubts: dict[str, dict[str, None]] = {}
    for doubt in results.findings.doubts:
        doubts.setdefault(doubt.case, {})[doubt.code] = None
    return [
        Entry(
            key=campaign.key,
            anchor=anchor_of(found.id),
            source=campaign.source,
            suite=results.suite,
            machine=machine_of(found, results),
            at=min((run.started_at for run in found.runs if run.started_at), default=results.measured[0]),
            result=_without_runs(found),
            runs=len(found.runs),
            doubts=tuple(doubts.get(found.id, ())),
            doubtful=found.id in results.findings.doubtful,
        )
        for found in results.cases
    ]


def _without_runs(found: CaseResult) -> CaseResult:
    """Return a case with a single run for its unit: entries of many campaigns are in memory at once."""
    first = next((run for run in found.runs if run.measurement), None)
    light = (
        () if first is None else (first.model_copy(update={"telemetry": (), "commands": (), "gates": None}),)
    )
    return found.model_copy(update={"runs": light, "trials": (), "repeats": None})


def machine_of(found: CaseResult, results: Results) -> str:
    """Return the GPUs, or else the processors, of the nodes that ran a case; empty if they are unknown."""
    for run in pooled(found.runs) or found.runs:
        manifest = results.manifests.get(run.manifest or "")
        names = Counter(gpus(node) or node.cpu.model or "" for node in (nodes(manifest) if manifest else ()))
        if names:
            return " + ".join(f"{n} × ({name})" if n > 1 else name for name, n in names.items())
    return ""


def with_age(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries, newest first, with ``older`` and ``carried`` filled in."""
    ordered = sorted(entries, key=lambda entry: (entry.at, entry.key), reverse=True)
    newest: dict[tuple[str, str], str] = {}
    campaigns = _campaign_times(ordered)
    found = []
    for entry in ordered:
        name = (entry.result.id, entry.machine)
        measured = entry.result.estimate is not None
        older = newest.get(name, entry.key) != entry.key
        if measured:
            newest.setdefault(name, entry.key)
        others = campaigns.get((entry.suite, entry.machine), {})
        later = any(at > entry.at for key, at in others.items() if key != entry.key)
        carried = measured and not older and later
        found.append(replace(entry, older=older, carried=carried))
    return found


def _campaign_times(entries: Sequence[Entry]) -> dict[tuple[str, str], dict[str, datetime]]:
    """Return when each campaign began, by suite and machine; campaigns without a number do not count."""
    times: dict[tuple[str, str], dict[str, datetime]] = {}
    for entry in entries:
        if entry.result.estimate is not None:
            alike = times.setdefault((entry.suite, entry.machine), {})
            alike[entry.key] = min(entry.at, alike.get(entry.key, entry.at))
    return times
