"""The check of commit messages, and that pre-commit runs it."""

import subprocess
from pathlib import Path

import pytest
import yaml

from commit_message import find_problems, main

ROOT = Path(__file__).parents[2]

GOOD = (
    "logs: read timm 1.0\n\nIts lines have a new field, which the pattern refused.\n",
    "schema, tasks: names of the field\n\nThe old names had to be looked up\nby every reader.\n",
    "README: one screen\n\nNewcomers left before the first command.\n".lower(),
    "ci: cache environments\n\nCreating them takes ten minutes of each job.\n\nSigned-off-by: A <a@example.org>\n",
    "gpus: pin the driver\n\nOutput of the failing run:\n\n    " + "x" * 100 + "\n",
    "docs: link the paper\n\nThe formula comes from\nhttps://example.org/" + "x" * 80 + "\n",
    "logs: read timm 1.0\n\nThe pattern refused a new field.\n# Please enter the commit message\n",
    "logs: read timm\n\nThe pattern refused it.\n# ------------------------ >8 ------------------------\ndiff\n",
    "Merge branch 'formats'\n",
    "fixup! logs: read timm 1.0\n",
)


@pytest.mark.parametrize("message", GOOD, ids=lambda text: text.splitlines()[0])
def test_a_good_message_has_no_problem(message: str) -> None:
    assert find_problems(message) == []


BODY = "\n\nThe pattern refused a new field.\n"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        ("logs: " + "x" * 67 + BODY, "73 characters"),
        ("Read timm 1.0" + BODY, "'area: what changes'"),
        ("Logs read timm: better" + BODY, "'area: what changes'"),
        ("logs:read timm" + BODY, "'area: what changes'"),
        ("logs: read timm." + BODY, "full stop"),
        ("logs: read timm\n", "body is missing"),
        ("logs: read timm\n\nSigned-off-by: A <a@example.org>\n", "body is missing"),
        ("logs: read timm\nThe pattern refused a new field.\n", "second line"),
        ("logs: read timm\n\nFix.\n", "too short"),
        ("logs: read timm\n\n" + "word " * 20 + "\n", "wrap the body"),
    ],
)
def test_a_bad_message_is_refused_with_what_to_do(message: str, words: str) -> None:
    assert words in " / ".join(find_problems(message))


def test_a_subject_of_72_characters_is_accepted() -> None:
    assert find_problems("logs: " + "x" * 66 + BODY) == []


def test_the_file_that_git_passes_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "COMMIT_EDITMSG"
    path.write_text("Read timm" + BODY, encoding="utf-8")

    assert main([str(path)]) == 1
    assert "COMMIT_EDITMSG: the subject must have the form" in capsys.readouterr().err
    path.write_text("logs: read timm" + BODY, encoding="utf-8")
    assert main([str(path)]) == 0
    assert main([]) == 2


def test_a_range_is_checked_without_its_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "core.hooksPath=/dev/null", *words], check=True, capture_output=True)

    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "before the rule")
    git("checkout", "-b", "side")
    git("commit", "--allow-empty", "-m", "logs: read timm" + BODY)
    git("checkout", "main")
    git("commit", "--allow-empty", "-m", "docs: say why" + BODY)
    git("merge", "--no-ff", "-m", "some merge", "side")

    assert main(["--range", "HEAD~2..HEAD"]) == 0
    git("commit", "--allow-empty", "-m", "no area here" + BODY)
    assert main(["--range", "HEAD~1..HEAD"]) == 1
    assert "no area" not in capsys.readouterr().out


def test_pre_commit_runs_the_check_at_its_stage() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = {hook["id"]: hook for repository in config["repos"] for hook in repository["hooks"]}

    assert "commit-msg" in config["default_install_hook_types"]
    assert config["default_stages"] == ["pre-commit"]
    assert hooks["commit-message"]["stages"] == ["commit-msg"]
    assert hooks["commit-message"]["entry"].split()[-1] == "scripts/commit_message.py"
