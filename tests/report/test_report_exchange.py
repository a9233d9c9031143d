"""``trainmark report --to paddle-json|dlperf-json``: results as the rows of other people's databases."""

import json
from pathlib import Path

import pytest
import sample_results as sample

from trainmark.cli.main import main
from trainmark.files import write_atomically
from trainmark.schema.case import case_of
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results


def stored(results: Results, folder: Path) -> str:
    folder.mkdir()
    write_atomically(folder / "results.json", results.to_json())
    return str(folder)


@pytest.fixture
def two_frameworks(tmp_path: Path) -> str:
    return stored(sample.two_frameworks(), tmp_path / "out")


def test_results_of_two_frameworks_are_refused_as_rows_that_would_share_their_names(
    two_frameworks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", two_frameworks, "--to", "paddle-json"]) == 2

    reported = capsys.readouterr()
    assert (reported.out, reported.err.count("\n")) == ("", 1)
    assert "no field for framework (tensorflow, pytorch)" in reported.err
    assert "--only AXIS=VALUE" in reported.err


def test_only_chooses_the_framework_of_the_rows(
    two_frameworks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--to", "paddle-json", "--only", "framework=pytorch,batch_per_device=160"]
    assert main(["report", two_frameworks, *words]) == 0

    rows = json.loads(capsys.readouterr().out)
    names = [row["log_file"] for row in rows]
    assert len(set(names)) == len(names)
    assert {row["model_name"] for row in rows} == {"clas_ResNet50V1.5_bs160_fp32"}
    assert {row["gpu_num"] for row in rows} == {1, 2, 4, 8, 16, 32}


def test_frameworks_stay_separate_in_the_result_of_dlperf(
    two_frameworks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--to", "dlperf-json", "--only", "batch_per_device=160"]
    assert main(["report", two_frameworks, *words]) == 0

    assert sorted(json.loads(capsys.readouterr().out)) == [
        "ResNet50V1.5_b160_fp32_pytorch",
        "ResNet50V1.5_b160_fp32_tensorflow",
    ]


def two_models() -> Results:
    cases = [case_of(model=model) for model in ("resnet50_v1.5", "my-own")]
    return sample.results([(case, sample.ok_runs(case, 300.0, 1)) for case in cases])


def test_a_model_without_a_mission_is_left_out_and_reported_and_the_others_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", stored(two_models(), tmp_path / "out"), "--to", "paddle-json"]) == 1

    reported = capsys.readouterr()
    assert [row["model_name"] for row in json.loads(reported.out)] == ["clas_ResNet50V1.5_bs32_fp32"]
    assert reported.err.startswith("left out: runs/")
    assert "no mission is known for the model 'my-own'" in reported.err


def test_what_is_in_doubt_is_reported_next_to_rows_that_have_no_place_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = stored(sample.real_and_synthetic(), tmp_path / "out")
    assert main(["report", out, "--to", "dlperf-json", "--only", "data=imagenet"]) == 0
    reported = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[::2] for line in reported] == [["in doubt", "not-steady"]] * 2
    assert main(["report", out, "--to", "dlperf-json", "--only", "data=synthetic"]) == 0
    assert capsys.readouterr().err == ""


def test_a_spoiled_run_is_no_row_next_to_sound_runs_and_never_one_of_a_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = Suspicion(code="cpu-shared", sentence="others took the cores", about=About.MACHINE)
    case, alone = case_of(), case_of(batch_per_device=64)
    runs = sample.ok_runs(case, 300.0, 3)
    spoiled = sample.run(case, 3, throughput=30.0, suspicions=(busy,))
    lost = sample.run(alone, 1, throughput=40.0, suspicions=(busy,))
    out = stored(sample.results([(case, (*runs[:2], spoiled)), (alone, (lost,))]), tmp_path / "out")
    assert main(["report", out, "--to", "paddle-json"]) == 1
    reported = capsys.readouterr()
    assert [row["FINAL_RESULT"] for row in json.loads(reported.out)] == [300.0, 301.2]
    assert reported.err.splitlines() == [
        f"in doubt: {alone.id}: cpu-shared",
        f"left out: runs/{alone.id}/1/train.log: the run was disturbed by its machine, "
        "and a row has no field for a doubt",
    ]
    assert main(["report", out, "--to", "dlperf-json"]) == 0
    found = [one["1n1g"] for one in json.loads(capsys.readouterr().out).values()]
    assert [(one["median_speed"], one["speedup"]) for one in found] == [(300.6, 1.0), (40.0, None)]


def test_a_mission_or_a_model_that_is_named_takes_the_unknown_model_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = stored(two_models(), tmp_path / "out")
    assert main(["report", out, "--to", "paddle-json", "--mission", "image classification"]) == 0
    assert {row["mission_name"] for row in json.loads(capsys.readouterr().out)} == {"图像分类"}

    words = ["--to", "paddle-json", "--model", "MobileNetV1", "--only", "model=my-own"]
    assert main(["report", out, *words]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["model_name"] == "clas_MobileNetV1_bs32_fp32"


def test_rows_that_are_left_out_do_not_keep_the_file_from_being_written(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = stored(two_models(), tmp_path / "out")
    assert main(["report", out, "--to", "paddle-json", "--output", str(file)]) == 1
    assert len(json.loads(file.read_text())) == 1


def test_cases_of_an_unknown_batch_are_no_rows_and_that_is_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = case_of(task="program", workload="mine", framework="pytorch")
    results = sample.results([(case, (sample.failed_run(case, Outcome.FAILED, "exit code 1"),))])
    assert main(["report", stored(results, tmp_path / "out"), "--to", "paddle-json"]) == 1

    reported = capsys.readouterr()
    assert (
        reported.err
        == "no case with a run states its batch per device, which a row needs, so there are no rows\n"
    )


def test_results_without_a_run_that_was_started_are_no_rows_and_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = case_of(nodes=2)
    results = sample.results([(case, (sample.failed_run(case, Outcome.UNSUPPORTED, "one host today"),))])
    assert main(["report", stored(results, tmp_path / "out"), "--to", "paddle-json"]) == 1

    reported = capsys.readouterr()
    assert json.loads(reported.out) == []
    assert reported.err == "no run of these cases was started, so there are no rows\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--only", "framework=jax"], "--only needs --to FORMAT: the report files in DIR have all cases"),
        (["--to", "md", "--model", "r50"], "--model is for --to paddle-json and dlperf-json"),
        (["--to", "dlperf-json", "--mission", "x"], "--mission is for --to paddle-json"),
        (["--to", "paddle-json", "--mission", "image clasification"], "did you mean 'image classification'?"),
        (["--to", "paddle-json", "--only", "framwork=jax"], "did you mean 'framework'?"),
        (
            ["--to", "paddle-json", "--model", "r50"],
            "the results contain several models (ResNet50V1.5, my-own)",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_2(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", stored(two_models(), tmp_path / "out"), *words]) == 2

    reported = capsys.readouterr()
    assert (reported.out, reported.err.count("\n")) == ("", 1)
    assert complaint in reported.err
