#!/usr/bin/env python3
"""Write the matrix of measured programs in docs/appendix/programs.md from docs/results; ``--check`` only compares.

With ``--check`` the exit code is 1 if the page differs. A row is an entry of a file ``docs/results/programs-*.json``.
"""

import json
from statistics import mean
from typing import Any

from generated_section import DOCS, GeneratedSection

SECTION = GeneratedSection(
    "appendix/programs.md",
    "<!-- programs: written by scripts/programs_page.py -->",
    "<!-- end of programs -->",
    "scripts/programs_page.py",
)


def entries() -> list[dict[str, Any]]:
    """Return the stored entries, each with the name of its file, by program and date."""
    found = [
        {**entry, "file": path.name}
        for path in sorted((DOCS / "results").glob("programs-*.json"))
        for entry in json.loads(path.read_text(encoding="utf-8"))
    ]
    return sorted(found, key=lambda each: (each["program"].lower(), each["machine"], each["date"]))


def table() -> str:
    """Return the matrix in Markdown."""
    rows = [
        "| program | framework | by | on | date | number | its own print | a separate clock | marks |",
        "| --- | --- | --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    rows += [f"| {' | '.join(_cells(entry))} |" for entry in entries()]
    return "\n".join(rows)


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    runs = [run for run in entry["runs"] if "throughput" in run]
    framework = entry.get("framework") or next(
        (run["witnessed"]["framework"] for run in runs if "framework" in run["witnessed"]), "not stated"
    )
    by = f"card `{entry['card']}`" if "card" in entry else "command"
    number = f"{_short(entry['estimate']['median'])} {runs[0]['unit']} ({len(runs)})"
    doubts = dict.fromkeys(doubt for run in runs for doubt in run["doubts"])
    return (
        f"[{entry['program']}](../results/{entry['file']})",
        *(framework, by, entry["machine"], entry["date"], number),
        *(_deviation(runs, key) for key in ("printed_by_the_program", "by_separate_clock")),
        ", ".join(f"`{doubt}`" for doubt in doubts) or "-",
    )


def _deviation(runs: list[dict[str, Any]], key: str) -> str:
    """Return the mean deviation of the number from another witness of the same runs."""
    found = [run["throughput"] / run[key] - 1 for run in runs if run.get(key)]
    return f"{mean(found):+.2%}".replace("%", " %") if found else "-"


def _short(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    raise SystemExit(SECTION.update(table()))
