"""The evidence of a campaign's numbers, the same for all languages: log lines, commands, and environments.

What programs print and what was started has no language, so these pages exist once.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainmark.logs.events import stream_event
from trainmark.node import last_step
from trainmark.printable import last_line
from trainmark.report.blocks import Block, Cell, Code, Column, Paragraph, Section, Span, Table, cell, code
from trainmark.report.context import Axes
from trainmark.report.language import Language, catalogue
from trainmark.report.sections.machine import flat
from trainmark.report.sections.runs import runs_with_commands, runs_with_different_commands
from trainmark.schema.manifest import Manifest
from trainmark.schema.names import EVENTS, LOG
from trainmark.schema.results import CaseResult, RunResult, StoredManifest
from trainmark.site.campaigns import Campaign
from trainmark.site.entries import anchor_of

MOST_OF_LOG_BYTES = 1 << 20
"""The part of a log, from its end, in which its last record is searched."""

LONGEST_LINE = 400


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a run's file from which its number comes; ``line`` is its number from 1, None if it is not counted."""

    file: str
    line: int | None
    text: str


def in_all_languages(key: str, **values: object) -> str:
    """Return a sentence in every language, for a page that exists once."""
    return " · ".join(catalogue(language)(key, **values) for language in Language)


def environment_key(fingerprint: str) -> str:
    """Return the name of an environment's page."""
    return hashlib.sha256(fingerprint.encode()).hexdigest()[:16]


def evidence_sections(campaign: Campaign, logs: str | None = None) -> tuple[Section, ...]:
    """Return a section for each case with runs: the line that its number comes from, the commands, the environments.

    ``logs`` is the relative address at which a server has the whole logs; None in a folder of files.
    """
    axes = Axes.of(campaign.results.cases)
    return tuple(
        Section(anchor_of(found.id), axes.label(found.case), tuple(_blocks(campaign, found, logs)))
        for found in campaign.results.cases
        if found.runs
    )


def _blocks(campaign: Campaign, found: CaseResult, logs: str | None) -> Iterator[Block]:
    for run in found.runs:
        if (line := log_line(campaign.folder, run)) is not None:
            number = "-" if line.line is None else line.line
            yield Code(
                in_all_languages("log_line", repeat=run.repeat, file=line.file, line=number), line.text
            )
        if logs is not None and within(campaign.folder, f"{run.directory}/{LOG}") is not None:
            href = f"{logs}{campaign.key}/{anchor_of(found.id)}/{run.repeat}"
            yield Paragraph((Span(in_all_languages("whole_log", repeat=run.repeat), href=href),))
    started, different = runs_with_commands(found), runs_with_different_commands(found)
    key = "case_command" if len(different) == len(started) else "case_commands"
    for run in different:
        yield Code(in_all_languages(key, repeat=run.repeat), "\n".join(run.commands))
    # A server finds an environment by its campaign; files exist once for all campaigns.
    folder = "" if logs is None else f"{campaign.key}/"
    links = [
        Span(
            in_all_languages("environment_title"),
            href=f"../environments/{folder}{environment_key(manifest)}.html",
        )
        for manifest in dict.fromkeys(run.manifest for run in found.runs)
        if manifest is not None and manifest in campaign.results.manifests
    ]
    yield from (Paragraph((link,)) for link in links)


def environments_of(campaign: Campaign) -> Mapping[str, StoredManifest]:
    """Return the environments of a campaign by the names of their pages."""
    return {environment_key(name): manifest for name, manifest in campaign.results.manifests.items()}


def environment_sections(manifest: StoredManifest) -> tuple[Section, ...]:
    """Return the section with every fact of an environment."""
    document = manifest.model_dump(mode="json") if isinstance(manifest, Manifest) else manifest
    title = in_all_languages("manifest_title")
    columns = (
        Column(in_all_languages("column_fact"), numeric=False),
        Column(in_all_languages("column_value"), numeric=False),
    )
    rows = tuple((Cell(code(name)), cell(text)) for name, text in flat(document))
    return (Section("manifest", title, (Table("", columns, rows),)),)


def log_line(folder: Path, run: RunResult) -> LogLine | None:
    """Return the line that a run's number comes from: the summary of its events, else the last record of its log.

    None if the run has no number or its files are not in ``folder``.
    """
    if run.measurement is None:
        return None
    return _summary_line(within(folder, f"{run.directory}/{EVENTS}")) or _last_record(
        within(folder, f"{run.directory}/{LOG}")
    )


def within(folder: Path, path: str) -> Path | None:
    """Return a regular file below a folder; None if there is none, or if a link or ``..`` leads out of the folder.

    ``path`` may come from another machine's results.
    """
    try:
        found = (folder / path).resolve()
        if found.is_relative_to(folder.resolve()) and found.is_file():
            return found
    except (OSError, ValueError):
        pass
    return None


def _summary_line(events: Path | None) -> LogLine | None:
    if events is None:
        return None
    found = None
    with events.open(encoding="utf-8", errors="replace") as lines:
        for number_of_line, line in enumerate(lines, start=1):
            event = stream_event(line) if '"step": []' in line or '"step":[]' in line else None
            if event is not None and event["step"] == []:
                found = LogLine(EVENTS, number_of_line, json.dumps(event["data"], ensure_ascii=False))
    return None if found is None else LogLine(found.file, found.line, found.text[:LONGEST_LINE])


def _last_record(log: Path | None) -> LogLine | None:
    if log is None:
        return None
    size = log.stat().st_size
    with log.open("rb") as file:
        file.seek(max(0, size - MOST_OF_LOG_BYTES))
        tail = file.read()
    lines = tail.split(b"\n")
    for place in range(len(lines) - 1, -1, -1):
        if last_step(lines[place]) is not None:
            # The line's number is known if the whole log was read.
            counted = place + 1 if size <= MOST_OF_LOG_BYTES else None
            words = last_line(lines[place].decode("utf-8", "replace"))
            return LogLine(LOG, counted, words[:LONGEST_LINE])
    return None
