"""The waterfall of an experiment: from the rate of A by the effect of each added factor to the rate of B."""

from dataclasses import dataclass
from typing import Any

from trainmark.report.charts.theme import INK, LABEL_PADDING, PALETTE, Drawing, Rows, text_width, themed
from trainmark.schema.decomposition import Decomposition
from trainmark.schema.measurement import Ratio


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: from ``start`` to ``end`` in the unit, with the ends of the interval of its effect, if known."""

    label: str
    start: float
    end: float
    text: str
    low: float | None = None
    high: float | None = None


def bars_of(found: Decomposition, a: str, b: str, interaction: str) -> tuple[Bar, ...]:
    """Return the bars in order; none if A, B or an added effect has no number."""
    first, last = found.rates
    if first is None or last is None or found.interaction is None:
        return ()
    bars, rate = [Bar(a, 0.0, first, f"{first:.4g}")], first
    effects = [(f"{one.name}: {one.here} → {one.there}", one.added) for one in found.factors]
    if len(found.factors) > 1:
        effects.append((interaction, found.interaction))
    for label, effect in effects:
        if effect is not None:
            bars.append(_step(label, rate, effect))
            rate *= effect.value
    return (*bars, Bar(b, 0.0, last, f"{last:.4g}"))


def _step(label: str, rate: float, effect: Ratio) -> Bar:
    interval = effect.interval
    return Bar(
        label,
        rate,
        rate * effect.value,
        f"×{effect.value:.3f}",
        None if interval is None else rate * interval.low,
        None if interval is None else rate * interval.high,
    )


def waterfall_chart(bars: tuple[Bar, ...], unit: str) -> Drawing | None:
    """Return the chart; None without bars."""
    return Drawing(lambda: _drawn(bars, unit)) if bars else None


def _drawn(bars: tuple[Bar, ...], unit: str) -> dict[str, Any]:
    import altair as alt

    rows: Rows = [
        {
            "label": bar.label,
            "start": bar.start,
            "end": bar.end,
            "reach": max(bar.start, bar.end, bar.high or 0.0),
            "kind": "end" if number in (0, len(bars) - 1) else "up" if bar.end >= bar.start else "down",
            "text": bar.text,
            "low": bar.low,
            "high": bar.high,
        }
        for number, bar in enumerate(bars)
    ]
    names = [bar.label for bar in bars]
    extent = max(150, *map(text_width, names)) + LABEL_PADDING
    most = max(row["reach"] for row in rows)
    y = alt.Y("label:N", title=None, sort=names, axis=alt.Axis(minExtent=extent, domain=False, ticks=False))
    x = alt.X(
        "start:Q",
        title=unit,
        scale=alt.Scale(domain=[0, most * 1.18], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    base = alt.Chart(alt.NamedData("waterfall")).encode(y=y)
    scale = alt.Scale(domain=["end", "up", "down"], range=[PALETTE[0], PALETTE[2], PALETTE[4]])
    colour = alt.Color("kind:N", scale=scale, legend=None)
    chart = alt.layer(
        base.mark_bar(opacity=0.55, height={"band": 0.62}).encode(x=x, x2="end:Q", color=colour),
        base.mark_rule(color=INK, strokeWidth=1.5).encode(x=alt.X("low:Q", title=unit), x2="high:Q"),
        base.mark_text(align="left", dx=8, color=INK).encode(x="reach:Q", text="text:N"),
    ).properties(width=520, height=alt.Step(24))
    return themed(chart, {"waterfall": rows})
