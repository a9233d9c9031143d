"""``trainmark card``: a card from a command, its check, and the shipped cards."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from foreign_cards import PROGRAM, written
from trainmark.cli.main import main
from trainmark.workload import read_card

WORDS = [sys.executable, "train.py", "--style", "nanogpt", "--steps", "120", "--batch-size", "64"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trainer").mkdir()
    monkeypatch.chdir(tmp_path / "trainer")
    shutil.copy(PROGRAM, "train.py")
    return tmp_path / "trainer"


@pytest.mark.process
def test_a_command_becomes_a_card_that_a_suite_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "new", "--", *WORDS]) == 0

    text = (folder / "trainer.yaml").read_text()
    card = read_card(folder / "trainer.yaml").card
    assert (card.name, card.log_format, card.task) == ("trainer", "nanogpt", "program")
    assert card.working_directory == str(folder)
    assert text.count("# ") > 10
    assert "work_per_step" not in text, "the log prints it"
    assert str(folder) not in text.partition("name: trainer")[2].replace(sys.executable, "")
    assert "its run gave" in capsys.readouterr().out
    # The suite in its head runs it.
    head = [line[4:] for line in text.splitlines() if line.startswith("#   ")]
    suite = yaml.safe_load("\n".join(head)) | {"cards": ["trainer.yaml"], "protocol": {"repeats": 1}}
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    assert main(["run", "suite.yaml", "--out", "out"]) in (0, 1)
    (case,) = json.loads((folder / "out" / "results.json").read_text())["cases"]
    assert case["runs"][0]["measurement"]["unit"] == "tokens/s"

    assert main(["card", "new", "--", *WORDS]) == 2
    assert "trainer.yaml exists" in capsys.readouterr().err


@pytest.mark.process
def test_a_command_without_a_number_still_becomes_a_card(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["card", "new", "--name", "mute", "--", *WORDS[:2], "--fail", "refuse"]) == 1

    assert "mute.yaml: written, but its run gave no number: " in capsys.readouterr().out
    assert read_card(folder / "mute.yaml").card.log_format == "auto"


@pytest.mark.process
def test_a_check_shows_what_is_read_and_what_is_not_known(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["{source}/train_mlp.py", "--style=nanogpt", "--steps=200"]
    written(folder, command=command, fixed={"precision": "fp32"})
    code = main(
        ["card", "check", "card.yaml", "--set", "batch_per_device=64", "--environment", sys.executable]
    )

    printed = capsys.readouterr().out
    assert code in (0, 1)
    assert "run: ok" in printed
    assert "mark: matches 20" in printed
    assert "iter 0: loss" in printed
    assert "unverified: " in printed
    assert "precision fp32" in printed
    assert "not known: data, loader, compiler: " in printed


def test_a_check_runs_the_command_in_its_own_python(folder: Path) -> None:
    (python := folder.parent / "other" / "bin" / "python").parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    card = {
        "name": "trainer",
        "description": "python train.py",
        "framework": "unknown",
        "task": "program",
        "environment": "system",
        "source": {"kind": "files", "files": ["train.py"]},
        "launcher": "command",
        "working_directory": "./",
        "log_format": "nanogpt",
        "command": [str(python), "train.py"],
        "axes": {"nodes": {}, "devices_per_node": {}},
    }
    Path("trainer.yaml").write_text(yaml.safe_dump(card))

    assert main(["card", "check", "--dry", "--out", "trial", "trainer.yaml"]) == 0
    assert yaml.safe_load(Path("trial/suite.yaml").read_text())["environment"] == str(python)

    assert main(["card", "check", "--dry", "--out", "trial", "--environment", "pytorch", "trainer.yaml"]) == 0
    assert yaml.safe_load(Path("trial/suite.yaml").read_text())["environment"] == "pytorch"


def test_a_check_names_a_mistake_with_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(folder, log_format="nanogtp")
    assert main(["card", "check", "--dry", "card.yaml"]) == 2
    assert "card.yaml:" in (printed := capsys.readouterr().err)
    assert "did you mean 'nanogpt'" in printed

    written(folder)
    assert main(["card", "check", "--dry", "card.yaml", "--set", "bach=1"]) == 2
    assert "'bach' is not an axis or option" in capsys.readouterr().err
    assert main(["card", "check", "--dry", "card.yaml"]) == 0


def test_shipped_cards_are_listed_and_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "list"]) == 0
    assert "pytorch-examples-imagenet" in capsys.readouterr().out

    assert main(["card", "show", "gluon-cv"]) == 0
    (folder / "mine.yaml").write_text(capsys.readouterr().out)
    assert read_card(folder / "mine.yaml").card.name == "gluon-cv"

    assert main(["card", "show", "trainmark", "--framework", "jax", "--task", "causal-lm"]) == 0
    (folder / "own.yaml").write_text(capsys.readouterr().out)
    assert read_card(folder / "own.yaml").card.framework == "jax"


def test_an_unknown_card_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "show", "gluoncv"]) == 2
    assert "did you mean 'gluon-cv'" in capsys.readouterr().err
    assert main(["card", "show", "trainmark"]) == 2
    assert "--framework jax --task causal-lm" in capsys.readouterr().err


@pytest.mark.process
def test_a_card_of_lines_without_a_time_proposes_their_format_and_its_check_agrees(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = "for i in range(80):\n    time.sleep(0.05)\n"
    lines = f"import time\n{loop}    print(f'[{{i // 40 + 1}}, {{i % 40 + 1:5d}}] loss: 2.3', flush=True)\n"
    (folder / "loop.py").write_text(lines)
    assert main(["card", "new", "--", sys.executable, "loop.py"]) in (0, 1)
    text = (folder / "loop.yaml").read_text()
    proposed = text.partition("to be corrected:\n")[2].partition("log_format: auto\n")[0]
    assert proposed
    assert "{stamp}" not in proposed
    stated = text.replace("# work_per_step:", "work_per_step:").replace("# unit:", "unit:")
    (folder / "stated.yaml").write_text(stated)
    assert (read_card(folder / "stated.yaml").card.work_per_step, "unit: samples/s" in stated) == (32, True)
    described = yaml.safe_load("\n".join(line[4:] for line in proposed.splitlines()))
    (folder / "loop.yaml").write_text(text.replace("log_format: auto", yaml.safe_dump(described).rstrip()))
    capsys.readouterr()

    assert main(["card", "check", "loop.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "steps/s by the rule 'window'" in printed
    assert "the lines alone give no number: the run is timed by their arrival" in printed
    assert "doubt" not in printed
