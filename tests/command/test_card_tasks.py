"""Programs of other projects by their cards: only stated values are facts of a case."""

import json
from pathlib import Path

import pytest

from foreign_cards import CARD, planned, written
from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.suite import dump_suite, load_suite, parse_suite
from trainmark.workload import read_card


def test_a_foreign_card_without_a_task_has_the_neutral_one(tmp_path: Path) -> None:
    written(tmp_path)
    assert read_card(tmp_path / "card.yaml").card.task == "program"


def test_axes_that_nobody_states_are_unknown(tmp_path: Path) -> None:
    (case,) = load_suite(written(tmp_path)).cases

    assert (case.id, case.task, case.framework) == ("mlp-python-b32", "program", "python")
    assert {case.precision, case.model, case.data, case.compiler} == {"unknown"}
    assert "image_size" not in case.axes


def test_a_fixed_axis_is_stated_by_the_card(tmp_path: Path) -> None:
    (case,) = load_suite(written(tmp_path, fixed={"precision": "fp32", "model": "xor"})).cases

    assert (case.precision, case.model) == ("fp32", "xor")
    assert case.id == "mlp-python-xor-fp32-b32"


def test_the_cards_stated_task_is_that_of_its_cases(tmp_path: Path) -> None:
    path = written(tmp_path, task="causal-lm", axes=CARD["axes"] | {"sequence_length": {}})
    (case,) = load_suite(path).cases

    assert (case.task, case.framework) == ("causal-lm", "python")


def test_a_resolved_suite_reads_back_equal(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path, fixed={"precision": "bf16"}))

    assert parse_suite(dump_suite(suite), str(tmp_path / "out" / "suite.yaml")) == suite


def test_an_axis_of_another_task_is_refused_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, {"axes": {"image_size": [224]}})

    with pytest.raises(InputError, match=r"suite\.yaml:\d+: .*task 'program' has no axis 'image_size'"):
        load_suite(path)


def test_a_value_that_no_word_passes_is_unsupported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (case,) = planned(written(tmp_path, {"axes": {"precision": ["bf16"]}}), capsys)

    assert "has no words for precision, so it cannot be bf16: add precision to" in case["cannot_run"]


def test_an_axis_without_a_value_adds_no_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (case,) = planned(written(tmp_path, {"axes": {"devices_per_node": [1]}}), capsys)

    assert case["cannot_run"] is None
    assert not any("--batch-size" in word for word in case["commands"][0]["words"])


def test_a_placeholder_of_an_unknown_batch_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*CARD["command"], "--batch-size={batch}"]
    (case,) = planned(written(tmp_path, {"axes": {"devices_per_node": [1]}}, command=command), capsys)

    assert "{batch}: state batch_per_device in the suite" in case["cannot_run"]


@pytest.mark.process
def test_a_foreign_run_has_no_facts_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(written(tmp_path)), "--out", "out"]) in (0, 1)

    text = (tmp_path / "out" / "report.md").read_text().partition("## Suspect runs")[0]
    assert "Suite mlp: python training mlp on " in text
    assert "| mlp b32 |" in (tmp_path / "out" / "report.md").read_text()
    (case,) = json.loads((tmp_path / "out" / "results.json").read_text())["cases"]
    assert case["runs"][0]["outcome"] == "ok"
    assert [word for word in ("224", "nchw", "resnet", "fp32", "synthetic") if word in text] == []
