"""Logs of today's programs: each row of the corpus' truth comes out as it says."""

import shlex

import pytest

from corpora import CORPUS_TODAY, truth_of
from trainmark.logs import Facts
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.row import reading_row
from trainmark.programs import read_log

_FLAGS = {"--gpus": "gpus", "--batch": "batch_per_device", "--nodes": "nodes"}


@pytest.mark.parametrize("truth", truth_of(CORPUS_TODAY, lambda row: row["log"]))
def test_a_current_log_gives_the_right_number_or_none(truth: dict[str, str]) -> None:
    words = shlex.split(truth["flags"])
    given = {_FLAGS[flag]: int(value) for flag, value in zip(words[::2], words[1::2], strict=True)}
    log = read_log(CORPUS_TODAY / "logs" / truth["log"], Facts(**given))  # type: ignore[arg-type]

    row = reading_row(log, measure_log(log))

    if truth["must"] == "null" or (truth["must"] == "read-or-null" and row["throughput"] is None):
        assert row["throughput"] is None
        return
    assert float(truth["low"]) <= row["throughput"] <= float(truth["high"])
    assert row["unit"] == truth["unit"]
    assert row["framework"] == (truth["framework"] or None)
    assert row["precision"] not in ("fp32", "tf32")
