"""``trainmark run -- COMMAND…``: any program by its command line, started for real."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from trainmark.campaign.log_measurement import ArrivalClock
from trainmark.cli.main import main

PROGRAM = Path(__file__).with_name("train_mlp.py")

pytestmark = pytest.mark.process


def measured(folder: Path, words: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Measure the program with these words from ``folder``; return the exit code and the results."""
    (folder / "train.py").write_bytes(PROGRAM.read_bytes())
    os.chdir(folder)
    command = [sys.executable, "train.py", *shlex.split(words)]
    code = main(["run", "--out", "out", "--name", "mlp", *options, "--", *command])
    return code, json.loads((folder / "out" / "results.json").read_text())


def runs(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for case in results["cases"] for run in case["runs"]]


def true_rate(folder: Path, run: dict[str, Any], work: int) -> float:
    """Return the work a second of the measured steps by the program's own clock; ``work`` is that of a step."""
    ends = json.loads((folder / "clock.json").read_text())
    skipped = run["measurement"]["warmup_steps"]
    return float(work * (len(ends) - skipped) / (ends[-1] - ends[skipped - 1]))


@pytest.fixture(autouse=True)
def back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_number_is_that_of_the_programs_own_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--style nanogpt --batch-size 64 --steps 300"
    code, results = measured(tmp_path, words, "--repeats", "1")

    (run,) = runs(results)
    ends = json.loads((tmp_path / "clock.json").read_text())
    skipped = run["measurement"]["warmup_steps"]
    true = 64 * 4 * (len(ends) - skipped) / (ends[-1] - ends[skipped - 1])
    assert code in (0, 1)
    assert run["measurement"]["unit"] == "tokens/s"
    assert run["measurement"]["throughput"] == pytest.approx(true, rel=0.05)
    # The window by the arrival of the records is the program's own, but for the resolution of the arrivals.
    assert run["measurement"]["window_s"] == pytest.approx(ends[-1] - ends[skipped - 1], abs=0.2)
    assert run["measurement"]["step_times"]["p50"] > 0
    printed = capsys.readouterr().out
    assert printed.startswith("tokens/s")
    assert "stored in   out; command.yaml and card.yaml there" in printed


