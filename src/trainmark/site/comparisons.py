"""The page of comparisons: a campaign against an earlier one of the same suite, case by case."""

from collections.abc import Iterator

from trainmark.errors import InputError
from trainmark.insight import compare
from trainmark.report.blocks import Block, Bullets, Cell, Column, Paragraph, Section, Span, Table, cell, plain
from trainmark.report.context import Mark
from trainmark.report.language import Catalogue, Language, catalogue, interval, number
from trainmark.schema.comparison import ComparedCase, Comparison, Scope, Side
from trainmark.site.campaigns import Campaign
from trainmark.site.entries import anchor_of

MOST_DIFFERENCES = 20
MOST_OF_A_FACT = 80


def comparison_section(
    baseline: Campaign, candidate: Campaign, language: Language, root: str = ""
) -> Section:
    """Return the section of two campaigns: a table of their common cases, and what else differs."""
    say = catalogue(language)
    title = say("comparison_title", baseline=baseline.source, candidate=candidate.source)
    anchor = f"{baseline.key}-{candidate.key}"
    try:
        found = compare([baseline.results], candidate.results, (baseline.source, candidate.source))
    except InputError as error:
        return Section(anchor, title, (Paragraph(plain(say("not_comparable", reason=str(error)))),))
    return Section(anchor, title, tuple(_blocks(found, candidate, say, root)))


def _blocks(found: Comparison, candidate: Campaign, say: Catalogue, root: str) -> Iterator[Block]:
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_baseline")),
        Column(say("column_candidate")),
        Column(say("column_ratio")),
        Column("p"),
        Column(say("column_verdict"), numeric=False),
    )
    rows = tuple(_row(case, candidate, say, root) for case in found.cases)
    notes = [say("comparison_level", level=f"{found.level:g}", n=found.judged)]
    if found.scope is Scope.ONE_CAMPAIGN:
        notes.append(say("comparison_scope"))
    if any(case.doubtful for case in found.cases):
        notes.append(f"{Mark.DOUBT.value} {say('mark_doubt')}")
    yield Table("", columns, rows, tuple(notes))
    reasons = dict.fromkeys(case.reason for case in found.cases if case.reason)
    if reasons:
        yield Bullets(tuple(plain(reason) for reason in reasons), say("column_reason"))
    if found.differences:
        facts = tuple(
            plain(f"{one.what}: {_short(one.baseline)} → {_short(one.candidate)}")
            for one in found.differences[:MOST_DIFFERENCES]
        )
        yield Bullets(facts, say("what_differs"))


def _row(case: ComparedCase, candidate: Campaign, say: Catalogue, root: str) -> tuple[Cell, ...]:
    sides = []
    for side, estimate, outcome in zip(Side, case.estimates, case.outcomes, strict=True):
        sign = Mark.DOUBT.value if side in case.doubtful else ""
        sides.append(cell(say.outcome(outcome) if estimate is None else f"{number(estimate.median)}{sign}"))
    ratio = case.ratio
    bounds = "" if ratio is None else interval(ratio.interval, 3)
    name = Span(case.against, href=f"{root}results/{candidate.key}.html#{anchor_of(case.against)}")
    chance = "-" if case.significance is None else f"{case.significance:.3f}"
    return (
        Cell((name,)),
        *sides,
        cell("-" if ratio is None else f"{ratio.value:.3f}", bounds),
        cell(chance),
        cell(say(f"change_{case.change.value.replace('-', '_')}")),
    )


def _short(text: str | None) -> str:
    if text is None:
        return "-"
    return text if len(text) <= MOST_OF_A_FACT else f"{text[: MOST_OF_A_FACT - 1]}…"
