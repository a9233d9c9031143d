#!/usr/bin/env python3
"""Write the statements in docs/reference/published-tables.md from the tables; ``--check`` only compares (exit 1)."""

from generated_section import GeneratedSection
from trainmark.reference.audit import audit
from trainmark.reference.render import render_page
from trainmark.reference.table import load_tables

SECTION = GeneratedSection(
    "reference/published-tables.md",
    "<!-- tables: written by scripts/published_tables_page.py -->",
    "<!-- end of tables -->",
    "scripts/published_tables_page.py",
)


def statements() -> str:
    """Return the statements on all tables in Markdown."""
    tables = load_tables()
    return render_page(tables, audit(tables)).rstrip()


if __name__ == "__main__":
    raise SystemExit(SECTION.update(statements()))
