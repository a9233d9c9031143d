"""Machines without a network, without UTF-8, with a full disk or a narrow terminal, and commands that name nothing."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections import namedtuple
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.environment.creation import unreachable_index
from trainmark.printable import fit

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "results" / "h200"
LOG = "".join(f"iter {step}: loss 2.{step:04}, time 100.00ms, mfu 10.0%\n" for step in range(60))

NO_NETWORK = """\
WARNING: Retrying (Retry(total=1, connect=None)) after connection broken by 'NewConnectionError("<conn>: Failed to \
establish a new connection: [Errno 101] Network is unreachable")': /simple/filelock/
WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError("<conn>: Failed to \
establish a new connection: [Errno 101] Network is unreachable")': /simple/filelock/
ERROR: Could not find a version that satisfies the requirement filelock==4.2.11 (from versions: none)
ERROR: No matching distribution found for filelock==4.2.11
"""


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def suite(text: str) -> str:
    Path("suite.yaml").write_text(f"name: one\naxes: {{batch_per_device: [8]}}\n{text}\n")
    return "suite.yaml"


def test_without_a_network_the_index_is_named_and_not_the_lock(tmp_path: Path) -> None:
    log = tmp_path / "pip.log"
    log.write_text("an earlier installation\n" + NO_NETWORK)

    found = unreachable_index(log, len("an earlier installation\n"))

    assert found is not None
    assert found.startswith("the package index cannot be reached (Network is unreachable): check the network")
    assert unreachable_index(log, log.stat().st_size) is None
    log.write_text(NO_NETWORK.replace("total=0", "total=3"))
    assert unreachable_index(log, 0) is None


@pytest.mark.process
def test_pip_without_an_index_is_reported_as_that(tmp_path: Path) -> None:
    from trainmark.environment.creation import Installer
    from trainmark.errors import TrainmarkError

    pytest.importorskip("pip")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    installer = Installer(tmp_path / "venv", tmp_path / "pip.log")

    with pytest.raises(TrainmarkError) as caught:
        installer.install(
            ["--retries=1", "--no-deps", "--index-url=http://127.0.0.1:9/simple", "tinypackage==1.0"],
            index=None,
            hint="the lock is wrong",
        )

    assert "the package index cannot be reached (Connection refused)" in str(caught.value)
    assert "the lock is wrong" not in str(caught.value)


def test_a_full_disk_is_found_before_anything_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**10, 10**10 - 10**8, 10**8))

    assert main(["env", "create", "jax", "--variant", "cpu", "--root", str(tmp_path / "envs")]) == 1

    error = capsys.readouterr().err
    assert "'jax' (cpu) takes 0.9 GB, but only 0.1 GB are free there" in error or "no Python found" in error


@pytest.mark.process
@pytest.mark.parametrize("words", [("compare", STORED, STORED), ("report", STORED, "--to", "md")])
def test_a_locale_without_utf_8_gives_similar_signs_and_no_traceback(words: tuple[object, ...]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "trainmark", *map(str, words)],
        env=os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
    )

    assert ran.returncode in (0, 1), ran.stderr
    assert b"Traceback" not in ran.stderr
    assert len(ran.stdout) > 500


@pytest.mark.process
def test_json_in_a_locale_without_utf_8_is_exact(tmp_path: Path) -> None:
    (tmp_path / "†.log").write_text(LOG)
    command = [sys.executable, "-m", "trainmark", "parse", "†.log", "--json"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": str(ROOT / "src")}

    ran = subprocess.run(command, env=environment, capture_output=True, check=False)

    assert b'"log": "\\u2020.log"' in ran.stdout


def test_plan_fails_for_an_interpreter_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", suite("environment: ./nopython")]) == 1

    assert "nopython: no such interpreter (environment)" in capsys.readouterr().out


def test_plan_fails_for_an_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", suite("environment: system\ndefaults: {model: resnet51}")]) == 1

    assert "has no model 'resnet51'; did you mean 'resnet50_v1.5'?" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--to", "pdf"], ["--lang", "fr"]])
def test_a_choice_that_there_is_not_is_named_without_the_name_of_an_exception(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "DIR", *words]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"trainmark report: Invalid value for '{words[0]}': '{words[1]}' is not one of '")
    assert error.count("\n") == 1


def test_a_report_of_a_file_that_is_no_result_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", suite("environment: system"), "--to", "md"]) == 2

    assert capsys.readouterr().err.endswith("suite.yaml: neither a result directory nor a database of runs\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--gpus", "8", "--", "python"), "no option '--gpus'; did you mean '--devices'?"),
        (("run", "--repeat", "2", "--", "python"), "no option '--repeat'; did you mean '--repeats'?"),
        (("suites",), "add a command: list, show, copy"),
        (("env", "lst"), "No such command 'lst'. Did you mean 'list'?"),
        (("compare", "one"), "add the candidate after one, or compare the cases of this one that differ in"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_names_the_right_one(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(words)) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_mistyped_result_directory_is_answered_with_the_nearest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results" / "first").mkdir(parents=True)
    (tmp_path / "results" / "first" / "results.json").write_text("{}")
    monkeypatch.chdir(tmp_path)

    for words in (["report", "results/frist"], ["history", "results/frist"], ["site", "results/frist"]):
        assert main([*words, *(["--out", "pages"] if words[0] == "site" else [])]) == 2
        assert (
            "results/frist: no such result directory or database; did you mean 'results/first'?\n"
            in capsys.readouterr().err
        )


def test_a_validators_message_has_no_name_of_an_exception() -> None:
    sources = [
        (path, line)
        for path in (ROOT / "src" / "trainmark").rglob("*.py")
        if "worker" not in path.parts
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"""\[["']msg["']\]""", line)
    ]

    assert [
        line for _, line in sources if "plain_message(" not in line and 'details["msg"]' not in line
    ] == []


def test_help_of_a_verb_is_that_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "run"]) == 0
    assert capsys.readouterr().out.startswith("Usage: trainmark run ")
    assert main(["help", "nothing"]) == 2


