"""The sections of the page of running suites."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from trainmark.report.blocks import Block, Bullets, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.drawing import Drawing
from trainmark.report.language import Catalogue, Language, catalogue, number, percent
from trainmark.report.time_charts import pace_panel
from trainmark.web.live import MOST_DOUBTS, DeviceState, FinishedRun, RunInHand, SuiteState


def live_sections(states: Sequence[SuiteState], language: Language) -> tuple[Section, ...]:
    """Return a section for each suite."""
    say = catalogue(language)
    if not states:
        return (Section("none", say("menu_live"), (Paragraph(plain(say("no_live"))),)),)
    return tuple(
        Section(
            f"suite-{state.key}",
            say("suite_running" if state.running else "suite_finished", suite=f"{state.suite} ({state.key})"),
            tuple(_blocks(state, say)),
        )
        for state in states
    )


def _blocks(state: SuiteState, say: Catalogue) -> Iterator[Block]:
    counts = say(
        "suite_counts",
        done=state.done,
        cases=state.done + state.left,
        left=state.left,
        runs=say.count("runs", state.runs),
        ok=state.ok,
    )
    yield Paragraph(plain(counts))
    if state.in_hand is not None:
        yield from _in_hand(state, state.in_hand, say)
    doubts = [(run, doubt) for run in state.recent for doubt in run.doubts][:MOST_DOUBTS]
    if doubts:
        yield Bullets(
            tuple(
                plain(say("commands_of_one", case=run.case_id, repeat=run.repeat) + say("colon") + doubt)
                for run, doubt in doubts
            ),
            say("newest_doubts"),
        )
    slowest = [_slowest(run, say) for run in state.recent if run.slowest is not None]
    if slowest:
        yield Bullets(tuple(plain(words) for words in slowest), say("slowest_ranks"))
    if state.recent:
        yield _recent(state.recent, say)


def _in_hand(state: SuiteState, run: RunInHand, say: Catalogue) -> Iterator[Block]:
    step = say("step_unknown") if run.step is None else run.step
    words = say("run_in_hand", case=run.case_id, repeat=run.repeat) + say("stop") + say("space")
    yield Paragraph(plain(words + say("run_state", elapsed=f"{run.elapsed_s:.0f}", step=step)))
    points = pace_of(run.steps)
    if len(points) > 1:
        panel = pace_panel(points, say("pace_title"), say("seconds_ago"))
        drawing = Drawing(lambda: [panel])
        yield Chart(f"pace-{state.key}", say("pace_title"), say("pace_caption"), drawing)
    if run.devices:
        yield _clocks(run.devices, say)


def pace_of(steps: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """Return (seconds ago, ms per step) between successive looks; a program that starts over has no pace there."""
    return [
        (later, (earlier - later) / (after - before) * 1000)
        for (earlier, before), (later, after) in pairwise(steps)
        if after > before
    ]


def _clocks(devices: Sequence[DeviceState], say: Catalogue) -> Table:
    columns = (
        Column(say("column_host"), numeric=False),
        Column(say("aspect_device"), numeric=False),
        Column(say("column_clock")),
        Column(say("column_power")),
        Column(say("column_temperature")),
        Column(say("column_busy")),
    )
    rows = tuple(
        (
            cell(one.host),
            cell(one.device),
            *(cell("-" if value is None else number(value, 0)) for value in (one.clock_mhz, one.power_w)),
            cell("-" if one.temperature_c is None else number(one.temperature_c, 0)),
            cell("-" if one.busy is None else percent(one.busy, 0)),
        )
        for one in devices
    )
    return Table(say("clocks_title"), columns, rows, keys=2)


def _slowest(run: FinishedRun, say: Catalogue) -> str:
    found = run.slowest
    assert found is not None
    return say(
        "slowest_rank",
        case=run.case_id,
        repeat=run.repeat,
        rank=found.rank,
        host=say("on_host", host=found.host) if found.host else "",
        by=say("slower_by", share=percent(found.slower_by)) if found.slower_by is not None else "",
    )


def _recent(runs: Sequence[FinishedRun], say: Catalogue) -> Table:
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_repeat")),
        Column(say("site_throughput")),
        Column(say("column_unit"), numeric=False),
        Column(say("column_hosts"), numeric=False),
        Column(say("column_reason"), numeric=False),
    )
    rows = tuple(
        (
            cell(run.case_id),
            cell(str(run.repeat)),
            cell(say.outcome(run.outcome) if run.throughput is None else number(run.throughput)),
            cell(run.unit or "-"),
            cell(", ".join(run.hosts) or "-"),
            cell(run.reason or "-"),
        )
        for run in runs
    )
    return Table(say("newest_runs"), columns, rows, keys=2)
