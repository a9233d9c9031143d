"""An experiment of ``explain --test`` as text: each factor's effect, the interaction, and what is open."""

from trainmark.insight.experiment import closing_sentence
from trainmark.printable import printable
from trainmark.report.language import interval
from trainmark.report.terminal import aligned
from trainmark.schema.decomposition import Decomposition
from trainmark.schema.measurement import Ratio

_HEADINGS = ("factor", "A", "B", "added to A", "95 % interval", "left out of B", "95 % interval")


def render_decomposition(found: Decomposition) -> str:
    """Return the decomposition for a terminal."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    rows += [
        (one.name, one.here, one.there, *_cells(one.added), *_cells(one.left_out)) for one in found.factors
    ]
    if len(found.factors) > 1:
        rows.append(("interaction", "", "", *_cells(found.interaction), "", ""))
    rows.append(("B / A", "", "", *_cells(found.measured), "", ""))
    if found.gap is not None:
        rows.append(("B / A as recorded", "", "", *_cells(found.gap), "", ""))
        rows.append(("open", "", "", *_cells(found.open), "", ""))
    lines, _widths = aligned(rows, [column > 2 for column in range(len(rows[0]))])
    rates = ", ".join(
        f"{side} {'no number' if rate is None else f'{rate:.5g} {found.unit or chr(32)}'.rstrip()}"
        for side, rate in zip("AB", found.rates, strict=True)
    )
    reasons = [f"- {one.name}: {one.reason}." for one in found.factors if one.reason]
    parts = [f"A  {found.a}\nB  {found.b}\n{rates}", "\n".join(lines), *reasons, closing_sentence(found)]
    return printable("\n\n".join(parts)) + "\n"


def _cells(value: Ratio | None) -> tuple[str, str]:
    if value is None:
        return "-", "-"
    return f"x{value.value:.3f}", "-" if value.interval is None else interval(value.interval, 3)
