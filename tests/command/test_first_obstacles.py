"""What stopped the first users of cards: how a program is started, where, and how it ends its lines."""

import json
import sys
from pathlib import Path

import pytest

from foreign_cards import planned, written
from trainmark.cli.main import main

REDRAWS = """
import sys, time
for step in range(1, 61):
    time.sleep(0.005)
    sys.stdout.write(f"\\riter {step}: loss 1.0000, time 5.00ms, mfu 1.00%")
    sys.stdout.flush()
print()
"""


@pytest.mark.parametrize(("launcher", "starts"), [("torchrun", "torch.distributed.run"), ("process", None)])
def test_one_rank_is_started_by_torchrun_where_the_card_says_so(
    launcher: str, starts: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (case,) = planned(written(tmp_path, launcher=launcher), capsys)

    words = case["commands"][0]["words"]
    assert ("torch.distributed.run" in words) is (starts is not None)
    if starts is not None:
        assert "--nproc-per-node=1" in words


@pytest.mark.parametrize(("where", "folder"), [("source", "program"), ("data", "data"), ("run", None)])
def test_the_program_starts_in_the_folder_that_the_card_names(
    where: str, folder: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    suite = written(tmp_path, working_directory=where)

    assert main(["plan", str(suite)]) == 0

    printed = capsys.readouterr().out
    assert ("cd " in printed) is (folder is not None)
    if folder is not None:
        assert f"cd {tmp_path / folder} && " in printed


@pytest.mark.process
def test_lines_that_a_carriage_return_redraws_are_records(tmp_path: Path) -> None:
    suite = written(tmp_path, command=["{source}/redraws.py"], work_per_step=8, unit="tokens/s")
    (tmp_path / "program" / "redraws.py").write_text(REDRAWS)

    assert main(["run", str(suite), "--out", str(tmp_path / "out")]) in (0, 1)

    (case,) = json.loads((tmp_path / "out" / "results.json").read_text())["cases"]
    (run,) = case["runs"]
    assert run["outcome"] == "ok", run["reason"]
    found = run["measurement"]
    assert found["warmup_steps"] + found["measured_steps"] == 60


DAEMON = """
import os, sys, time
print("the training goes on in the background", flush=True)
if os.fork():
    os._exit(0)
os.setsid()
output = os.open(os.devnull, os.O_WRONLY)
os.dup2(output, 1)
os.dup2(output, 2)
time.sleep(300)
"""


@pytest.mark.process
@pytest.mark.parametrize("words", [(sys.executable, "train.py"), ("sh", "-c", "sleep 300 & echo started")])
def test_a_program_that_goes_on_in_the_background_is_called_that(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told about lines without a rising counter."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(DAEMON)

    assert main(["run", "--out", "out", "--repeats", "1", "--", *words]) == 1

    (case,) = json.loads((tmp_path / "out" / "results.json").read_text())["cases"]
    (run,) = case["runs"]
    left = "the program left with exit code 0 while one process of it went on in the background, until trainmark ended"
    assert (run["outcome"], run["reason"][: len(left)]) == ("invalid", left)
    assert "stay in the foreground" in run["reason"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("python3", "train.py"), "put '--' before a command: trainmark run -- python train.py"),
        (("python3",), "python3: is not a suite's file; put '--' before a command"),
        (("python3 train.py",), "python3 train.py: is not a suite's file; put '--' before a command"),
        (("--", "python3 train.py"), "without quotes around it: trainmark run -- python3 train.py"),
        (("--", "LR=0.1", "python3", "train.py"), "write: env LR=0.1 COMMAND"),
    ],
)
def test_a_command_that_is_given_in_another_form_gets_the_right_one(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 1


@pytest.mark.process
def test_a_keras_program_that_is_ended_within_its_first_epoch_has_a_number(tmp_path: Path) -> None:
    program = tmp_path / "fit.py"
    program.write_text(
        "import time\nprint('Epoch 1/9')\nfor step in range(1, 100000):\n    time.sleep(0.02)\n"
        "    print(f'\\r{step:5}/99999 ━━━━ 9s 20ms/step - loss: 2.3', end='', flush=True)\n"
    )
    out = tmp_path / "out"

    assert main(
        ["run", "--repeats", "1", "--seconds", "6", "--out", str(out), "--", "python3", str(program)]
    ) in (0, 1)

    (case,) = json.loads((out / "results.json").read_text())["cases"]
    (run,) = case["runs"]
    assert run["outcome"] == "ok", run["reason"]
    assert run["measurement"]["unit"] == "steps/s"
    assert run["measurement"]["throughput"] < 50


SILENT = "pass"
BY_EPOCH = """
import time
for epoch in range(1, 13):
    time.sleep(0.1)
    print(f"Epoch {epoch}/12 loss: 1.0", flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "advice"),
    [
        (SILENT, "let it print a line per step, or use trainmark.measure"),
        ("print('x')", "describe its lines"),
    ],
)
def test_a_program_without_a_number_gets_the_way_out_that_fits_what_it_printed(
    program: str, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(program)
    command = ["python3", str(tmp_path / "train.py")]

    assert main(["run", "--repeats", "1", "--out", str(tmp_path / "out"), "--", *command]) == 1

    assert f"if it does train, {advice}" in capsys.readouterr().out


@pytest.mark.process
def test_epochs_that_count_as_steps_have_the_work_of_an_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(BY_EPOCH)
    command = ["python3", str(tmp_path / "train.py")]

    main(["run", "--repeats", "1", "--out", str(tmp_path / "out"), "--", *command])

    printed = capsys.readouterr().out
    assert printed.startswith("epochs/s ")
    assert "so an epoch counts as one step" in printed
    assert "--work-per-step N --unit samples/s, where N is an epoch's samples" in printed
    assert "no known program prints these lines" in printed
    assert "three lines with trainmark.measure, or a callback for Keras, Lightning" in printed
    assert "\nno interval " in printed


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("run", "--", "pyton", "train.py"), "pyton: no such program; the words after '--' are the command"),
        (("run", "--", "python3", "tran.py"), "tran.py: no such file in "),
        (
            ("run", "--", "./train.py"),
            "is not an executable program; write: trainmark run -- python ./train.py",
        ),
        (
            ("run", "train.py"),
            "is a program and no suite's file; measure it by: trainmark run -- python train.py",
        ),
    ],
)
def test_a_program_that_cannot_be_started_is_named_before_anything_runs(
    words: tuple[str, ...],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")

    assert main(list(words)) == 2

    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.process
def test_a_program_that_fails_has_its_output_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('no data')\n")
    out = tmp_path / "out"

    assert (
        main(["run", "--repeats", "1", "--out", str(out), "--", "python3", str(tmp_path / "broken.py")]) == 1
    )

    named = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("output"))
    assert "no data" in Path(named.split(maxsplit=1)[1]).read_text()


@pytest.mark.process
def test_a_doubt_that_every_run_has_is_printed_in_full_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(BY_EPOCH.replace("13", "9"))

    main(
        ["run", "--repeats", "2", "--out", str(tmp_path / "out"), "--", "python3", str(tmp_path / "train.py")]
    )

    progress = capsys.readouterr().err
    assert progress.count("no known program prints these lines") == 1
    assert "suspect: guessed, as before" in progress
    assert progress.count("is accurate only to") <= 1


MEASURED = """
import time
import trainmark
with trainmark.measure(unit="images") as loop:
    for _ in range(30):
        time.sleep(0.01)
        loop.step(8)
"""


@pytest.mark.process
def test_the_report_has_the_steps_of_a_program_that_measures_itself(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MEASURED)
    out = tmp_path / "out"

    main(["run", "--repeats", "1", "--out", str(out), "--", sys.executable, str(tmp_path / "train.py")])

    report = (out / "report.md").read_text()
    assert "10 left out as warm-up, 20 measured." in report
    assert "A run has" not in report
    assert "unknown training" not in report


@pytest.mark.process
def test_a_long_reason_is_printed_in_full_with_its_run_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prints.py").write_text(f"print('{'x' * 190}')")
    command = ["python3", str(tmp_path / "prints.py")]

    assert main(["run", "--repeats", "1", "--out", str(tmp_path / "out"), "--", *command]) == 1

    progress = capsys.readouterr().err.splitlines()
    last = next(line for line in progress if line.startswith("run 1 of prints"))
    assert sum("x" * 190 in line for line in progress) == 1
    assert "xxx…); repeat it with: " in last


ARGUMENTS = (
    "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\nparser.parse_args()\n"
)


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (ARGUMENTS, "unrecognized arguments: --rl"),
        ("print(losss)\n", "NameError: name 'losss' is not defined"),
    ],
)
def test_a_mistake_that_every_run_has_is_made_once(program: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "mistaken.py").write_text(program)
    out = tmp_path / "out"

    assert main(["run", "--out", str(out), "--", "python3", str(tmp_path / "mistaken.py"), "--rl", "1"]) == 1

    (case,) = json.loads((out / "results.json").read_text())["cases"]
    (run,) = case["runs"]
    assert run["outcome"] == "failed"
    assert reason in run["reason"]


@pytest.mark.process
def test_a_training_that_is_too_short_for_its_clock_is_to_be_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short.py").write_text(BY_EPOCH.replace("0.1", "0.011").replace("13", "7"))

    main(
        ["run", "--repeats", "1", "--out", str(tmp_path / "out"), "--", "python3", str(tmp_path / "short.py")]
    )

    printed = capsys.readouterr().out
    assert printed.startswith(
        "no number   invalid: train.log gives no number by the rule 'window': the time stamps"
    )
    assert "what to do  let the program train for more steps or epochs" in printed


def test_a_folder_is_no_suite_but_a_result_directory_names_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"trainmark run: {tmp_path}: is a folder; give the suite's file\n"
    for name in ("suite.yaml", "command.yaml"):
        (tmp_path / name).write_text("name: mine\n")
        assert main(["plan", str(tmp_path)]) == 2
        assert (
            f"give the suite's file; this result directory has {tmp_path / name}" in capsys.readouterr().err
        )
