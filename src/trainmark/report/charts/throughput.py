"""The chart of all cases: a bar from zero to the median, its interval, and a dot per run."""

from typing import Any

from trainmark.report.axes import DEVICES, FRAMEWORK, PRECISION, Aspect
from trainmark.report.charts.theme import (
    INK,
    LABEL_PADDING,
    PALETTE,
    REACH,
    Drawing,
    Rows,
    colours,
    text_width,
    themed,
)
from trainmark.report.context import Context, UnitPart, marks, shown
from trainmark.report.numbers import decimals, number
from trainmark.schema.results import CaseResult

MOST_CASES = 200
"""The largest number of bars in the chart; the table has all cases."""


def throughput_chart(context: Context, part: UnitPart) -> Drawing | None:
    """Return the chart, one panel per number of devices; None if nothing or far too much was measured."""
    if not any(case.estimate for case in part.cases) or len(part.cases) > MOST_CASES:
        return None
    return Drawing(lambda: _drawn(context, part))


def _drawn(context: Context, part: UnitPart) -> dict[str, Any]:
    import altair as alt

    cases = part.cases
    sizes = sorted({case.case.world_size for case in cases})
    datasets: dict[str, Rows] = {}
    panels = [
        _panel(context, part, [c for c in cases if c.case.world_size == size], size, datasets)
        for size in sizes
    ]
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(color="shared", x="independent")
    return themed(chart, datasets)


def coloured(part: UnitPart) -> Aspect | None:
    """Return the aspect that the colours show: the framework, else the precision, else none."""
    return next((a for a in (FRAMEWORK, PRECISION) if a in part.axes.varying), None)


def _rows(
    context: Context, part: UnitPart, cases: list[CaseResult], names: list[str], reach: float
) -> tuple[Rows, Rows]:
    """Return the values to draw for cases and for their runs."""
    aspect = coloured(part)
    places = decimals(case.estimate.median for case in cases if case.estimate)
    of_cases: Rows = [
        {
            "case": name,
            "colour": part.axes.value(case.case, aspect) if aspect else "",
            "median": case.estimate.median if case.estimate else None,
            **_whisker(case, reach),
            "end": _end(case, reach),
            "text": _text(context, case, places),
        }
        for name, case in zip(names, cases, strict=True)
    ]
    of_runs: Rows = [
        {"case": name, "throughput": run.measurement.throughput, "repeat": run.repeat}
        for name, case in zip(names, cases, strict=True)
        for run in case.runs
        if run.measurement
    ]
    return of_cases, of_runs


def _panel(
    context: Context, part: UnitPart, cases: list[CaseResult], size: int, datasets: dict[str, Rows]
) -> Any:
    import altair as alt

    say, axes, unit = context.say, part.axes, part.unit
    several_nodes = len({case.case.nodes for case in cases}) > 1
    hidden = () if several_nodes else (DEVICES,)
    names = [axes.label(case.case, without=hidden) for case in cases]
    aspect = coloured(part)
    reach = REACH * max((case.estimate.maximum for case in cases if case.estimate), default=0.0)
    datasets[f"cases-{size}"], datasets[f"runs-{size}"] = _rows(context, part, cases, names, reach)
    largest = max((_end(case, reach) for case in cases), default=0.0) or 1.0
    x = alt.X(
        "median:Q",
        title=say("axis_throughput", unit=unit),
        scale=alt.Scale(domain=[0, largest * 1.18], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    # All panels are aligned at the left, and no label is cut off there.
    labels = (axes.label(case.case, without=hidden) for case in part.cases)
    extent = max(150, *map(text_width, labels)) + LABEL_PADDING
    axis = alt.Axis(minExtent=extent, domain=False, ticks=False)
    y = alt.Y("case:N", title=None, sort=names, axis=axis)
    base = alt.Chart(alt.NamedData(f"cases-{size}")).encode(y=y)
    tooltip = [alt.Tooltip("case:N", title=say("column_case")), alt.Tooltip("text:N", title=unit)]
    if aspect:
        order = list(dict.fromkeys(axes.value(case.case, aspect) for case in part.cases))
        scale = alt.Scale(domain=order, range=colours(order))
        colour: Any = alt.Color("colour:N", title=context.aspect(aspect), scale=scale)
    else:
        colour = alt.value(PALETTE[0])
    bars = base.mark_bar(opacity=0.55, height={"band": 0.62}).encode(x=x, color=colour, tooltip=tooltip)
    title = say("axis_throughput", unit=unit)
    low = alt.X("low:Q", title=title)
    whiskers = [
        base.mark_rule(color=INK, strokeWidth=1.5).encode(x=low, x2="drawn:Q"),
        base.mark_tick(color=INK, thickness=1.5, size=11).encode(x=low),
        base.mark_tick(color=INK, thickness=1.5, size=11).encode(x=alt.X("high_mark:Q", title=title)),
    ]
    text = base.mark_text(align="left", dx=8, color=INK).encode(x="end:Q", text="text:N")
    dots = (
        alt.Chart(alt.NamedData(f"runs-{size}"))
        .mark_point(size=22, filled=False, color=INK, strokeWidth=1, opacity=0.75)
        .encode(
            x="throughput:Q",
            y=y,
            tooltip=[
                alt.Tooltip("case:N", title=say("column_case")),
                alt.Tooltip("repeat:Q", title=say("column_repeat")),
                alt.Tooltip("throughput:Q", title=unit, format=".6~g"),
            ],
        )
    )
    return alt.layer(bars, *whiskers, dots, text).properties(
        width=520, height=alt.Step(24), title=say.count("devices", size)
    )


def _text(context: Context, case: CaseResult, places: int) -> str:
    if case.estimate is None:
        return shown(case, context.say) or "-"
    return number(case.estimate.median, places) + "".join(marks(context, case))


def _whisker(case: CaseResult, reach: float) -> dict[str, float | None]:
    """Return a case's interval, the end of its whisker, and the position of its end mark (none if cut off)."""
    sure = case.estimate.interval if case.estimate else None
    if sure is None:
        return dict.fromkeys(("low", "high", "drawn", "high_mark"))
    mark = sure.high if sure.high <= reach else None
    return {"low": sure.low, "high": sure.high, "drawn": min(sure.high, reach), "high_mark": mark}


def _end(case: CaseResult, reach: float) -> float:
    """Return the end of a case's bar, including its whisker up to ``reach``."""
    if case.estimate is None:
        return 0.0
    high = case.estimate.interval.high if case.estimate.interval else 0.0
    return max(case.estimate.maximum, min(high, reach))
