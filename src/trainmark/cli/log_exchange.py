"""Logs as rows for other projects' databases: ``trainmark parse --to``."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING

from trainmark.cli.log_output import readings
from trainmark.cli.tree_output import is_doubtful_tree, tree_rows

if TYPE_CHECKING:
    from trainmark.logs import Facts
    from trainmark.measure.rules import Rule
    from trainmark.report.exchange import SpeedRow


class Exchange(StrEnum):
    """The exchange formats that logs can be written in."""

    PADDLE_JSON = "paddle-json"
    DLPERF_JSON = "dlperf-json"


def exchange_logs(
    paths: list[str], rule: "Rule | None", given: "Facts", to: Exchange, mission: str | None
) -> int:
    """Print rows of logs; return 1 if one is doubtful or left out, or if there are none."""
    from trainmark.errors import InputError
    from trainmark.measure.rules.row import is_doubtful
    from trainmark.report.exchange import numbered, row_from_log

    doubtful, rows = False, []
    for log, result in readings(paths, rule, given):
        doubtful |= is_doubtful(log, result)
        try:
            rows.append(row_from_log(log, result))
        except InputError as error:
            doubtful = True
            sys.stderr.write(f"left out: {error}\n")
    complete = _write_exchange(numbered(rows), to, given.model, mission)
    return 1 if doubtful or not rows or not complete else 0


def exchange_tree(
    folder: str, rule: "Rule | None", naming: str | None, to: Exchange, model: str | None, mission: str | None
) -> int:
    """Print rows of a tree of logs; return 1 if one is doubtful or left out."""
    from trainmark.report.exchange import rows_from_tree

    placements = tree_rows(folder, rule, naming)
    complete = _write_exchange(rows_from_tree(placements), to, model, mission)
    return 1 if is_doubtful_tree(placements) or not complete else 0


def _write_exchange(rows: "list[SpeedRow]", to: Exchange, model: str | None, mission: str | None) -> bool:
    """Print ``rows``; return whether all could be written, and all have a speedup if the format has one."""
    from dataclasses import replace

    from trainmark.files import to_json
    from trainmark.report.exchange import dlperf_json, list_rows, without_speedup

    renamed = [replace(row, model=model) for row in rows] if model else rows
    if to is Exchange.DLPERF_JSON:
        sys.stdout.write(to_json(dlperf_json(renamed)))
        incomparable = without_speedup(renamed)
        sys.stderr.write("".join(f"{sentence}\n" for sentence in incomparable))
        return not incomparable
    listing = list_rows(renamed, mission, "name only the logs of one of them")
    sys.stderr.write("".join(f"left out: {sentence}\n" for sentence in listing.left_out))
    sys.stdout.write(to_json(listing.rows))
    return not listing.left_out