def test_steps_that_are_shorter_than_a_look_at_the_log_have_no_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several arrive at one look: the time from look to look is that of many steps."""
    _, results = measured(tmp_path, "--style counter --batch-size 16 --steps 1000", "--repeats", "1")

    (run,) = runs(results)
    assert run["measurement"]["throughput"] > 500
    assert run["measurement"]["step_times"] is None
    assert not re.search(r"^step ", capsys.readouterr().out, re.MULTILINE)


def test_what_nobody_stated_is_unknown_in_the_case_and_its_id(tmp_path: Path) -> None:
    _, results = measured(tmp_path, "--style nanogpt", "--repeats", "1")

    (case,) = results["cases"]
    assert case["id"] == "mlp"
    assert {
        case["case"][axis] for axis in ("precision", "batch_per_device", "model", "data", "framework")
    } == {"unknown"}
    assert "image_size" not in case["case"]


def test_varied_values_are_cases_whose_ids_name_them(tmp_path: Path) -> None:
    code, results = measured(
        tmp_path,
        "--style nanogpt --batch-size {batch} {more}",
        *("--repeats", "1", "--vary", "batch=16,64", "--vary", "more=--steps 40,--steps 60"),
    )

    assert code in (0, 1)
    assert [
        case["id"].startswith(("mlp-batch16-more", "mlp-batch64-more")) for case in results["cases"]
    ] == 4 * [True]
    steps = {
        (
            case["case"]["options"]["batch"],
            run["measurement"]["measured_steps"] + run["measurement"]["warmup_steps"],
        )
        for case in results["cases"]
        for run in case["runs"]
    }
    assert steps == {(16, 40), (64, 40), (16, 60), (64, 60)}


def test_an_environment_variable_can_be_varied(tmp_path: Path) -> None:
    _, results = measured(tmp_path, "--style nanogpt", "--repeats", "1", "--env", "LEARNING_RATE=0.1,0.5")

    assert [case["id"] for case in results["cases"]] == ["mlp-LEARNING_RATE0.1", "mlp-LEARNING_RATE0.5"]
    assert ["LEARNING_RATE=0.1" in run["commands"][0] for run in runs(results)] == [True, False]


def test_a_log_without_times_is_measured_by_the_arrival_of_its_lines(tmp_path: Path) -> None:
    words = "--style counter --batch-size 256 --steps 600"
    _, results = measured(tmp_path, words, "--repeats", "1", "--work-per-step", "256", "--unit", "samples/s")

    (run,) = runs(results)
    true = true_rate(tmp_path, run, 256)
    assert run["measurement"]["unit"] == "samples/s"
    assert run["measurement"]["throughput"] == pytest.approx(true, rel=0.05)


def test_the_work_of_a_step_is_computed_from_what_is_varied_and_counted_in_the_given_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--style counter --batch-size {batch} --steps 100"
    given = ["--repeats=1", "--vary=batch=512,1024", "--work-per-step={batch} * 2", "--unit=images/s"]
    _, results = measured(tmp_path, words, *given)

    rates = [run["measurement"] for run in runs(results)]
    work = [rate["throughput"] * rate["window_s"] / rate["measured_steps"] for rate in rates]
    assert [rate["unit"] for rate in rates] == ["images/s", "images/s"]
    assert work == pytest.approx([1024, 2048], rel=0.05)
    assert "images/s" in capsys.readouterr().out


def test_a_known_log_is_counted_in_another_unit_by_the_stated_work_of_a_step(tmp_path: Path) -> None:
    """Tokens where a program prints samples, and the reverse: nothing differs, they are other units."""
    words = "--style nanogpt --batch-size 64 --steps 200"
    _, results = measured(tmp_path, words, "--repeats", "1", "--work-per-step", "64", "--unit", "samples/s")

    (run,) = runs(results)
    true = true_rate(tmp_path, run, 64)
    assert run["measurement"]["unit"] == "samples/s"
    assert run["measurement"]["throughput"] == pytest.approx(true, rel=0.05)
    assert "work-per-step-differs" not in {doubt["code"] for doubt in run["suspicions"]}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{btch}", "'btch' in '{btch}' is not a name of --vary; write a number such as 256, or"),
        ("0", "'0' is not a number above 0; write a number"),
        ("256 images", "'256 images' is not names, numbers and + - * / // ()"),
    ],
)
def test_a_work_of_a_step_that_is_no_number_is_one_line(
    text: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "run",
        "--work-per-step",
        text,
        "--vary",
        "batch=1,2",
        "--",
        sys.executable,
        "train.py",
        "{batch}",
    ]

    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"trainmark run: --work-per-step: {error}")


def test_a_doubt_about_a_guessed_log_without_times_does_not_promise_a_proposal_that_parse_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, results = measured(tmp_path, "--style counter --batch-size 512 --steps 200", "--repeats", "1")

    (run,) = runs(results)
    (doubt,) = [doubt["sentence"] for doubt in run["suspicions"] if doubt["code"] == "guessed"]
    log = tmp_path / "out" / run["directory"] / "train.log"
    main(["parse", "--explain", str(log)])
    assert "proposed format" not in capsys.readouterr().out
    assert "--explain" not in doubt
    assert "docs/how-to/describe-a-log.md" in doubt


def test_a_program_whose_python_lacks_trainmark_is_answered_with_the_command_that_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import sys\nsys.path.clear()\nimport trainmark\n")

    main(["run", "--out", "out", "--repeats", "1", "--", sys.executable, "-S", "train.py"])

    printed = capsys.readouterr().out
    assert "No module named 'trainmark'" in printed
    assert (
        "what to do  PYTHON -m pip install --no-deps . in a clone of trainmark, with the Python of your program"
        in printed
    )


def test_without_the_work_of_a_step_the_number_is_in_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, results = measured(tmp_path, "--style counter --batch-size 256 --steps 80", "--repeats", "1")

    (run,) = runs(results)
    assert run["measurement"]["unit"] == "steps/s"
    assert "the work of a step is unknown (--work-per-step N --unit samples/s)" in capsys.readouterr().out


def test_buffered_output_is_noticed(tmp_path: Path) -> None:
    words = "--style nanogpt --batch-size 512 --steps 300 --buffered"
    _, results = measured(tmp_path, words, "--repeats", "1")

    (run,) = runs(results)
    assert "buffered-output" in {doubt["code"] for doubt in run["suspicions"]}
    assert run["measurement"]["window_s"] is None


def test_a_program_that_is_ended_before_its_first_step_needs_more_time(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\nprint('loading data', flush=True)\ntime.sleep(60)\n")
    words = ["run", "--out", "out", "--repeats", "1", "--seconds", "1"]
    main([*words, "--", sys.executable, "slow.py"])

    results = json.loads((tmp_path / "out" / "results.json").read_text())
    (run,) = runs(results)
    assert (run["outcome"], run["reason"][:32]) == ("invalid", "ended on purpose after 1 s, too ")


@pytest.mark.parametrize("limit", [("--seconds", "2"), ("--steps", "200")])
def test_a_program_without_an_end_is_ended_on_purpose(tmp_path: Path, limit: tuple[str, str]) -> None:
    words = "--style nanogpt --batch-size 32 --steps 1000000"
    _, results = measured(tmp_path, words, "--repeats", "1", *limit)

    (run,) = runs(results)
    assert (run["outcome"], run["reason"].startswith("ended on purpose after")) == ("ok", True)
    assert run["measurement"]["measured_steps"] > 20


def test_a_program_at_work_that_reaches_its_time_limit_is_answered_with_the_way_out(tmp_path: Path) -> None:
    words = "--style nanogpt --batch-size 32 --steps 1000000"
    _, results = measured(tmp_path, words, "--repeats", "1", "--timeout", "5")

    (run,) = runs(results)
    assert (run["outcome"], run["measurement"]) == ("timeout", None)
    assert run["reason"].startswith("it took longer than 5 s")
    assert "end it on purpose (--steps, --epochs or --seconds; stop_after in a card)" in run["reason"]

    # One that prints no steps has no number that its end would give.
    (tmp_path / "idle.py").write_text("import time\nprint('loading data', flush=True)\ntime.sleep(60)\n")
    command = ["run", "--out", "idle", "--repeats", "1", "--timeout", "2", "--", sys.executable, "idle.py"]
    main(command)
    (run,) = runs(json.loads((tmp_path / "idle" / "results.json").read_text()))
    assert (run["outcome"], "on purpose" in run["reason"]) == ("timeout", False)


def test_the_written_suite_can_be_run_again(tmp_path: Path) -> None:
    measured(tmp_path, "--style nanogpt", "--repeats", "1")

    again = yaml.safe_load((tmp_path / "out" / "command.yaml").read_text())
    assert again["cards"] == ["card.yaml"]
    assert main(["run", "out/command.yaml", "--out", "again"]) in (0, 1)
    assert json.loads((tmp_path / "again" / "results.json").read_text())["cases"][0]["runs"]


def test_a_changed_program_is_not_pooled_with_its_earlier_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(tmp_path, "--style nanogpt", "--repeats", "1")
    suite = tmp_path / "out" / "command.yaml"
    (tmp_path / "train.py").write_text("# changed\n" + (tmp_path / "train.py").read_text())
    document = yaml.safe_load(suite.read_text())
    document["protocol"]["repeats"] = 2
    suite.write_text(yaml.safe_dump(document))

    assert main(["run", "out/command.yaml", "--out", "out", "--resume"]) == 2
    assert "suite" in capsys.readouterr().err


def test_a_file_that_the_program_itself_writes_can_be_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "clock.json").write_text("of an earlier run")
    code, first = measured(tmp_path, "--style nanogpt", "--repeats", "1")

    (run,) = runs(first)
    (doubt,) = (one["sentence"] for one in run["suspicions"] if one["code"] == "source-changed")
    assert code == 1
    assert (
        "clock.json has changed; if the program writes these files itself, delete them from 'files'" in doubt
    )
    card = yaml.safe_load((tmp_path / "out" / "card.yaml").read_text())
    card["source"]["files"].remove(str(tmp_path / "clock.json"))
    (tmp_path / "out" / "card.yaml").write_text(yaml.safe_dump(card))
    main(["run", "out/command.yaml", "--out", "again"])
    (run,) = runs(json.loads((tmp_path / "again" / "results.json").read_text()))
    assert "source-changed" not in {one["code"] for one in run["suspicions"]}


def test_a_program_that_refuses_with_code_0_is_quoted(tmp_path: Path) -> None:
    code, results = measured(tmp_path, "--fail refuse", "--repeats", "1")

    (run,) = runs(results)
    assert (code, run["outcome"]) == (1, "invalid")
    assert "the data set has no images" in run["reason"]


def test_an_import_error_is_not_tried_again(tmp_path: Path) -> None:
    code, results = measured(tmp_path, "--fail import")

    assert code == 1
    assert [run["outcome"] for run in runs(results)] == ["failed"]
    assert "no_such_module_of_anybody" in runs(results)[0]["reason"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run"], "give a suite's file, or a command after '--'"),
        (["run", "suite.yaml", "--", "python"], "give a suite's file, or a command after '--'"),
        (["run", "--"], "no command after '--'"),
        (["run", "--vary", "batch=1,2", "--", "python", "train.py"], "the command has no {batch}"),
        (["run", "--vary", "batch", "--", "python", "{batch}"], "should be NAME=VALUE"),
        (["run", "--vary", "batch=1,1", "--", "python", "{batch}"], "names a value twice"),
        (["run", "--format", "nanogtp", "--", "python", "train.py"], "nanogpt"),
    ],
)
def test_a_call_that_cannot_be_used_is_one_line_and_leaves_nothing(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2

    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_command_that_does_not_exist_is_refused_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chdir(tmp_path)
    assert main(["run", "--out", "out", "--repeats", "1", "--", "no-such-program"]) == 2

    assert "no-such-program: no such program" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_switch_of_the_command_is_a_fact_that_the_log_need_not_print(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(IMAGENET)
    command = [sys.executable, "main.py", "-b", "64"]
    assert main(["run", "--out", "out", "--repeats", "1", "--", *command]) in (0, 1)

    (run,) = runs(json.loads((tmp_path / "out" / "results.json").read_text()))
    assert run["measurement"]["unit"] == "images/s"
    assert run["measurement"]["throughput"] == pytest.approx(64 / 0.02, rel=0.15)


IMAGENET = """
import time
print("=> creating model 'resnet50'")
began = time.perf_counter()
for step in range(60):
    at = time.perf_counter()
    time.sleep(0.02)
    took, mean = time.perf_counter() - at, (time.perf_counter() - began) / (step + 1)
    print(f"Epoch: [0][{step:4}/5005]\\tTime {took:6.3f} ({mean:6.3f})\\tData  0.001 ( 0.002)\\tLoss 6.98 (7.0)\\tA")
