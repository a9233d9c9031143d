"""The page of results over time: a chart for each case with several results, and its changes of level."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from trainmark.history import Point, analyse_case
from trainmark.report.blocks import Block, Bullets, Chart, Paragraph, Section, Span, plain
from trainmark.report.language import Catalogue, Language, catalogue, percent
from trainmark.report.time_charts import history_chart
from trainmark.schema.history import CaseHistory, LevelChange
from trainmark.site.entries import anchor_of

MOST_CASES = 100
"""The largest number of charts on a page; the cases with most results come first."""

MOST_FACTS = 6
"""The largest number of differences named with a change; ``trainmark history`` names all."""


def history_sections(
    points: Mapping[str, Sequence[Point]],
    campaigns: Mapping[str, Mapping[str, datetime]],
    suites: Mapping[str, str],
    language: Language,
    root: str = "",
) -> tuple[Section, ...]:
    """Return a section for each case with several results.

    ``points`` are by case in the order of time; the source of a point is its campaign's key. ``campaigns`` are the
    start times of each suite's campaigns by key, ``suites`` the suite of each key: a value is carried over to later
    campaigns of the suite of its last point.
    """
    say = catalogue(language)
    several = sorted(
        ((case, found) for case, found in points.items() if len(found) > 1),
        key=lambda pair: (-len(pair[1]), pair[0]),
    )
    if not several:
        return (Section("none", say("menu_history"), (Paragraph(plain(say("no_history"))),)),)
    sections = []
    for number, (case, found) in enumerate(several[:MOST_CASES]):
        analysed = analyse_case(case, found)
        last = found[-1]
        alike = campaigns.get(suites.get(last.source, ""), {})
        carried = sorted(at for at in alike.values() if at > last.at)
        sections.append(_case(analysed, carried, number, say, root))
    if len(several) > MOST_CASES:
        rest = say("history_more", n=len(several) - MOST_CASES)
        sections.append(Section("more", say("menu_history"), (Paragraph(plain(rest)),)))
    return tuple(sections)


def _case(found: CaseHistory, carried: Sequence[datetime], number: int, say: Catalogue, root: str) -> Section:
    blocks: list[Block] = [
        Chart(
            f"history-{number}",
            found.case,
            say("history_caption" if found.reason is None else "history_caption_unanalysed"),
            history_chart(found, say.language, carried),
        )
    ]
    if found.reason is not None:
        blocks.append(Paragraph(plain(say("not_analysed", n=len(found.points)))))
    elif not found.changes:
        blocks.append(Paragraph(plain(say("no_change_of_level"))))
    else:
        blocks.append(Bullets(tuple(_change(found, change, say) for change in found.changes)))
    last = found.points[-1]
    anchor = anchor_of(found.case)
    newest = Span(
        say("newest_result", day=f"{last.at:%Y-%m-%d}"), href=f"{root}results/{last.source}.html#{anchor}"
    )
    blocks.append(Paragraph((newest,)))
    return Section(anchor, found.case, tuple(blocks))


def _change(found: CaseHistory, change: LevelChange, say: Catalogue) -> tuple[Span, ...]:
    key = f"cause_{change.cause.value.replace('-', '_')}" if change.confirmed else "change_not_confirmed"
    facts = [
        f"{one.fact}: {one.before or '-'} → {one.after or '-'}" for one in change.differences[:MOST_FACTS]
    ]
    words = say(
        "level_change",
        day=f"{found.points[change.index].at:%Y-%m-%d}",
        change=("+" if change.ratio > 1 else "") + percent(change.ratio - 1),
        cause=say(key),
    )
    return plain(words + (f" {say.joined(facts)}" if facts else ""))
