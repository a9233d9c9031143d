"""Formats that are data: every example of each gives the number that it names."""

from pathlib import Path

import pytest

from trainmark.logs import Facts
from trainmark.logs.description import Example, parse_example
from trainmark.measure.rules import find_rule, measure_log
from trainmark.measure.rules.row import reading_row
from trainmark.programs import read_log
from trainmark.programs.reading import descriptions
from trainmark.schema.precision import Precision

CLOSE = 1e-4


def _examples() -> list[object]:
    return [
        pytest.param(each.name, parse_example(one, each.where), id=f"{each.name}-{number}")
        for each in descriptions()
        for number, one in enumerate(each.examples)
    ]


@pytest.mark.parametrize(("name", "example"), _examples())
def test_an_example_of_a_description_gives_its_number(name: str, example: Example, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(example.log, encoding="utf-8")
    given = Facts(
        gpus=example.given.get("gpus"),
        nodes=example.given.get("nodes"),
        batch_per_device=example.given.get("batch"),
        precision=Precision(word) if (word := example.given.get("precision")) else None,
    )

    log = read_log(tmp_path / "log", given)
    rule = find_rule("window", example.given["skip"]) if "skip" in example.given else None
    row = reading_row(log, measure_log(log, rule))

    assert row["format"] == name
    if example.throughput is None:
        assert row["throughput"] is None, row
    else:
        assert row["throughput"] == pytest.approx(example.throughput, rel=CLOSE), row["problems"]
    for key, value in example.facts.items():
        assert row[key] == value
    if example.status is not None:
        assert row["status"] == example.status


def test_every_description_has_an_example_and_names_its_source() -> None:
    for each in descriptions():
        assert each.examples, each.name
        assert each.source, each.name
        assert each.program, each.name
