"""``trainmark suites``, ``init`` and ``completion``, and the man page."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from trainmark.cli.command_tree import command_tree
from trainmark.cli.main import VERBS, main

ROOT = Path(__file__).parents[2]
SUITES = sorted(path.stem for path in (ROOT / "suites").glob("*.yaml"))


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_page_that_is_not_named_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion"]) == 2

    error = capsys.readouterr().err
    assert "Choose from: bash, zsh, fish, man" in error
    assert error.count("\n") == 1


def test_all_suites_are_listed_with_a_description(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suites", "list", "--json"]) == 0

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == SUITES
    assert [row["name"] for row in rows if len(row["description"]) < 10] == []


def test_a_suite_is_shown_and_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "suites" / "demo.yaml").read_text(encoding="utf-8")

    assert main(["suites", "show", "demo"]) == 0
    assert capsys.readouterr().out == text
    assert main(["suites", "copy", "demo"]) == 0
    assert (tmp_path / "demo.yaml").read_text(encoding="utf-8") == text
    assert main(["suites", "copy", "demo"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["suites", "copy", "demo", "--force"]) == 0


def test_an_unknown_suite_has_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suites", "show", "dmo"]) == 2

    assert "no suite 'dmo'; did you mean 'demo'?" in capsys.readouterr().err


def test_the_help_of_completion_has_commands_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "--help"]) == 0

    assert "> ~/.local/share/bash-completion/completions/trainmark\n" in capsys.readouterr().out


def test_a_new_suite_is_one_that_plan_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_HOME", str(tmp_path / "home"))
    assert main(["init", "mine.yaml", "--framework", "pytorch"]) == 0
    written = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    assert main(["init", "mine.yaml"]) == 2

    errors = capsys.readouterr().err
    steps = ("env create pytorch", "check mine.yaml", "run mine.yaml")
    assert f"next: {', then '.join(f'trainmark {step}' for step in steps)}\n" in errors
    assert "exists already" in errors
    assert written.startswith("# A suite for this machine (")
    from trainmark.cli.suite_input import read_suite

    suite = read_suite(tmp_path / "mine.yaml")
    assert suite.name == "mine"
    assert {case.framework for case in suite.cases} == {"pytorch"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--model resnet51", "no model 'resnet51'; did you mean 'resnet50_v1.5'?"),
        ("--framework pytroch", "did you mean 'pytorch'?"),
        ("--precision fp31", "no precision 'fp31'; did you mean 'fp32'?"),
        ("--precision ,", "names no precision"),
        ("--batch 0", "greater than or equal to 1"),
    ],
)
def test_what_init_cannot_use_is_one_line(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *words.split()]) == 2

    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_tree_has_every_verb_and_the_options_of_its_commands() -> None:
    tree = {one.words: one for one in command_tree()}

    assert {words[0] for words in tree} == set(VERBS)
    assert "--format" in tree[("parse",)].flags
    assert "--extra" in tree[("env", "create")].flags
    assert "list" in tree[("suites",)].commands


@pytest.mark.process
@pytest.mark.parametrize(
    ("shell", "line", "expected"),
    [
        ("bash", "trainmark com", {"compare", "completion"}),
        ("bash", "trainmark env cr", {"create"}),
        ("bash", "trainmark env create --ex", {"--extra"}),
        ("bash", "trainmark parse --fo", {"--follow", "--format"}),
        ("fish", "trainmark com", {"compare", "completion"}),
        ("fish", "trainmark env cr", {"create"}),
        ("fish", "trainmark parse --fo", {"--follow", "--format"}),
    ],
)
def test_a_shell_completes_a_line(
    shell: str, line: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    words = line.split()
    program = {
        "bash": f"source ./script; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _trainmark; "
        "printf '%s\\n' \"${COMPREPLY[@]}\"",
        "fish": f"source ./script; complete -C '{line}'",
    }[shell]

    ran = subprocess.run([shell, "-c", program], capture_output=True, text=True, check=True)

    assert {text.split("\t")[0] for text in ran.stdout.splitlines()} == expected


@pytest.mark.process
def test_the_script_of_zsh_is_one_that_zsh_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    (tmp_path / "_trainmark").write_text(script)

    subprocess.run(["zsh", "-n", "_trainmark"], check=True)
    loaded = "autoload -Uz compinit; fpath=($PWD $fpath); compinit -u -D; print $_comps[trainmark]"
    ran = subprocess.run(["zsh", "-fc", loaded], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "_trainmark"


def test_the_man_page_has_every_verb_and_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "man"]) == 0
    page = capsys.readouterr().out

    assert [verb for verb in VERBS if f".SS trainmark {verb}\n" not in page] == []
    if shutil.which("man") is not None:
        (tmp_path / "trainmark.1").write_text(page)
        subprocess.run(["man", "-l", "trainmark.1"], capture_output=True, check=True)


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_the_name_of_a_suite_that_comes_with_trainmark_is_answered_with_the_command_that_copies_it(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb, "gpu"]) == 2
    assert capsys.readouterr().err == (
        f"trainmark {verb}: gpu: no such file; 'gpu' comes with trainmark: trainmark suites copy gpu gpu.yaml\n"
    )
