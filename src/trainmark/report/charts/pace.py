"""The chart of a run in hand: the time of a step over the last minutes."""

from collections.abc import Sequence

from trainmark.report.charts.drawing import GRID, LINE, MUTED, PALETTE, Panel, line, text, ticks

WIDTH, HEIGHT, LEFT, BELOW = 560, 110, 60, 22


def pace_panel(points: Sequence[tuple[float, float]], title: str, seconds: str) -> Panel:
    """Return the chart of (seconds ago, ms of a step); ``seconds`` names the horizontal axis."""
    top, width = LINE + 10, WIDTH - LEFT - 10
    bottom = top + HEIGHT
    values = [ms for _, ms in points]
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = (high - low) * 0.1 or high * 0.1 or 1.0
    low, high = max(0.0, low - margin), high + margin
    longest = max([1.0, *(ago for ago, _ in points)])

    def x(ago: float) -> float:
        return LEFT + width * (1 - ago / longest)

    def y(ms: float) -> float:
        return bottom - HEIGHT * (ms - low) / (high - low)

    body = [text(0, 12, title, bold=True)]
    for tick in ticks(low, high, 4):
        body.append(line([(LEFT, y(tick)), (LEFT + width, y(tick))], GRID, 1))
        body.append(text(LEFT - 8, y(tick) + 4, f"{tick:.6g}", "end"))
    body.append(text(LEFT, bottom + 16, f"-{longest:.0f} {seconds}"))
    body.append(text(LEFT + width, bottom + 16, "0", "end"))
    if points:
        body.append(line([(x(ago), y(ms)) for ago, ms in points], PALETTE[0], 1.5))
    body.append(line([(LEFT, top), (LEFT, bottom), (LEFT + width, bottom)], MUTED, 1))
    return Panel(WIDTH, bottom + BELOW, "".join(body))
