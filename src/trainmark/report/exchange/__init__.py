"""Exchange formats of other projects: database rows (``paddle-json``) and DLPerf's result (``dlperf-json``)."""

from trainmark.report.exchange.adapters import (
    numbered,
    row_from_log,
    rows_from_results,
    rows_from_tree,
    why_no_rows,
)
from trainmark.report.exchange.dlperf import dlperf_json, without_speedup
from trainmark.report.exchange.listing import list_rows
from trainmark.report.exchange.paddle import FIELDS, load_directions, load_missions, mission_for, paddle_row
from trainmark.report.exchange.rows import SpeedRow

__all__ = [
    "FIELDS",
    "SpeedRow",
    "dlperf_json",
    "list_rows",
    "load_directions",
    "load_missions",
    "mission_for",
    "numbered",
    "paddle_row",
    "row_from_log",
    "rows_from_results",
    "rows_from_tree",
    "why_no_rows",
    "without_speedup",
]
