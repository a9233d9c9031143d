"""The corpora of real logs, which lie beside the checkout: tests on them are skipped where they are not there."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_SHARED = Path(__file__).parents[2] / "shared"
CORPUS = _SHARED / "corpus"
CORPUS_TODAY = _SHARED / "corpus-today"
CORPUS_2026 = _SHARED / "corpus-2026"


def truth_of(
    corpus: Path,
    name: Callable[[dict[str, str]], str],
    chosen: Callable[[dict[str, str]], bool] = lambda _: True,
) -> list[Any]:
    """Return the rows of a corpus' truth as a test's parameters, or one that is skipped in their place."""
    if not corpus.is_dir():
        absent = f"the corpus of real logs (../shared/{corpus.name}) is not here"
        return [pytest.param({}, id="no-corpus", marks=pytest.mark.skip(reason=absent))]
    with (corpus / "truth.csv").open(newline="") as file:
        return [pytest.param(row, id=name(row)) for row in csv.DictReader(file) if chosen(row)]
