"""Candidates of a bisection in a real git repository: commits, worktrees, builds that fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.bisection import Search, Workshop, commits_between, listed, render_bisection
from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.schema.bisection import Bisection, CandidateKind, MeasuredRun, Skipped

COMMITS, CULPRIT, BROKEN = 40, 27, (19, 20)
IDENTITY = {
    "GIT_AUTHOR_NAME": "n",
    "GIT_AUTHOR_EMAIL": "n@x",
    "GIT_COMMITTER_NAME": "n",
    "GIT_COMMITTER_EMAIL": "n@x",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **IDENTITY},
    )
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository of 40 commits: number 27 makes the program a tenth slower, 19 and 20 do not compile."""
    folder = tmp_path_factory.mktemp("program")
    git(folder, "init", "-q")
    for number in range(COMMITS):
        work = 100 if number < CULPRIT else 110
        text = f"def broken{number}(:" if number in BROKEN else f"# {number}\nWORK = {work}\n"
        (folder / "model.py").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"change {number}")
    return folder


def test_commits_are_in_order_from_the_good_to_the_bad_one(repository: Path) -> None:
    found = commits_between(repository, f"HEAD~{COMMITS - 1}", "HEAD")

    assert [one.label.partition(" ")[2] for one in found] == [f"change {number}" for number in range(COMMITS)]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("HEAD", "HEAD", "same commit"),
        ("HEAD", "HEAD~1", "not an ancestor"),
        ("nothing", "HEAD", "git rev-parse"),
        ("--help", "HEAD", "not a commit"),
    ],
)
def test_commits_that_are_no_range_are_refused(repository: Path, good: str, bad: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        commits_between(repository, good, bad)


def test_the_slow_commit_is_found_in_a_repository_and_the_broken_one_skipped(
    repository: Path, tmp_path: Path
) -> None:
    candidates = commits_between(repository, f"HEAD~{COMMITS - 1}", "HEAD")
    bisection = Bisection(
        kind=CandidateKind.COMMIT,
        candidates=candidates,
        command=("python", "train.py"),
        build=(sys.executable, "-m", "py_compile", "model.py"),
    )
    workshop, search = Workshop(tmp_path, repository, bisection), Search(bisection)
    while (candidate := search.next_candidate()) is not None:
        try:
            prepared = workshop.prepare(candidate)
        except Exception as error:
            search.add(Skipped(candidate=candidate, reason=str(error)))
            continue
        work = int((prepared.folder / "model.py").read_text().rpartition("=")[2])
        noise = 1 + 0.002 * (len(search.state.runs) % 5 - 2)
        search.add(MeasuredRun(candidate=candidate, rate=1e5 / work * noise, unit="samples/s", directory=""))
    search.end()

    text = render_bisection(search.state)
    assert f"change {CULPRIT}  <- first bad" in text
    assert search.skipped
    assert search.skipped <= set(BROKEN)
    assert all("py_compile model.py failed" in one.reason for one in search.state.skipped)
    assert len(search.state.runs) <= 20
    workshop.remove_trees()
    assert git(repository, "worktree", "list").count("\n") == 1


def test_values_keep_their_order_and_become_names_of_folders() -> None:
    name, found = listed("--vary", "lr=0.1,1e-3,a/b")

    assert name == "lr"
    assert [one.name for one in found] == ["0.1", "1e-3", "a_b"]
    assert [one.label for one in found] == ["lr=0.1", "lr=1e-3", "lr=a/b"]


@pytest.mark.parametrize("text", ["lr", "lr=", "lr=1", "=1,2", "lr=1,1", "lr=1,,2"])
def test_a_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--vary"):
        listed("--vary", text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--good", "a", "--bad", "b"], "give the command to measure after '--'"),
        (["--", "python", "train.py"], "give either --good and --bad"),
        (["--good", "a", "--", "python"], "give either --good and --bad"),
        (["--good", "a", "--bad", "b", "--vary", "x=1,2", "--", "python"], "give either --good and --bad"),
        (["--vary", "x=1", "--", "python"], "two values or more"),
        (["--vary", "x=1,2", "--build", "'", "--", "python"], "--build: No closing quotation"),
        (["--vary", "x=1,2", "--out", "{old}", "--", "python"], "continue it with --resume"),
        (
            ["--vary", "x=1,2", "--out", "{old}", "--resume", "--", "python"],
            "not a bisection of this version",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bisect.json").write_text("{}")

    assert main(["bisect", *(word.format(old=tmp_path) for word in words)]) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_another_question_is_not_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, candidates = listed("--vary", "x=1,2,3")
    before = Bisection(kind=CandidateKind.VALUE, candidates=candidates, command=("python", "other.py"))
    (tmp_path / "bisect.json").write_text(before.model_dump_json())

    words = ["--vary", "x=1,2,3", "--out", str(tmp_path), "--resume"]
    assert main(["bisect", *words, "--", "python", "train.py"]) == 2

    assert "is a bisection of something else" in capsys.readouterr().err


@pytest.mark.rare
def test_the_slow_value_of_an_axis_is_found_by_runs_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import sys\n"
        "rate = 1000 if int(sys.argv[1]) < 3 else 800\n"
        "for step in range(1, 21):\n"
        "    print(f'step {step} loss 1.0 throughput: {rate + step % 3:.2f} samples/s', flush=True)\n"
    )
    monkeypatch.chdir(tmp_path)

    words = ["--vary", "depth=1,2,3,4", "--run", "--skip 2", "--json"]
    code = main(["bisect", *words, "--", sys.executable, "train.py", "{depth}"])

    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert found["verdict"]["culprits"] == [2]
    assert json.loads((tmp_path / "bisect" / "bisect.json").read_text()) == found


REAL = """
import random
from model import WORK
# The rate follows from the commit's work, with a spread of 2 %: processor time on a shared machine can double for a
# while, which the simulations of noise are for.
rate = 1000 / WORK * random.gauss(1, 0.02)
for step in range(1, 13):
    print(f"step {step} loss 1.0 throughput: {rate * random.gauss(1, 0.005):.3f} samples/s", flush=True)
"""


@pytest.mark.rare
def test_the_slow_commit_among_forty_is_found_by_real_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    git(folder, "init", "-q")
    for number in range(COMMITS):
        work = 100 if number < CULPRIT else 140
        text = f"def broken{number}(:" if number in BROKEN else f"# {number}\nWORK = {work}\n"
        (folder / "model.py").write_text(text)
        (folder / "train.py").write_text(REAL)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"change {number}")
    monkeypatch.chdir(folder)

    words = [
        "--good",
        f"HEAD~{COMMITS - 1}",
        "--bad",
        "HEAD",
        "--build",
        f"{sys.executable} -m py_compile model.py",
    ]
    words += ["--run", "--skip 2", "--out", str(tmp_path / "out"), "--json"]
    code = main(["bisect", *words, "--", sys.executable, "train.py"])

    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert found["verdict"]["culprits"] == [CULPRIT]
    assert len(found["runs"]) <= 5 * 8 / 2
    assert git(folder, "worktree", "list").count("\n") == 1
