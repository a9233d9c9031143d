"""``trainmark parse --ranks``: a table of the ranks of one job, and which of them are slower."""

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.logs import Facts
    from trainmark.measure.rules import Rule
    from trainmark.schema.ranks import RankComparison


def print_ranks(
    paths: list[str], rule: "Rule | None", given: "Facts", format_name: str | None, *, as_json: bool
) -> int:
    """Print the ranks of the job whose logs these are; return 1 if one is slower than the others or waits for data.

    Of ``rule`` only the number of records that it skips counts.
    """
    from trainmark.cli.log_output import readings
    from trainmark.insight.log_ranks import compare_ranks

    logs = [log for log, _ in readings(paths, None, given, format_name)]
    found = compare_ranks(logs, rule.skip if rule is not None else None)
    if as_json:
        sys.stdout.write(json.dumps(found.model_dump(), ensure_ascii=False, allow_nan=False) + "\n")
    else:
        sys.stdout.write(_text(found))
    return 1 if found.findings else 0


def _text(found: "RankComparison") -> str:
    from trainmark.printable import table

    rows = []
    for one in found.ranks:
        interval = f"{one.interval[0]:+.1%} to {one.interval[1]:+.1%}" if one.interval else "-"
        rows.append(
            [
                str(one.rank),
                one.host or "-",
                str(one.records),
                _number(one.step_time_s),
                _number(one.data_time_s),
                _number(one.rate),
                "-" if one.slower_by is None else f"{one.slower_by:+.1%}",
                interval,
            ]
        )
    rate = f"{found.unit or 'units/s'} printed"
    heading = ("rank", "host", "records", "step (s)", "data (s)", rate, "slower by", "interval")
    lines = [f"{found.steps} steps that all ranks print; each rank against the median of the others"]
    lines += [f"slow: {sentence}" for sentence in found.findings]
    lines += [f"note: {sentence}" for sentence in found.notes]
    return table(heading, rows) + "".join(f"{line}\n" for line in lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
