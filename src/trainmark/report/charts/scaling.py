"""Speedup and efficiency over devices, against the ideal."""

from typing import Any

from trainmark.measure import scaled
from trainmark.report.axes import DEVICES
from trainmark.report.charts.theme import INK, MUTED, REACH, Drawing, Rows, colours, text_width, themed
from trainmark.report.context import Context, UnitPart, marks_of_ratio
from trainmark.schema.findings import RatioKind

MOST_SERIES = 12
"""The largest number of lines that a reader can tell apart; the table has all cases."""


def scaling_chart(context: Context, part: UnitPart) -> Drawing | None:
    """Return the chart, or None if no speedup is known for more than one device.

    The left panel has the speedup, on logarithmic axes so that the ideal is a straight line; the right one has the
    efficiency, on an axis that shows the differences.
    """
    rows = _rows(context, part)
    scaled = [row for row in rows if row["devices"] > 1]
    if not scaled or len({row["series"] for row in scaled}) > MOST_SERIES:
        return None
    sizes = sorted({row["devices"] for row in rows} | {1})
    return Drawing(lambda: _drawn(context, rows, sizes))


def _drawn(context: Context, rows: Rows, sizes: list[int]) -> dict[str, Any]:
    import altair as alt

    limits = (sizes[0], sizes[-1])
    ideal: Rows = [
        {"devices": n, "speedup": n, "percent": 100, "text": context.say("ideal") if n == limits[1] else ""}
        for n in limits
    ]
    chart = alt.hconcat(_speedup(context, rows, sizes), _efficiency(context, rows, sizes), spacing=36)
    return themed(chart, {"cases": rows, "ideal": ideal})


def _speedup(context: Context, rows: Rows, sizes: list[int]) -> Any:
    import altair as alt

    slowest = min(1.0, *(row["speedup"] for row in rows))
    lowest = max(slowest / REACH, min(slowest, *(row["low"] or 1.0 for row in rows)))
    highest = max(sizes[-1], *(row["speedup"] for row in rows))
    y = alt.Y(
        "speedup:Q",
        title=context.say("axis_speedup"),
        scale=alt.Scale(type="log", base=2, domain=[lowest, highest * 1.1], nice=False),
        axis=alt.Axis(values=sizes, format="~g"),
    )
    base = alt.Chart(alt.NamedData("ideal")).encode(x=_devices(context, sizes), y=y)
    line = base.mark_line(strokeDash=[5, 4], color=MUTED, strokeWidth=1.5)
    name = base.mark_text(align="right", dx=-14, dy=2, color=INK).encode(text="text:N")
    return _panel(context, rows, sizes, y, ("low", "high"), [line, name])


def _efficiency(context: Context, rows: Rows, sizes: list[int]) -> Any:
    import altair as alt

    bounds = ("efficiency_low", "efficiency_high")
    best = max(100.0, *(row["efficiency"] for row in rows))
    values = [row[name] for row in rows for name in ("efficiency", *bounds) if row[name] is not None]
    top = min(REACH * best, max(best, *values))
    y = alt.Y(
        "efficiency:Q",
        title=context.say("axis_efficiency"),
        scale=alt.Scale(domain=[min(values), top], zero=False, nice=True),
        axis=alt.Axis(tickCount=6),
    )
    rule = alt.Chart(alt.NamedData("ideal")).mark_line(strokeDash=[5, 4], color=MUTED, strokeWidth=1.5)
    return _panel(context, rows, sizes, y, bounds, [rule.encode(x=_devices(context, sizes), y="percent:Q")])


def _devices(context: Context, sizes: list[int]) -> Any:
    import altair as alt

    scale = alt.Scale(type="log", base=2, domain=[sizes[0], sizes[-1]], padding=14, nice=False)
    title = context.say("aspect_devices")
    return alt.X("devices:Q", title=title, scale=scale, axis=alt.Axis(values=sizes, format="~g"))


def _panel(
    context: Context, rows: Rows, sizes: list[int], y: Any, bounds: tuple[str, str], below: list[Any]
) -> Any:
    import altair as alt

    say, series = context.say, list(dict.fromkeys(row["series"] for row in rows))
    # Extra space between the columns, because the reader's font may be wider than the converter's.
    padding = max(24, *(text_width(name) // 4 for name in series))
    legend = alt.Legend(title=None, columns=2, columnPadding=padding) if len(series) > 1 else None
    scale = alt.Scale(domain=series, range=colours(series))
    colour = alt.Color("series:N", scale=scale, legend=legend)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=series), legend=legend)
    tooltip = [
        alt.Tooltip("series:N", title=say("column_case")),
        alt.Tooltip("devices:Q", title=say("aspect_devices")),
        alt.Tooltip("speedup:Q", title=say("column_speedup"), format=".4~g"),
        alt.Tooltip("efficiency:Q", title=say("axis_efficiency"), format=".4~g"),
    ]
    base = alt.Chart(alt.NamedData("cases")).encode(x=_devices(context, sizes), color=colour)
    layers = [*below, base.mark_line(strokeWidth=2).encode(y=y)]
    if any(row[bounds[0]] is not None for row in rows):
        low = alt.Y(f"{bounds[0]}:Q", title=y["title"])
        layers.append(base.mark_rule(strokeWidth=1.5, clip=True).encode(y=low, y2=f"{bounds[1]}:Q"))
    layers.append(base.mark_point(size=55, filled=True, opacity=1).encode(y=y, shape=shape, tooltip=tooltip))
    if any(row["mark"] for row in rows):
        layers.append(base.mark_text(dx=9, dy=-7).encode(y=y, text="mark:N", color=alt.value(INK)))
    return alt.layer(*layers).properties(width=330, height=280)


def _rows(context: Context, part: UnitPart) -> Rows:
    """Return one row per case with a speedup; baselines are at 1 if something is compared with them."""
    compared = {c.speedup.baseline for c in part.cases if c.speedup and c.speedup.baseline != c.id}
    rows: Rows = []
    for case in part.cases:
        if case.speedup is None or (case.speedup.baseline == case.id and case.id not in compared):
            continue
        speedup, efficiency = case.speedup.speedup, scaled(case.speedup.efficiency, 100)
        sure = None if case.speedup.baseline == case.id else speedup.interval
        found = context.findings.ratio(RatioKind.SPEEDUP, case.id)
        rows.append(
            {
                "series": part.axes.label(case.case, without=(DEVICES,)),
                "devices": case.case.world_size,
                "speedup": speedup.value,
                "mark": "".join(marks_of_ratio(found)) if found else "",
                "low": sure.low if sure else None,
                "high": sure.high if sure else None,
                "efficiency": efficiency.value,
                "efficiency_low": efficiency.interval.low if sure and efficiency.interval else None,
                "efficiency_high": efficiency.interval.high if sure and efficiency.interval else None,
            }
        )
    return rows
