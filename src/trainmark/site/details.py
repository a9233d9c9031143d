"""The page of one campaign: every case with its number, its runs, its doubts, and the way to the evidence."""

import os
from pathlib import Path

from trainmark.report.blocks import Block, Bullets, Paragraph, Section, Span, plain
from trainmark.report.context import Context, context, marks, shown
from trainmark.report.language import Catalogue, Language, decimals, interval, number
from trainmark.report.sections.summary import reproduce_section, subtitle
from trainmark.schema.results import CaseResult, Doubt
from trainmark.site.campaigns import Campaign
from trainmark.site.entries import anchor_of

_NO_FOLDER = Path(os.devnull) / "none"
"""A page of a site stays whole when it is copied elsewhere: it has no links to the files of runs."""


def detail_sections(campaign: Campaign, language: Language, root: str) -> tuple[Section, ...]:
    """Return the sections of a campaign's page: all cases in a list, each case, the command.

    ``root`` is the relative address of the site's root.
    """
    about = context(campaign.results, _NO_FOLDER, language)
    return (
        _overview(about),
        *(_case(about, found, campaign.key, root) for found in campaign.results.cases),
        reproduce_section(about),
    )


def subtitle_of(campaign: Campaign, language: Language) -> str:
    """Return the campaign's machine, models, day and number of runs in a sentence."""
    return subtitle(context(campaign.results, _NO_FOLDER, language))


def _overview(about: Context) -> Section:
    """Return the list of all cases with their numbers, each a link to its section."""
    items = tuple(
        (
            Span(about.axes.label(found.case), href=f"#{anchor_of(found.id)}"),
            Span(f"{about.say('colon')}{_number(about, found)}"),
        )
        for found in about.results.cases
    )
    return Section("cases", about.say("case_list"), (Bullets(items),))


def _case(about: Context, found: CaseResult, key: str, root: str) -> Section:
    say = about.say
    blocks: list[Block] = [Paragraph(plain(_headline(about, found)))]
    doubts = [doubt for doubt in about.findings.doubts if doubt.case == found.id]
    if doubts:
        blocks.append(Bullets(tuple(plain(_doubt(doubt, say)) for doubt in doubts), say("column_doubt")))
    if found.runs:
        blocks.append(_runs(about, found))
    if found.runs:
        href = f"{root}evidence/{key}.html#{anchor_of(found.id)}"
        blocks.append(Paragraph((Span(say("evidence_link"), href=href),)))
    return Section(anchor_of(found.id), about.axes.label(found.case), tuple(blocks))


def _headline(about: Context, found: CaseResult) -> str:
    value = _number(about, found)
    if found.estimate is None:
        return value
    return about.say("case_headline", value=value, runs=about.say.count("runs", found.estimate.n))


def _number(about: Context, found: CaseResult) -> str:
    """Return a case's number with its signs, unit and interval, or its outcome with the reason."""
    if found.estimate is None:
        reason = f"{about.say('colon')}{found.reason}" if found.reason else ""
        return f"{shown(found, about.say)}{reason}"
    bounds = found.estimate.interval
    digits = decimals([found.estimate.median, *((bounds.low, bounds.high) if bounds else ())])
    signs = "".join(marks(about, found))
    within = f" {interval(bounds, digits)}" if bounds else ""
    return f"{number(found.estimate.median, digits)}{signs} {found.unit or ''}{within}".strip()


def _doubt(doubt: Doubt, say: Catalogue) -> str:
    run = f"{doubt.repeat}: " if doubt.repeat else ""
    return f"{run}{say.doubt(doubt.code, doubt.sentence)} ({doubt.code})"


def _runs(about: Context, found: CaseResult) -> Bullets:
    """Return a line for each run: its number, median step, start and log."""
    say = about.say
    digits = decimals([run.measurement.throughput for run in found.runs if run.measurement])
    items = []
    for run in found.runs:
        if run.measurement is None:
            words = say.outcome(run.outcome) + (f"{say('colon')}{run.reason}" if run.reason else "")
        else:
            words = f"{number(run.measurement.throughput, digits)} {run.measurement.unit}"
            times = run.measurement.step_times
            words += "" if times is None else f"{say('comma')}{say('run_step', ms=number(times.p50 * 1000))}"
        started = "" if run.started_at is None else f"{say('comma')}{run.started_at:%Y-%m-%d %H:%M:%S}"
        items.append(plain(f"{run.repeat}{say('colon')}{words}{started}"))
    return Bullets(tuple(items), say("case_runs"))
