"""What a command that is refused leaves in the folder of ``--out``: what was there."""

import sys
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.cli.run_options import CommandOptions
from trainmark.cli.suite_input import command_suite, default_directory
from trainmark.errors import InputError
from trainmark.schema.names import COMMAND_CARD, COMMAND_SUITE, SUITE

ONE = [sys.executable, "train.py", "--lr", "0.1"]
OTHER = [sys.executable, "train.py", "--lr", "0.2"]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('step 1')\n")
    return tmp_path


@pytest.fixture
def result(folder: Path) -> Path:
    """A result directory of the command ``ONE``, without its runs."""
    found = command_suite(ONE, CommandOptions(), folder)
    (found.write(folder / "out").parent / SUITE).write_text("name: mlp\n")
    return folder / "out"


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_a_refused_command_leaves_the_documents_of_the_results(
    result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(result)
    for options in ([], ["--resume"]):
        assert main(["run", *options, "--out", "out", "--", *OTHER]) == 2
    assert main(["run", "--resume", "--skip", "30", "--out", "out", "--", *ONE]) == 2

    assert "out/command.yaml itself to continue it" in capsys.readouterr().err
    assert contents(result) == before


def test_a_folder_that_is_no_result_directory_keeps_its_own_card(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / COMMAND_CARD).write_text("name: precious\n")

    assert main(["run", "--out", ".", "--", *ONE]) == 2

    assert "is neither empty nor a result directory; give another --out" in capsys.readouterr().err
    assert (folder / COMMAND_CARD).read_text() == "name: precious\n"
    assert not (folder / COMMAND_SUITE).exists()


def test_a_wrong_option_leaves_no_documents_so_the_folder_is_free_for_the_right_one(folder: Path) -> None:
    assert main(["run", "--unit", "parsecs", "--out", "out", "--", *ONE]) == 2
    assert list((folder / "out").iterdir()) == []


def test_limits_can_be_raised_and_return_if_the_call_is_refused(result: Path) -> None:
    before = contents(result)
    found = command_suite(ONE, CommandOptions(timeout=7200), result.parent)
    assert "timeout_s: 7200" in found.write(result).read_text()

    (result / COMMAND_SUITE).write_text(before[COMMAND_SUITE])
    with pytest.raises(InputError), found.stored(result):
        raise InputError("refused")
    assert contents(result) == before


def test_more_runs_are_a_change_that_a_result_may_have_later(result: Path) -> None:
    found = command_suite(ONE, CommandOptions(repeats=6), result.parent)
    assert "repeats: 6" in found.write(result).read_text()

    with pytest.raises(InputError, match="belongs to another suite or command"):
        command_suite(ONE, CommandOptions(until_half_width=0.01), result.parent).write(result)


def test_two_programs_in_turn_need_an_empty_folder(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(result)
    assert main(["run", "--against", " ".join(OTHER), "--out", "out", "--", *ONE]) == 2
    assert "out: is not empty; give another --out" in capsys.readouterr().err
    assert contents(result) == before
    assert not (result / "a").exists()


def test_a_bisection_needs_an_empty_folder(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "--vary", "lr=0.1,0.2", "--out", "out", "--", *ONE[:3], "{lr}"]) == 2
    assert "out: is not empty; give another --out" in capsys.readouterr().err


def test_the_default_directory_is_one_that_does_not_exist(folder: Path) -> None:
    first = default_directory("mlp")
    (folder / first / "a").mkdir(parents=True)
    assert default_directory("mlp") != first
