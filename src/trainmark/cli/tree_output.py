"""Output of ``trainmark parse --tree``: a table of the configurations in a tree of logs."""

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainmark.measure.rules import PlacementRow, Rule


def print_tree(folder: str, rule: "Rule | None", naming: str | None, *, as_json: bool) -> int:
    """Print the configurations of a tree; return 1 if one is doubtful."""
    rows = tree_rows(folder, rule, naming)
    if as_json:
        for row in rows:
            sys.stdout.write(json.dumps(_tree_document(row), ensure_ascii=False, allow_nan=False) + "\n")
    else:
        from trainmark.printable import table

        headings = (
            "model",
            "batch",
            "variant",
            "placement",
            "devices",
            "repeats",
            "mean",
            "median",
            "speedup",
            "without speed",
        )
        sys.stdout.write(table(headings, [_tree_cells(row) for row in rows]))
        for row in rows:
            for problem in row.problems:
                sys.stdout.write(f"{problem.severity} [{problem.code}] {problem.message}\n")
    return 1 if is_doubtful_tree(rows) else 0


def tree_rows(folder: str, rule: "Rule | None", naming: str | None) -> "list[PlacementRow]":
    """Return the configurations of a tree, whose paths follow the pattern ``naming`` (None: DLPerf's)."""
    from pathlib import Path

    from trainmark.measure.rules import read_naming, read_tree

    return read_tree(Path(folder), rule, read_naming(naming) if naming is not None else None)


def is_doubtful_tree(rows: "list[PlacementRow]") -> bool:
    """Return whether any configuration of the tree is doubtful."""
    from trainmark.logs import Severity

    return any(problem.severity is Severity.DOUBT for row in rows for problem in row.problems)


def _tree_document(row: "PlacementRow") -> dict[str, Any]:
    summary = row.summary
    return {
        "model": row.group.model,
        "batch_size_per_device": row.group.batch_per_device,
        "variant": row.group.variant,
        "placement": row.placement,
        "nodes": row.nodes,
        "gpus": row.gpus,
        "speeds": {str(repeat): speed for repeat, speed in row.speeds},
        "outcomes": {str(repeat): status for repeat, status in row.outcomes},
        "average_speed": summary.average_speed if summary else None,
        "median_speed": summary.median_speed if summary else None,
        "speedup": summary.speedup if summary else None,
        "problems": [{"code": p.code, "message": p.message, "severity": p.severity} for p in row.problems],
    }


def _tree_cells(row: "PlacementRow") -> list[str]:
    summary = row.summary
    return [
        row.group.model,
        str(row.group.batch_per_device),
        row.group.variant or "-",
        row.placement,
        str(row.gpus),
        str(len(row.speeds)),
        f"{summary.average_speed:.2f}" if summary else "-",
        f"{summary.median_speed:.2f}" if summary else "-",
        f"{summary.speedup:.2f}" if summary and summary.speedup is not None else "-",
        ", ".join(f"{repeat}: {status}" for repeat, status in row.outcomes) or "-",
    ]
