"""``trainmark predict``: its table, its JSON, its exit codes and its errors."""

import json
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.schema.prediction import PredictionReport, RefusalCode

SCALING = Path(__file__).parents[2] / "docs" / "results" / "h200-scaling" / "results.json"


def test_a_published_table_is_predicted_with_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["predict", "llm-foundry", "--only", "model=mpt_7b,device=H100,precision=bf16", "--devices", "1024"]
    )

    out = capsys.readouterr().out
    assert code == 0
    assert "   1024    128      6   9 482 701" in out
    assert "interval: 90%" in out


def test_a_refused_prediction_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["predict", str(SCALING), "--devices", "16", "--json"])

    report = PredictionReport.model_validate_json(capsys.readouterr().out)
    assert code == 1
    assert {one.refusal for found in report.series for one in found.predicted} == {RefusalCode.ONE_HOST}


def test_more_devices_of_the_same_host_are_predicted_from_results(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["predict", str(SCALING), "--devices", "8", "--devices-per-node", "8", "--json"])

    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert document["schema_name"] == "trainmark.prediction/1"
    assert {one["model"] for found in document["series"] for one in found["predicted"]} == {"within-host"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["llm-fondry", "--devices", "8"], "did you mean 'llm-foundry'?"),
        (["llm-foundry", "--devices", "8.5"], "numbers of devices are integers"),
        (["llm-foundry", "--devices", "-8"], "expected positive numbers"),
        (["llm-foundry", "--devices", "eight"], "expected positive numbers"),
        (["llm-foundry", "--devices", "8", "--batch", "nan"], "expected positive numbers"),
        (["llm-foundry", "--devices", "8", "--only", "colour=red"], "selects no published figures"),
        (["llm-foundry", "--devices", "8", "--only", "model=gpt9"], "no published figure with model"),
        (
            ["torchtitan-2024.12", "--only", "model=llama3.1_70b", "--devices", "8"],
            "no configuration has a number at two",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", *words]) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
