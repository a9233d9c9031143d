"""Programs with a planted cause, started for real: the cause is named first, in terminal, results, report, explain."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fakes import PROGRAMS
from trainmark.cli.main import main

pytestmark = pytest.mark.process

PROGRAM = PROGRAMS / "command" / "bound.py"
RANKS = PROGRAMS / "command" / "ranks.py"


def measured(
    folder: Path, *words: str, options: tuple[str, ...] = (), program: Path = PROGRAM
) -> dict[str, Any]:
    """Measure the program once in ``folder``; return what its case was bound by."""
    command = [sys.executable, str(program), *words]
    main(["run", "--out", str(folder / "out"), "--repeats", "1", *options, "--", *command])
    results = json.loads((folder / "out" / "results.json").read_text())
    (found,) = results["findings"]["bounds"]
    assert found["bound"] == results["cases"][0]["runs"][0]["bound"]["bound"]
    bound: dict[str, Any] = found
    return bound


def shares(found: dict[str, Any]) -> dict[str, float | None]:
    return {check["evidence"]: check["share"] for check in found["checks"]}


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keep ``count`` other processes busy meanwhile."""
    # Each in a session of its own: with autogroups, Linux shares the CPUs among sessions and not among processes.
    words = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(words, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


@pytest.fixture(autouse=True)
def back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_loader_that_sleeps_is_a_wait_for_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(tmp_path, "--load", "0.04", "--work", "0.002", "--times")

    assert found["bound"] == "data-wait"
    assert found["share"] > 0.5
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("bound by    data wait: the program waits for data in ")
    main(["report", str(tmp_path / "out"), "--to", "md"])
    assert f"| data wait | {found['share'] * 100:.1f} % |" in (tmp_path / "out" / "report.md").read_text()
    (run,) = (tmp_path / "out" / "runs").glob("*/1")
    main(["explain", str(run)])
    assert "bound by data wait: the program waits for data in " in capsys.readouterr().out


def test_a_loader_that_nothing_reports_is_never_called_clean(tmp_path: Path) -> None:
    found = measured(tmp_path, "--load", "0.04", "--work", "0.002")

    assert shares(found)["data-wait"] is None
    # Where other load takes all CPUs, that is what the program waits for.
    assert found["bound"] in ("not-known", "host")
    if found["bound"] == "not-known":
        assert "print the time that it waits for data" in found["settle"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU can hold nothing back")
def test_a_program_on_one_core_of_several_is_bound_by_its_host(tmp_path: Path) -> None:
    found = measured(tmp_path, "--pin", "--steps", "80")

    cpus = len(os.sched_getaffinity(0))
    withheld = next(check for check in found["checks"] if check["evidence"] == "cpus-withheld")
    assert f"1 of {cpus} CPUs" in withheld["sentence"]
    assert found["bound"] == "host"


def test_a_busy_neighbour_is_what_the_program_waits_for(tmp_path: Path) -> None:
    with neighbours(2 * len(os.sched_getaffinity(0))):
        found = measured(tmp_path, "--steps", "80")

    assert found["bound"] == "host"
    assert found["sentence"].startswith("the program waits for a CPU in ")
    assert (shares(found)["cpu-shared"] or 0) > 0.2


def test_the_rank_that_waits_for_data_is_named_as_the_cause(tmp_path: Path) -> None:
    found = measured(
        tmp_path, "--fork", "2", "--slow", "1", "--times", options=("--devices", "2"), program=RANKS
    )

    assert found["bound"] == "data-wait"
    assert found["sentence"].startswith("rank 1 waits for data in ")


def test_a_slower_rank_is_what_the_others_wait_for(tmp_path: Path) -> None:
    words = ("--fork", "2", "--slow", "0", "--own-pace")
    found = measured(tmp_path, *words, options=("--devices", "2"), program=RANKS)

    assert (shares(found)["rank-wait"] or 0) > 0.2
    assert any("rank 0 is " in check["sentence"] for check in found["checks"])


def test_a_result_is_compared_with_its_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, str(PROGRAM), "--work", "0.004", "--load"]
    main(["run", "--out", "before", "--repeats", "1", "--", *command, "0.015"])
    capsys.readouterr()
    main(["run", "--out", "now", "--repeats", "1", "--baseline", "before", "--", *command, "0.03"])

    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ratio ")]
    assert line.endswith(", against before")


def test_a_baseline_that_is_no_result_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--out", "out", "--baseline", "none", "--", sys.executable, str(PROGRAM)]) == 2
    assert "--baseline none: no such result directory" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
