"""The waterfall of an experiment: from the rate of A by the effect of each added factor to the rate of B."""

from dataclasses import dataclass

from trainmark.report.charts.drawing import (
    GRID,
    INK,
    LINE,
    PALETTE,
    Drawing,
    Panel,
    line,
    lines_of,
    rect,
    text,
    text_lines,
    text_width,
    ticks,
)
from trainmark.schema.decomposition import Decomposition
from trainmark.schema.measurement import Ratio

WIDTH, HEIGHT, BETWEEN, AXIS = 560, 13, 8, 40


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
    """Return the bars in order, an effect that needs all others last; none if A, B or an effect has no number."""
    first, last = found.rates
    if first is None or last is None or found.interaction is None:
        return ()
    bars, rate = [Bar(a, 0.0, first, f"{first:.4g}")], first
    factors = sorted(found.factors, key=lambda one: one.added is None)
    effects = [(f"{one.name}: {one.here} → {one.there}", one.effect) for one in factors]
    if found.joint is not None:
        effects.append((interaction, found.joint))
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
    return Drawing(lambda: [_drawn(bars, unit)]) if bars else None


def _drawn(bars: tuple[Bar, ...], unit: str) -> Panel:
    end = max(max(bar.start, bar.end, bar.high or 0.0) for bar in bars) or 1.0
    scale = (WIDTH - max(text_width(bar.text) for bar in bars) - 12) / end
    marked, top = [], 0.0
    for i, bar in enumerate(bars):
        colour = PALETTE[0] if i in (0, len(bars) - 1) else PALETTE[2 if bar.end >= bar.start else 4]
        lines = lines_of(bar.label, WIDTH)
        marked.append(text_lines(0, top + 12, lines))
        top += LINE * len(lines) + 2
        low, high = sorted((bar.start * scale, bar.end * scale))
        marked.append(rect(low, top, high - low, HEIGHT, colour, 0.55, f"{bar.label}: {bar.text}"))
        if bar.low is not None and bar.high is not None:
            middle = top + HEIGHT / 2
            marked.append(line([(bar.low * scale, middle), (bar.high * scale, middle)], INK))
            high = max(high, bar.high * scale)
        marked.append(text(high + 8, top + HEIGHT - 2, bar.text))
        top += HEIGHT + BETWEEN
    grid = []
    for value in ticks(0, end, 5):
        grid.append(line([(value * scale, 0), (value * scale, top)], GRID, 1))
        marked.append(text(value * scale, top + 14, f"{value:,.10g}", "middle" if value else "start"))
    marked.append(text(0, top + 32, unit))
    return Panel(WIDTH, round(top) + AXIS, "".join(grid + marked))