"""


def test_a_command_on_several_devices_runs_as_it_is(tmp_path: Path) -> None:
    _, results = measured(tmp_path, "--style nanogpt", "--repeats", "1", "--devices", "2")

    (case,) = results["cases"]
    assert (case["id"], case["outcome"]) == ("mlp-1n2g", "ok")


def test_records_that_arrive_at_once_have_no_window() -> None:
    assert ArrivalClock(np.full(60, 1.78e9)).window(20, 40) is None
    assert ArrivalClock(np.array([1.0, 2.0, 4.0])).window(1, 2) == (1.0, 4.0)


def test_an_exit_code_of_1_for_doubtful_work_names_the_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--style counter --batch-size 256 --steps 600"
    code, _ = measured(tmp_path, words, "--repeats", "1", "--work-per-step", "256", "--unit", "samples/s")

    assert code == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("exit code 1: the work of mlp is not certain (guessed")


def test_results_can_be_read_when_the_program_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for out in ("before", "after"):
        measured(source, "--style nanogpt", "--repeats", "1")
        (source / "out").rename(tmp_path / out)
    os.chdir(tmp_path)
    shutil.rmtree(source)
    capsys.readouterr()

    assert main(["compare", "before", "after"]) in (0, 1)
    assert main(["report", "after"]) == 0
    assert "tokens/s" in capsys.readouterr().out


def test_results_can_be_read_when_a_card_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(tmp_path, "--style nanogpt", "--repeats", "1")
    (tmp_path / "out" / "card.yaml").unlink()
    capsys.readouterr()

    assert main(["compare", "out", "out"]) in (0, 1)
    assert "mlp" in capsys.readouterr().out


def test_a_required_rate_that_is_not_shown_is_exit_code_1_with_its_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--style nanogpt --batch-size 64 --steps 60"
    code, results = measured(tmp_path, words, "--repeats", "1", "--require", "throughput=1e12 tokens/s")
    assert code == 1
    (found,) = results["findings"]["requirements"]
    assert (found["verdict"], found["required"]) == ("undecided", 1e12)
    printed = capsys.readouterr()
    assert "required    undecided: throughput" in printed.out
    assert "at least 1000000000000 tokens/s is required" in printed.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("speed=3", "write NAME=MINIMUM with one of throughput, per_device, efficiency"),
        ("throughput=3", "must be a rate above 0 with its unit"),
    ],
)
def test_a_requirement_that_cannot_be_read_is_a_usage_error(
    given: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--require", given, "--", sys.executable, "-V"]) == 2
    assert message in capsys.readouterr().err


def test_an_option_of_a_command_is_refused_for_a_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text("name: x\naxes: {nodes: [1]}\n")
    for option in (["--repeats", "5"], ["--require", "efficiency=0.9"], ["--baseline", "before"]):
        assert main(["run", str(suite), *option]) == 2
        assert f"{option[0]}: is for a command after '--'" in capsys.readouterr().err
