#!/usr/bin/env python3
"""Write the errors in docs/appendix/predicting.md from the published tables; ``--check`` only compares (exit 1)."""

import sys

from generated_section import DOCS, GeneratedSection

sys.path.append(str(DOCS.parent / "benchmarks"))

import prediction

SECTION = GeneratedSection(
    "appendix/predicting.md",
    "<!-- errors: written by scripts/prediction_page.py -->",
    "<!-- end of errors -->",
    "scripts/prediction_page.py",
)


def statements() -> str:
    """Return the errors in Markdown."""
    return prediction.report()


if __name__ == "__main__":
    raise SystemExit(SECTION.update(statements()))
