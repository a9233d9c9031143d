#!/usr/bin/env python3
"""Write the statements in docs/published-tables.md from the tables; ``--check`` only compares (exit code 1)."""

import sys
from pathlib import Path

from trainmark.reference.audit import audit, counted_models
from trainmark.reference.render import render_page
from trainmark.reference.table import load_tables

PAGE = Path(__file__).resolve().parents[1] / "docs" / "published-tables.md"
BEGIN, END = "<!-- tables: written by scripts/published_tables_page.py -->", "<!-- end of tables -->"


def page() -> str:
    """Return the page with the statements as they should be."""
    tables = load_tables()
    counted = [one for table in tables for one in counted_models(table)]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{render_page(tables, audit(tables), counted)}\n{END}{after}"


def main() -> int:
    """Write the page, or compare it; return the exit code."""
    wanted = page()
    if wanted == PAGE.read_text(encoding="utf-8"):
        return 0
    if "--check" in sys.argv[1:]:
        sys.stderr.write("docs/published-tables.md is outdated: run scripts/published_tables_page.py\n")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
