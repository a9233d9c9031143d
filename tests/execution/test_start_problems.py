"""A command that cannot be started on one of its hosts: the reason names the host and what is missing there."""

from pathlib import Path

import pytest

from agents import agent_host, stand_in
from trainmark.node import Job, JobOnHost, LocalHost, run_jobs
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Command
from trainmark.schema.suite import Limits

pytestmark = pytest.mark.process


def job(folder: Path, working_directory: Path) -> Job:
    folder.mkdir()
    command = Command(0, ("sleep", "600"), {}, directory=working_directory)
    return Job((command,), folder, folder / "log", str(folder))


def test_a_working_directory_that_a_host_lacks_is_named_with_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    absent, second = tmp_path / "absent", agent_host("second", tmp_path / "there")
    try:
        jobs = [
            JobOnHost(LocalHost(), job(tmp_path / "one", tmp_path)),
            JobOnHost(second, job(tmp_path / "other", absent)),
        ]
        carried = run_jobs(jobs, Limits())
    finally:
        second.close()

    assert carried.stopped == (
        Outcome.FAILED,
        f"the working directory {absent} cannot be entered on second: No such file or directory; "
        "the program must be at the same path on all hosts",
    )


def test_a_working_directory_that_is_gone_here_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    carried = run_jobs([JobOnHost(LocalHost(), job(tmp_path / "one", absent))], Limits())

    assert carried.stopped == (
        Outcome.FAILED,
        f"the working directory {absent} cannot be entered: No such file or directory",
    )
