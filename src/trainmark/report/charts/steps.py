"""The chart of step times: a panel per case, a line per run, the warm-up shaded, the first step omitted."""

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.report.charts.theme import MUTED, Drawing, Rows, colours, themed
from trainmark.report.context import Context
from trainmark.report.series import StepSeries
from trainmark.schema.results import CaseResult

MOST_POINTS = 120
"""The largest number of points in a run's line; a longer series is reduced to the extremes of each group of steps."""

TITLE_COLUMNS = 44
"""The number of characters in a line of a panel's title: it fits a width of 340 in the widest usual font, in bold."""


@dataclass(frozen=True, slots=True)
class StepsChart:
    """The chart, and whether a warm-up step longer than its axis is cut off at the top."""

    drawing: Drawing
    cut: bool


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    rows: Rows
    warmup_steps: int
    top: float
    cut: bool


def steps_chart(context: Context) -> StepsChart | None:
    """Return the chart of the series in the context, or None if it has none."""
    panels = [panel for case in context.results.cases if (panel := _panel(context, case)) is not None]
    if not panels:
        return None
    return StepsChart(Drawing(lambda: _concatenated(context, panels)), cut=any(panel.cut for panel in panels))


def _concatenated(context: Context, panels: list[_Panel]) -> dict[str, Any]:
    import altair as alt

    repeats = sorted({row["repeat"] for panel in panels for row in panel.rows})
    drawn = [_drawn(context, f"case-{i}", panel, repeats) for i, panel in enumerate(panels)]
    datasets = {f"case-{i}": panel.rows for i, panel in enumerate(panels)}
    datasets |= {
        f"case-{i}-warmup": [{"from": 1, "to": panel.warmup_steps + 0.5}] for i, panel in enumerate(panels)
    }
    chart = alt.concat(*drawn, columns=2, spacing=24).resolve_scale(x="independent", y="independent")
    return themed(chart, datasets)


def thinned(times: NDArray[np.float64], most: int = MOST_POINTS) -> Iterator[int]:
    """Yield the indices of at most about ``most`` values that preserve the series' shape and all of its peaks.

    From each group of equally many steps the lowest and the highest value are used, in their order.
    """
    if times.size <= most:
        yield from range(times.size)
        return
    for stretch in np.array_split(np.arange(times.size), most // 2):
        low, high = stretch[np.argmin(times[stretch])], stretch[np.argmax(times[stretch])]
        yield from sorted({int(low), int(high)})


def _panel(context: Context, case: CaseResult) -> _Panel | None:
    rows: Rows = []
    tops, longest, warmup = [], 0.0, 0
    for run in context.series.get(case.id, ()):
        series = list(_series(run))
        if not series:
            continue
        warmup = int(np.argmax(run.measured))
        tops.append(float(np.nanmax(run.times_s[run.measured])) * 1000)
        longest = max([longest, *(ms for _, ms in series)])
        rows += [{"repeat": run.repeat, "step": step, "ms": round(ms, 4)} for step, ms in series]
    if not rows:
        return None
    # A warm-up step may take a thousand times as long as a measured one, which would flatten all other steps.
    top = min(longest, 1.5 * max(tops))
    return _Panel(context.axes.label(case.case), rows, warmup, top, cut=longest > top)


def _series(run: StepSeries) -> Iterator[tuple[int, float]]:
    """Yield (number of the step from 1, its time in ms), without the first step and steps without a time."""
    known = np.flatnonzero(np.isfinite(run.times_s))
    known = known[known > 0]
    times = run.times_s[known] * 1000
    for place in thinned(times):
        yield int(known[place]) + 1, float(times[place])


def _drawn(context: Context, name: str, panel: _Panel, repeats: list[float]) -> Any:
    import altair as alt

    say = context.say
    last = max(row["step"] for row in panel.rows)
    lowest = min(row["ms"] for row in panel.rows)
    margin = 0.05 * (panel.top - lowest) or 0.05 * panel.top
    x = alt.X(
        "step:Q",
        title=say("axis_step"),
        scale=alt.Scale(domain=[1, last], nice=False),
        axis=alt.Axis(tickCount=6, grid=False),
    )
    y = alt.Y(
        "ms:Q",
        title=say("axis_step_time"),
        scale=alt.Scale(domain=[lowest - margin, panel.top + margin], zero=False, nice=False),
        axis=alt.Axis(tickCount=5),
    )
    colour = alt.Color(
        "repeat:N",
        title=say("column_repeat"),
        scale=alt.Scale(domain=repeats, range=colours(repeats)),
        legend=None,
    )
    shade = (
        alt.Chart(alt.NamedData(f"{name}-warmup"))
        .mark_rect(color=MUTED, opacity=0.18)
        .encode(x=alt.X("from:Q", title=say("axis_step")), x2="to:Q")
    )
    tooltip = [
        alt.Tooltip("repeat:N", title=say("column_repeat")),
        alt.Tooltip("step:Q", title=say("axis_step")),
        alt.Tooltip("ms:Q", title=say("axis_step_time"), format=".5~g"),
    ]
    lines = (
        alt.Chart(alt.NamedData(name))
        .mark_line(strokeWidth=1.1, opacity=0.85, clip=True)
        .encode(x=x, y=y, color=colour, detail="repeat:N", tooltip=tooltip)
    )
    return alt.layer(shade, lines).properties(width=340, height=140, title=wrap(panel.title, TITLE_COLUMNS))
