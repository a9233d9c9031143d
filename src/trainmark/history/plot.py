"""A history as an SVG picture: results, levels, changes; it opens without any other file."""

from html import escape

from trainmark.schema.history import CaseHistory, ChangeCause, LevelChange

_WIDTH, _HEIGHT = 860, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 44, 44
_COLOURS = ("#2563eb", "#7c3aed", "#0d9488", "#c2410c", "#4d7c0f", "#be185d")
_CAUSES = {
    ChangeCause.REGRESSION: ("regression", "#dc2626"),
    ChangeCause.IMPROVEMENT: ("improvement", "#16a34a"),
    ChangeCause.METHOD: ("change of method", "#6b7280"),
    ChangeCause.HARDWARE: ("change of hardware", "#6b7280"),
}


def history_svg(case: CaseHistory) -> str:
    """Return the picture of one case. Spikes are hollow; a change that is not confirmed is dashed."""
    values = [point.value for point in case.points] + [point.level for point in case.points]
    low, high = min(values), max(values)
    margin = (high - low) * 0.08 or high * 0.01
    low, high = low - margin, high + margin
    count = max(1, len(case.points) - 1)

    def across(index: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * index / count

    def up(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(case.case)}</title>",
        "<style>text{fill:#111827}.g{stroke:#d1d5db}@media(prefers-color-scheme:dark)"
        "{text{fill:#e5e7eb}.g{stroke:#4b5563}}</style>",
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(case.case)}, {escape(case.unit)}</text>',
    ]
    for step in range(5):
        value = low + (high - low) * step / 4
        parts.append(
            f'<line class="g" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{up(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        )
    for index in sorted({0, len(case.points) // 2, len(case.points) - 1}):
        anchor = "start" if index == 0 else "end" if index == len(case.points) - 1 else "middle"
        day = f"{case.points[index].at:%Y-%m-%d}"
        parts.append(f'<text x="{across(index):.1f}" y="{_HEIGHT - 22}" text-anchor="{anchor}">{day}</text>')
    parts += [_mark(change, across(change.index - 0.5)) for change in case.changes]
    for index, (point, following) in enumerate(zip(case.points, case.points[1:], strict=False)):
        if point.machine == following.machine:
            parts.append(
                f'<line x1="{across(index):.1f}" x2="{across(index + 1):.1f}" y1="{up(point.level):.1f}" '
                f'y2="{up(following.level):.1f}" stroke="#9ca3af" stroke-width="2"/>'
            )
    for index, point in enumerate(case.points):
        colour = _COLOURS[case.machines.index(point.machine) % len(_COLOURS)]
        fill = "none" if point.spike else colour
        about = escape(
            f"{point.source}, {point.at:%Y-%m-%d %H:%M}, {point.machine}: {point.value:.5g} {case.unit}"
        )
        parts.append(
            f'<circle cx="{across(index):.1f}" cy="{up(point.value):.1f}" r="3.5" fill="{fill}" stroke="{colour}">'
            f"<title>{about}</title></circle>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _mark(change: LevelChange, at: float) -> str:
    name, colour = _CAUSES[change.cause]
    dashes = "" if change.confirmed else ' stroke-dasharray="4 4"'
    text = f"{change.ratio - 1:+.1%} {name if change.confirmed else 'not confirmed'}"
    anchor = "end" if at > _WIDTH * 0.7 else "start"
    return (
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="{colour}"{dashes}/>'
        f'<text x="{at:.1f}" y="{_TOP - 6}" text-anchor="{anchor}" style="fill:{colour}">{escape(text)}</text>'
    )
