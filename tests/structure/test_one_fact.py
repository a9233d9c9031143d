"""Facts that stand twice, because a worker imports nothing of ours and ``--help`` must not wait: held together."""

import ast
from pathlib import Path

import pytest

import trainmark
from trainmark.schema.case import Case, case_of
from trainmark.schema.precision import Precision
from trainmark.schema.suite import NamingScheme
from trainmark.suite.loading import log_name
from trainmark.workload import load_workloads

HOUSE = Path(trainmark.__file__).parent
PRECISIONS = {path.parent.name: path for path in (HOUSE / "worker").glob("backends/*/backend.py")}
"""By framework, the file with the precisions that its worker has."""


def literal(path: Path, name: str) -> set[str]:
    """Return the words that a file of a worker lists under a name, without importing its framework."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value = getattr(node, "value", None)
            words = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
            return {str(word.value) for word in words if isinstance(word, ast.Constant)}
    raise AssertionError(f"{path} has no {name}")


def test_the_workers_know_the_precisions_of_a_case() -> None:
    assert literal(HOUSE / "worker/core/precision.py", "PRECISIONS") == set(Precision)


def test_the_help_of_parse_lists_the_precisions() -> None:
    source = (HOUSE / "cli/parse.py").read_text(encoding="utf-8")
    assert f"{', '.join(list(Precision)[:-1])} or {list(Precision)[-1]}" in source


@pytest.mark.parametrize("framework", sorted(PRECISIONS))
def test_a_card_offers_the_precisions_that_its_worker_has(framework: str) -> None:
    card = load_workloads().find(case_of(framework=framework)).card
    offered = set(card.axes["precision"].choices or Precision)
    there = literal(PRECISIONS[framework], "PRECISIONS")

    assert there <= offered
    assert offered - there <= {gap.when.get("precision") for gap in card.gaps}


@pytest.mark.parametrize("scheme", NamingScheme)
def test_no_two_precisions_are_published_under_one_name(scheme: NamingScheme) -> None:
    cases: list[Case] = [case_of(precision=precision) for precision in Precision]

    assert len({log_name(case, 1, scheme) for case in cases}) == len(cases)


def test_each_decision_has_a_number_of_its_own() -> None:
    folder = Path(__file__).parents[2] / "docs" / "adr"
    numbers = [path.name[:4] for path in folder.glob("[0-9]*.md")]

    assert len(numbers) == len(set(numbers))
