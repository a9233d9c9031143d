"""Prepare steps and git are bounded, marked and ended as the ranks of a run are."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes import CARD, Bench, alive
from trainmark.node.processes import MARK
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import RunResult

pytestmark = pytest.mark.process

HANGS = """\
import os, pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
(folder / "pids.new").write_text(f"{os.getpid()} {child.pid} " + os.environ.get("TRAINMARK_RUN", "-"))
(folder / "pids.new").rename(folder / "prepare-pids")
time.sleep(600)
"""


def hanging_step(bench: Bench) -> dict[str, Any]:
    """Return a card's prepare step that hangs, with a child in a session of its own."""
    script = bench.folder / "hangs.py"
    script.write_text(HANGS)
    words = [sys.executable, str(script), str(bench.folder)]
    return {"prepare": [{"description": "waiting", "where": "host", "words": words}]}


def reported(bench: Bench) -> tuple[int, int, str]:
    step, child, mark = (bench.folder / "prepare-pids").read_text().split()
    return int(step), int(child), mark


def only(bench: Bench) -> RunResult:
    (ran,) = bench.run().cases[0].runs
    return ran


def until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_prepare_step_beyond_the_time_limit_is_ended_and_is_a_timeout(bench: Bench) -> None:
    bench.write(card=hanging_step(bench), limits={"timeout_s": 6})
    ran = only(bench)
    assert ran.outcome is Outcome.TIMEOUT
    assert (ran.reason or "").startswith(
        "prepare step 'waiting' was ended: it took longer than 6 s (limits.timeout_s)"
    )
    step, child, mark = reported(bench)
    assert not alive(step)
    assert not alive(child), "its child has a session of its own, and is found by the mark"
    assert Path(mark).parent == (bench.out / ran.directory).resolve()


def test_a_silent_prepare_step_is_ended_for_its_silence(bench: Bench) -> None:
    bench.write(card=hanging_step(bench), limits={"stall_timeout_s": 1})
    ran = only(bench)
    assert ran.outcome is Outcome.TIMEOUT
    assert "it printed nothing for 1 s (limits.stall_timeout_s)" in (ran.reason or "")


def test_a_prepare_step_beyond_the_memory_limit_is_out_of_memory_or_fails(bench: Bench) -> None:
    words = [sys.executable, "-c", "b = bytearray(400 << 20)"]
    step = {"prepare": [{"description": "index", "where": "host", "words": words}]}
    bench.write(card=step, limits={"memory": "100MiB"})
    ran = only(bench)
    assert ran.outcome in (Outcome.FAILED, Outcome.OOM)
    assert "MemoryError" in (ran.reason or "")


def test_nothing_of_a_prepare_step_survives_a_killed_trainmark_and_its_resume(bench: Bench) -> None:
    bench.write(card=hanging_step(bench))
    process = bench.start()
    until((bench.folder / "prepare-pids").exists)
    step, child, _ = reported(bench)
    process.kill()
    process.communicate(timeout=300)
    until(lambda: not alive(step))
    (bench.folder / "prepare-pids").unlink()
    again = bench.start("--resume")
    until(lambda: not alive(child))
    until((bench.folder / "prepare-pids").exists)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=300)
    assert again.returncode == 130
    assert not any(alive(pid) for pid in reported(bench)[:2])


def test_a_fetch_that_hangs_is_ended_and_is_a_timeout(bench: Bench, tmp_path: Path, monkeypatch: Any) -> None:
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "bin"
    folder.mkdir()
    git = folder / "git"
    git.write_text(
        f'#!/bin/sh\ncase "$*" in *fetch*) echo $$ ${MARK} > {bench.folder}/git-pid; sleep 600;; esac\n'
        f'exec {real} "$@"\n'
    )
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    source = {"kind": "git", "url": "file:///nowhere/code", "folder": ".", "commit": "0" * 40}
    card = {"source": source, "command": ["{source}/train.py"]}
    bench.write(card={**card, "axes": CARD["axes"]}, limits={"timeout_s": 6})
    ran = only(bench)
    assert ran.outcome is Outcome.TIMEOUT, ran.reason
    assert "it took longer than 6 s (limits.timeout_s)" in (ran.reason or "")
    assert (ran.reason or "").startswith("git ")
    pid, mark = (bench.folder / "git-pid").read_text().split()
    assert not alive(int(pid))
    assert Path(mark).parent == (bench.out / ran.directory).resolve()