def test_only_names_the_values_that_the_cases_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(ROOT / "suites" / "demo.yaml"), "--only", "precision=fp64"]) == 2

    error = capsys.readouterr().err
    assert "--only precision=fp64: no case has this value; did you mean 'fp32'?" in error
    assert "(precision of the cases: fp32, amp-bf16)" in error


def on_a_terminal(columns: int, *words: str) -> list[str]:
    """Run a command on a terminal of so many columns; return the lines that it prints there."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    with subprocess.Popen(
        [sys.executable, "-m", "trainmark", *words],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env=environment | {"PYTHONPATH": str(ROOT / "src")},
    ):
        os.close(follower)
        text = b""
        while True:
            try:
                text += os.read(leader, 65536)
            except OSError:
                break
    os.close(leader)
    return text.decode().replace("\r", "").splitlines()


@pytest.mark.process
@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_the_terminal(columns: int, tmp_path: Path) -> None:
    (tmp_path / "a-log-with-a-name-that-is-longer-than-most.log").write_text(LOG)

    for words in (("env", "list"), ("suites", "list"), ("parse", ".")):
        lines = on_a_terminal(columns, *words)
        table = [line for line in lines if not re.search(r": (note|doubt|the) |^in ", line)]
        assert [line for line in table if len(line) > columns] == [], words
        assert len(lines) > 3


@pytest.mark.process
def test_a_comparison_fits_the_terminal() -> None:
    lines = on_a_terminal(80, "compare", str(STORED), str(STORED))

    assert any(line.startswith("  baseline") for line in lines)
    blocks = [line for line in lines if line.startswith(("  baseline ", "  candidate ", "  ratio "))]
    assert [line for line in blocks if len(line) > 80] == []


def test_cells_are_wrapped_before_rows_become_blocks() -> None:
    lines = [("name", "what it is"), ("one", "a b c d e f g h i j k l m n o p q r"), ("two", "x")]

    wrapped, blocks = fit(lines, [False, False], 30), fit(lines, [False, True], 20)

    assert fit(lines, [False, False], 100) is None
    assert wrapped is not None
    assert max(map(len, wrapped)) <= 30
    assert wrapped[0].split() == ["name", "what", "it", "is"]
    assert blocks is not None
    assert blocks[0] == "one"
    assert max(map(len, blocks)) <= 20 + 10


@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_quiet_prints_results_and_errors_only(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.log").write_text(LOG)

    assert main([flag, "init", "new.yaml"]) == 0
    assert capsys.readouterr().err == ""
    assert main([flag, "plan", "none.yaml"]) == 2
    assert "trainmark plan: none.yaml: cannot be read" in capsys.readouterr().err


def test_verbose_prints_where_an_error_was_raised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-v", "plan", "none.yaml"]) == 2

    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.endswith("trainmark plan: none.yaml: cannot be read: No such file or directory\n")
    assert main(["-q"]) == 2
