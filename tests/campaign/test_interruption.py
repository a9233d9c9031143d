"""Stopping trainmark from outside: Ctrl-C, SIGTERM, SIGKILL; what is left, and how it goes on."""

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import CARD, Bench, Listener, alive, behaving
from preloading import Copy
from trainmark.schema.names import DATABASE
from trainmark.store import read_results

pytestmark = pytest.mark.process

REPEATS = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}


def until(there: Callable[[], bool], process: Copy) -> None:
    """Wait until something is there; fail at once when the process has ended before it."""
    deadline = time.monotonic() + 300
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def hanging(bench: Bench) -> Copy:
    """Start a suite whose first case ends and whose second hangs; return once it hangs, its child with it."""
    bench.write({}, behaving("hangs-with-child"))
    process = bench.start()
    until(lambda: len(bench.pids()) == 3, process)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_suite_leaves_no_process_and_a_usable_directory(
    bench: Bench, number: signal.Signals
) -> None:
    process = hanging(bench)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert not any(alive(pid) for pid in bench.pids())
    first, second = read_results(bench.out / "results.json").cases
    assert (first.outcome, second.outcome, second.reason) == ("ok", "skipped", "not run yet")
    assert err.splitlines()[-1].startswith(
        "interrupted; all finished runs are saved; continue with: trainmark run "
    )
    assert err.splitlines()[-1].endswith(" --resume")
    assert out.splitlines()[0].startswith("Suite fakes")
    assert (bench.out / "report.html").exists()


def test_an_impatient_second_ctrl_c_still_leaves_no_process(bench: Bench) -> None:
    process = hanging(bench)
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    process.communicate(timeout=300)
    # While the interpreter ends it no longer catches signals.
    assert process.returncode in (130, -signal.SIGINT)
    assert not any(alive(pid) for pid in bench.pids())
    assert read_results(bench.out / "results.json").complete is False


def test_after_ctrl_c_resume_goes_on_and_repeats_nothing(bench: Bench) -> None:
    bench.write({}, behaving("lasts-0.6"), protocol=REPEATS)
    process = bench.start()
    until(lambda: len(list(bench.out.glob("runs/*/*/outcome.json"))) == 1 and len(bench.pids()) == 2, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    stored = {path: path.stat().st_ino for path in bench.out.glob("runs/*/*/outcome.json")}
    assert len(stored) == 1
    listener = Listener()
    assert bench.run(listener, resume=True).holds
    assert len(listener.started) == 3
    assert all(path.stat().st_ino == inode for path, inode in stored.items())


def test_a_killed_trainmark_takes_its_program_with_it_and_resume_ends_the_rest(bench: Bench) -> None:
    process = hanging(bench)
    _, program, child = bench.pids()
    process.kill()
    process.communicate(timeout=300)
    until_dead(program)
    assert alive(child), "the program's own child is nobody's any more; resume finds it by its mark"
    bench.write({}, behaving("hangs-with-child"))
    resumed = bench.start("--resume")
    until(lambda: not alive(child), resumed)
    until(lambda: len(bench.pids()) == 5, resumed)
    resumed.send_signal(signal.SIGINT)
    resumed.communicate(timeout=300)
    assert not any(alive(pid) for pid in bench.pids())


def until_dead(pid: int) -> None:
    deadline = time.monotonic() + 300
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_second_campaign_in_one_directory_is_refused(bench: Bench) -> None:
    process = hanging(bench)
    second = bench.call("--resume")
    assert second.returncode == 2
    assert second.stderr == (
        f"trainmark run: {bench.out}: is in use by process {process.pid}; wait for it, or give another --out\n"
    )
    assert all(alive(pid) for pid in bench.pids()[1:]), "the first one's processes are left alone"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)


def test_ctrl_c_while_data_is_made_leaves_no_process_and_goes_on_later(bench: Bench) -> None:
    card = {"axes": CARD["axes"] | {"data": {"flags": []}}}
    make = {"images": 400, "classes": 2, "width": 500, "height": 375}
    bench.write({"data": "photos"}, card=card, datasets={"photos": {"make": make}})
    process = bench.start()
    folder = bench.folder / "home" / "datasets"
    until(lambda: any(folder.glob("*/train/*/*.JPEG")), process)
    group = os.getpgid(process.pid)
    os.killpg(group, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted; all finished runs are saved" in err
    assert "Traceback" not in err
    for pid in members(group):
        # Python's own resource tracker ends a moment after the process that it serves.
        until_dead(pid)
    assert not list(bench.out.glob("runs/*/*")), "a run that never began leaves no folder"


def members(group: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == group and alive(int(path.name)):
                found.append(int(path.name))
        except ProcessLookupError:
            continue
    return found


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.rare)])
def test_killed_at_random_moments_no_finished_run_is_lost_and_none_repeated(bench: Bench, kills: int) -> None:
    moments = random.Random(20261121)
    protocol = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": kills + 2}
    bench.write(*({"batch_per_device": batch} for batch in (1, 2, 3)), protocol=protocol)
    finished: dict[Path, tuple[int, int]] = {}
    for kill in range(kills):
        process = bench.start("--resume")
        # Somewhere in the next runs: at once after a run has ended, or up to about two runs later.
        until(lambda: len(outcomes(bench)) > len(finished), process)  # noqa: B023
        time.sleep(moments.random() * 0.25)
        process.kill()
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL
        now = outcomes(bench)
        assert now.items() >= finished.items(), f"after kill {kill + 1} a finished run is lost or repeated"
        finished = now
    results = bench.run(resume=True)
    now = outcomes(bench)
    assert now.items() >= finished.items()
    assert [len(case.runs) for case in results.cases] == 3 * [kills + 2]
    assert (len(now), results.complete, results.holds) == (3 * (kills + 2), True, True)
    with sqlite3.connect(bench.out / DATABASE) as connection:
        rows = connection.execute("SELECT case_id, repeat FROM runs").fetchall()
    connection.close()
    assert len(rows) == len(set(rows)) == 3 * (kills + 2)
    assert not any(alive(pid) for pid in bench.pids())


def outcomes(bench: Bench) -> dict[Path, tuple[int, int]]:
    found = {}
    for path in bench.out.glob("runs/*/*/outcome.json"):
        stat = path.stat()
        found[path] = (stat.st_ino, stat.st_mtime_ns)
    return found
