"""What another host's mpirun starts on a host is watched there, by its mark, though nothing of it is started by us."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agents import agent_host, stand_in
from trainmark.node import Heartbeat, Host, Job, JobOnHost, LocalHost, run_jobs
from trainmark.node.machine import ALLOCATION
from trainmark.node.processes import MARK
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Command
from trainmark.schema.suite import Limits

pytestmark = pytest.mark.process

UNTIL_FOUND = "until grep -qs '\"processes\":[1-9]' {other}/telemetry; do sleep 0.05; done"


def jobs(folder: Path, other: Host, script: str) -> list[JobOnHost]:
    """Return the job that starts all, and the other host's part of it."""
    mark, there = f"{folder}/mark", folder / "other"
    words = ("/bin/sh", "-c", script.format(other=there))
    launcher = Job((Command(0, words, {}),), folder, folder / "log", mark)
    watched = Job((), there, there / "log", mark, telemetry=there / "telemetry")
    return [JobOnHost(LocalHost(), launcher), JobOnHost(other, watched)]


@pytest.mark.parametrize("agent", [False, True])
def test_what_another_host_starts_is_sampled_and_ends_with_who_started_it(
    agent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    other = agent_host("other") if agent else LocalHost("other")
    carried = run_jobs(jobs(tmp_path, other, UNTIL_FOUND), Limits())
    if not isinstance(other, LocalHost):
        other.close()
    assert carried.stopped is None
    assert {end.index: (end.code, end.by_us) for end in carried.ended} == {0: (0, False), 1: (None, False)}
    header, *samples = map(json.loads, (tmp_path / "other" / "telemetry").read_text().splitlines())
    assert header["pid"] is None
    assert any(sample["memory"]["tree_rss_bytes"] > 0 for sample in samples)


def test_a_run_ends_when_a_host_is_lost_on_which_only_mpirun_has_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    other = agent_host("other")
    assert other.unreachable() is None

    def lose(_pulse: Heartbeat) -> None:
        assert other._connection is not None
        os.kill(other._connection.hello["pid"], signal.SIGKILL)  # type: ignore[index]

    carried = run_jobs(jobs(tmp_path, other, "sleep 600"), Limits(), lose)
    other.close()
    assert carried.stopped is not None
    outcome, reason = carried.stopped
    assert (outcome, reason.partition(" (")[0]) == (Outcome.FAILED, "other: the connection to it was lost")


def test_a_rank_that_slurms_daemon_starts_next_to_srun_belongs_to_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srun").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(ALLOCATION, "17")
    host, mark, telemetry = LocalHost(), f"{tmp_path}/mark", tmp_path / "telemetry"
    words = ("srun", "sleep", "600")
    pid = host.start(Job((Command(0, words, {}),), tmp_path, tmp_path / "log", mark, telemetry=telemetry))
    rank = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark})
    try:
        deadline = time.monotonic() + 60
        while not re.search(r'"processes":2\b', telemetry.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        host.kill(mark, pid)
        host.reap(pid)
    assert rank.wait(60) == -signal.SIGTERM
