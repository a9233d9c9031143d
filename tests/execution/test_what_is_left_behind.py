"""What commands leave behind: processes of ranks and of probes, and the folder of a prepare step that broke."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fakes import Bench, alive
from trainmark.environment.resolving import Engine, require_engine, run_script
from trainmark.node import Job, JobOnHost, LocalHost, jobs, run_jobs
from trainmark.node.machine import read_git
from trainmark.node.processes import MARK, marked_pids
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Command
from trainmark.schema.suite import Limits

pytestmark = pytest.mark.process

LEAVES = "setsid sleep 600 & echo $! >>{pids}"


def job(folder: Path, name: str, script: str) -> JobOnHost:
    words = ("/bin/sh", "-c", script.format(pids=folder / "pids"))
    own = folder / name
    return JobOnHost(LocalHost(name), Job((Command(0, words, {}),), own, own / "log", f"{folder}/{name}"))


def left(folder: Path) -> list[int]:
    return [pid for pid in map(int, (folder / "pids").read_text().split()) if alive(pid)]


def test_strays_are_counted_on_the_node_that_left_them(tmp_path: Path) -> None:
    ended = run_jobs([job(tmp_path, "one", "true"), job(tmp_path, "other", LEAVES)], Limits()).ended
    assert {end.index: end.strays for end in ended} == {0: 0, 1: 1}
    assert not left(tmp_path)


def test_ranks_that_are_ended_because_another_node_failed_are_no_strays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GRACE_S", 0.1)
    waiting = "sleep 600 & echo $$ $! >>{pids}; wait"
    carried = run_jobs([job(tmp_path, "one", waiting), job(tmp_path, "other", "exit 3")], Limits())
    assert carried.stopped is None
    assert {end.index: (end.code, end.strays) for end in carried.ended} == {0: (-15, 0), 1: (3, 0)}
    assert not left(tmp_path)


def test_a_process_that_is_becoming_another_program_is_found(tmp_path: Path) -> None:
    """For a moment it has no environment that could be read: on a busy machine one was left behind."""
    script = tmp_path / "again"
    script.write_text('#!/bin/sh\nexec "$0"\n', encoding="ascii")
    script.chmod(0o755)
    mark = str(tmp_path / "run")
    process = subprocess.Popen([script], env={**os.environ, MARK: mark})
    try:
        found = [marked_pids(mark) for _ in range(80)]
    finally:
        process.kill()
        process.wait()
    assert set(found) == {(process.pid,)}


@pytest.mark.parametrize("probe", ["mpirun", "git", "docker", "python"])
def test_a_probe_that_leaves_a_process_with_its_output_open_is_answered_and_cleared_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: str
) -> None:
    answers = {"mpirun": "mpirun (Open MPI) 4", "git": "true", "docker": "27.1", "python": "TRAINMARK [1]"}
    script = tmp_path / probe
    script.write_text(f"#!/bin/sh\n{LEAVES.format(pids=tmp_path / 'pids')}\necho '{answers[probe]}'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    host = LocalHost()
    began = time.monotonic()
    match probe:
        case "mpirun":
            assert host.machine().no_openmpi is None
        case "git":
            assert read_git(tmp_path, host) is not None
        case "docker":
            assert require_engine(Engine.DOCKER, host) == "27.1"
        case "python":
            assert run_script(script, Path("any.py"), [], {}, 300).answer == [1]
    assert time.monotonic() - began < 300, "an answer is there when the program has ended"
    assert not left(tmp_path)


BREAKS = """\
import pathlib, sys
made, tried = pathlib.Path(sys.argv[1], "made"), pathlib.Path(sys.argv[2])
first = not tried.exists()
tried.touch()
made.open("a").write("half" if first else "whole")
if first:
    BREAK
"""
ENDS = {
    "failing": ("sys.exit(1)", Outcome.FAILED),
    "hanging": ("import time; time.sleep(600)", Outcome.TIMEOUT),
}


@pytest.mark.parametrize("how", ENDS)
def test_what_a_broken_prepare_step_left_is_not_used_by_the_next_try(bench: Bench, how: str) -> None:
    breaks, outcome = ENDS[how]
    before = {
        "description": "something that ends well",
        "where": "host",
        "words": [sys.executable, "-c", "import sys; open(sys.argv[1], 'a').write('x')", "{prepared}/before"],
        "leaves": ["before"],
    }
    words = [sys.executable, "-c", BREAKS.replace("BREAK", breaks), "{prepared}", str(bench.folder / "tried")]
    step: dict[str, Any] = {"description": "breaking", "where": "host", "words": words, "leaves": ["made"]}
    bench.write(card={"prepare": [before, step]}, limits={"timeout_s": 3} if how == "hanging" else {})
    assert bench.run().cases[0].outcome is outcome
    assert bench.run(resume=True).cases[0].outcome is Outcome.OK
    (folder,) = (bench.folder / "home" / "prepared").iterdir()
    assert ((folder / "made").read_text(), (folder / "before").read_text()) == ("whole", "x")


def test_what_the_card_prepares_in_another_way_is_made_in_another_folder(bench: Bench) -> None:
    for words in ("one", "other"):
        step = {"description": words, "where": "host", "words": ["touch", f"{{prepared}}/{words}"]}
        bench.write(card={"prepare": [step]})
        assert Bench(bench.folder, words, processes=True).run().cases[0].outcome is Outcome.OK
    folders = sorted((bench.folder / "home" / "prepared").iterdir())
    assert sorted(name for folder in folders for name in ("one", "other") if (folder / name).exists()) == [
        "one",
        "other",
    ]
    assert len(folders) == 2
