"""The processes of others that compute while a run does: found in /proc, summed over the window, and named."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from trainmark.node.processes import ForeignProcesses
from trainmark.node.telemetry import to_line
from trainmark.node.telemetry_summary import summarise
from trainmark.schema.telemetry import (
    CpuCounters,
    CpuSample,
    ForeignProcess,
    Header,
    MemorySample,
    Sample,
)


@pytest.fixture
def hog(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a Python script that computes, with a word that nothing may print."""
    script = tmp_path / "busy.py"
    script.write_text("while True: pass\n")
    process = subprocess.Popen([sys.executable, str(script), "--password=hidden"])
    yield process
    process.kill()
    process.wait()


def used_s(process: "subprocess.Popen[bytes]") -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def after_computing(process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process has used another fifth of a second; its machine may be busy."""
    began, end = used_s(process), time.monotonic() + 300
    while used_s(process) < began + 0.2:
        assert time.monotonic() < end
        time.sleep(0.01)


def all_but(pid: int) -> set[int]:
    """Return the processes of this machine, which other tests may keep busy, without one."""
    return set(psutil.pids()) - {pid}


def test_a_busy_process_is_found_with_its_script_and_no_other_word(hog: "subprocess.Popen[bytes]") -> None:
    foreign = ForeignProcesses(clock=lambda: 0.0)
    assert foreign.take(10.0, 0.0, 0.0, ()) is None
    after_computing(hog)
    assert foreign.take(10.5, 1.0, 1.0, ()) is None, "too early"

    found = foreign.take(11.2, 1.0, 2.0, all_but(hog.pid))

    assert found is not None
    names = [(one.pid, one.name.endswith(" busy.py"), one.cores >= 0.1) for one in found]
    assert (hog.pid, True, True) in names, found


def test_processes_of_the_run_are_not_foreign(hog: "subprocess.Popen[bytes]") -> None:
    foreign = ForeignProcesses(clock=lambda: 0.0)
    foreign.take(10.0, 0.0, 0.0, ())
    after_computing(hog)

    found = foreign.take(11.2, 1.0, 2.0, (hog.pid,))

    assert found is not None
    assert hog.pid not in {one.pid for one in found}


def test_a_quiet_machine_is_not_searched() -> None:
    foreign = ForeignProcesses(clock=lambda: 0.0)
    foreign.take(10.0, 0.0, 0.0, ())

    assert [foreign.take(10.0 + 2 * at, 0.01 * at, 2.0 * at, ()) for at in range(1, 5)] == [None] * 4


def test_load_after_a_quiet_time_is_named_from_the_second_search_on(hog: "subprocess.Popen[bytes]") -> None:
    foreign = ForeignProcesses(clock=lambda: 0.0)
    foreign.take(10.0, 0.0, 0.0, ())

    assert foreign.take(600.0, 590.0, 590.0, ()) is None
    after_computing(hog)
    assert foreign.take(601.2, 591.0, 591.0, ())


def sample(at_s: float, *foreign: ForeignProcess, searched: bool = True) -> Sample:
    counters = CpuCounters(at_s, 2 * at_s, 0.0, 0.0)
    return Sample(
        at_s, at_s, 1.0 if at_s else 0.0, 1, CpuSample(None, None, None, None), MemorySample(1, None, 1), (),
        counters, foreign if searched else None,
    )  # fmt: skip


def test_the_processes_of_a_window_are_the_means_of_its_searches(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    one, other = ForeignProcess(7, "a", 1.0), ForeignProcess(8, "b", 0.5)
    samples = [sample(0), sample(1, one), sample(2, one, other), sample(3, searched=False), sample(9, other)]
    header = Header(1, 1, 1.0, 2, ())
    path.write_bytes(b"".join([to_line(header), *(to_line(each) for each in samples)]))

    assert summarise(path, (1.0, 4.0)).foreign == (one, ForeignProcess(8, "b", 0.25))
    assert summarise(path, (5.0, 6.0)).foreign is None
