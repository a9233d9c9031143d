"""A plot of throughputs as SVG for a notebook: a mark for each case, a line for its interval, an axis from zero."""

from collections.abc import Sequence
from html import escape

from trainmark.printable import printable
from trainmark.schema.results import CaseResult

_ROW, _LEFT, _WIDTH, _RIGHT = 24, 320, 420, 110
_MOST_CASES = 40
_LONGEST = 48


def throughput_picture(cases: Sequence[CaseResult]) -> str:
    """Return the plots of the cases that have a number, one for each unit; empty if none has one."""
    units = dict.fromkeys(case.unit for case in cases if case.estimate is not None)
    plots = (_plot(unit or "", [case for case in cases if case.unit == unit]) for unit in units)
    return "".join(plots)


def _plot(unit: str, cases: Sequence[CaseResult]) -> str:
    measured = [case for case in cases if case.estimate is not None][:_MOST_CASES]
    largest = max(_highest(case) for case in measured)
    scale = _WIDTH / largest if largest > 0 else 0.0
    height = _ROW * (len(measured) + 1)
    parts = [
        _row(number * _ROW + _ROW / 2, case, scale) for number, case in enumerate(measured) if case.estimate
    ]
    text = f'<text x="{_LEFT}" y="{height - 6}">0</text>'
    text += (
        f'<text x="{_LEFT + _WIDTH}" y="{height - 6}" text-anchor="end">{largest:.5g} {escape(unit)}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + _RIGHT}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="currentColor"><title>Throughput in '
        f"{escape(unit)}</title>{''.join(parts)}{text}</svg>"
    )


def _highest(case: CaseResult) -> float:
    assert case.estimate is not None
    interval = case.estimate.interval
    return max(case.estimate.median, interval.high if interval else 0.0)


def _row(y: float, case: CaseResult, scale: float) -> str:
    assert case.estimate is not None
    name = case.id if len(case.id) <= _LONGEST else f"…{case.id[-_LONGEST + 1 :]}"
    middle, interval = _LEFT + case.estimate.median * scale, case.estimate.interval
    line = ""
    if interval is not None:
        low, high = _LEFT + max(0.0, interval.low) * scale, _LEFT + interval.high * scale
        line = (
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="currentColor" stroke-width="2"/>'
        )
    return (
        f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(printable(name))}</text>'
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}" stroke="currentColor" stroke-opacity="0.15"/>'
        f'{line}<circle cx="{middle:.1f}" cy="{y}" r="4"><title>{escape(printable(case.id))}</title></circle>'
        f'<text x="{_LEFT + _WIDTH + 8}" y="{y + 4}">{case.estimate.median:.5g}</text>'
    )
