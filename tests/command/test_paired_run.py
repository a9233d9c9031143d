"""``trainmark run --against COMMAND -- COMMAND``: two programs in turn, with real processes that are paused."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psutil
import pytest

from trainmark.campaign import alternating
from trainmark.cli.main import main
from trainmark.errors import TrainmarkError
from trainmark.measure.paired_blocks import Side
from trainmark.node import LocalHost
from trainmark.node.pausing import Contention, PausableProgram
from trainmark.schema.names import LOG
from trainmark.schema.plan import NodeResources

pytestmark = pytest.mark.process

TRAINS = """\
import sys, time
seconds, steps = float(sys.argv[1]), int(sys.argv[2])
for step in range(1, steps + 1):
    time.sleep(seconds)
    print(f"step {step}/{steps} loss {1 / step:.4f}", flush=True)
"""
MEASURES_ITSELF = """\
import sys, time
import trainmark
with trainmark.measure() as measured:
    for _ in range(100_000):
        time.sleep(float(sys.argv[1]))
        measured.step(8)
"""
HAS_CHILD = """\
import os, subprocess, sys, time
child = "import time\\nfor n in range(10**6):\\n    print(n, flush=True); time.sleep(0.01)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with the program, on a machine without GPUs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "train.py").write_text(TRAINS)
    return tmp_path


def command(seconds: float, steps: int = 100_000) -> list[str]:
    return [sys.executable, "train.py", str(seconds), str(steps)]


def call(mine: list[str], other: list[str], *options: str) -> int:
    return main(["run", "--out", "out", "--against", shlex.join(other), *options, "--", *mine])


def test_a_program_of_half_the_speed_is_slower(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = call(command(0.03), command(0.01), "--rounds", "8", "--block-seconds", "0.4", "--skip", "2")

    printed = capsys.readouterr().out
    stored = json.loads((folder / "out" / "blocks.json").read_text())
    assert code == 1, printed
    assert "A is slower than B" in printed
    assert stored["change"] == "slower"
    assert stored["ratio"] < 0.7
    sides = "".join(block["side"] for block in stored["blocks"])
    assert {sides[at : at + 4] for at in range(0, 32, 4)} <= {"abba", "baab"}
    assert [(folder / "out" / side / str(start) / LOG).exists() for side in "ab" for start in (1, 8)] == [
        True
    ] * 4
    assert [block["started"] for block in stored["blocks"][::4]] == list(range(1, 9))
    ends = [block["end"] for block in stored["blocks"]]
    starts = [block["start"] for block in stored["blocks"]]
    # The two programs never run at once.
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


def test_programs_that_measure_themselves_are_compared_by_a_line_for_each_step(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "measured.py").write_text(MEASURES_ITSELF)
    mine, other = ([sys.executable, "measured.py", seconds] for seconds in ("0.01", "0.03"))

    code = call(mine, other, "--rounds", "8", "--block-seconds", "0.4", "--skip", "2")

    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "A is faster than B" in printed


OF_PROCESS = """\
import os, sys, time
with open("started", "a+") as file:
    file.write("x")
    file.flush()
    is_slow = os.path.getsize("started") % 4 in (2, 3)
for step in range(100_000):
    time.sleep(0.015 if is_slow else 0.01)
    print(f"step {step} loss 1.0", flush=True)
"""
"""A program of which every second process is slower: of A's and of B's as many."""


@pytest.mark.parametrize(("starts", "is_different"), [("8", False), ("1", True)])
def test_processes_of_one_program_that_differ_are_equal_programs(
    folder: Path, capsys: pytest.CaptureFixture[str], starts: str, is_different: bool
) -> None:
    (folder / "process.py").write_text(OF_PROCESS)
    words = [sys.executable, "process.py"]

    call(words, words, "--rounds", "8", "--block-seconds", "0.4", "--skip", "2", "--starts", starts)

    printed = capsys.readouterr().out
    assert ("A is indistinguishable from B" in printed) is not is_different, printed
    assert ("The verdict is about 1 start of both programs only" in printed) is is_different


def test_a_long_warm_up_shows_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(alternating, "_WORD_EVERY_S", 0.1)

    assert call(command(0.4, steps=4), command(0.01)) == 1

    assert " of the 11 records that it warms up for\n" in capsys.readouterr().err


@pytest.mark.parametrize(("block_s", "is_refused"), [(0.5, True), (2.0, False)])
def test_bursts_that_are_short_against_a_block_are_no_buffered_output(
    block_s: float, is_refused: bool
) -> None:
    """A busy machine looks at a log of fast steps every 20 ms, not every 2."""
    bursts = np.repeat(np.arange(400) * 0.02, 20)
    log = cast(Any, SimpleNamespace(times=lambda: bursts))

    if is_refused:
        with pytest.raises(TrainmarkError, match=r"too busy for blocks of 0\.5 s: raise --block-seconds"):
            alternating._times(Side.A, log, block_s)
    else:
        assert alternating._times(Side.A, log, block_s) is bursts


def test_a_program_that_ends_early_is_named_with_its_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = call(command(0.01, steps=4), command(0.01))

    assert code == 1
    assert "A ended with code 0 after 4 records, before its warm-up of 10 was over" in capsys.readouterr().err


def test_an_interruption_says_what_is_left_and_ends_both_programs(folder: Path) -> None:
    words = [sys.executable, "-m", "trainmark", "run", "--out", "out", "--against", shlex.join(command(0.01))]
    with subprocess.Popen([*words, "--", *command(0.01)], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        while not run.stderr.readline().startswith("round 1"):
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
        last_line = run.stderr.read()

    assert last_line == "interrupted: no verdict; out has the logs so far; to try again, give another --out\n"
    assert run.returncode == 130
    left = [one.pid for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == str(folder)]
    assert left == [os.getpid()]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--hosts", "hosts.yaml"], "--hosts cannot be combined with --against"),
        (["--repeats", "3"], "--repeats cannot be combined with --against"),
        (["--vary", "x=1,2"], "--vary cannot be combined with --against"),
    ],
)
def test_options_that_do_not_apply_are_refused(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(command(0.01), command(0.01), *options) == 2
    assert sentence in capsys.readouterr().err


def test_a_machine_with_a_gpu_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LocalHost, "machine", lambda _: NodeResources(cores=2, gpus=1))

    assert call(command(0.01), command(0.01)) == 2
    assert "work queued on a GPU continues while its process is paused" in capsys.readouterr().err


def test_options_of_a_pair_need_the_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--rounds", "8", "--", *command(0.01)]) == 2
    assert "--block-seconds, --rounds, --starts and --seed are for --against" in capsys.readouterr().err


def test_a_pause_reaches_children_with_a_session_of_their_own_and_the_end_does_too(folder: Path) -> None:
    (folder / "out").mkdir()
    log = folder / "out" / LOG

    def size() -> int:
        return log.stat().st_size

    with PausableProgram([sys.executable, "-c", HAS_CHILD], folder / "out", folder) as program:
        deadline = time.monotonic() + 60
        while not size():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        program.find_processes()
        children = psutil.Process(program._process.pid).children(recursive=True)  # type: ignore[union-attr]
        program.pause()
        paused = size()
        time.sleep(0.3)
        assert size() == paused
        program.resume()
        while size() == paused:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        program.pause()
    # Stopped processes are ended as well.
    assert children
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)


def test_waiting_for_own_threads_is_not_waiting_for_others() -> None:
    before = Contention(total_s=20.0, busy_s=10.0, own_s={7: 1.0, 8: 1.0}, waits_s={7: 0.5, 8: 0.0})

    alone = Contention(total_s=24.0, busy_s=14.0, own_s={7: 3.0, 8: 3.0}, waits_s={7: 1.5, 8: 0.2})
    assert before.shares_until(alone, 2.0) == (0.0, 0.0)
    shared = Contention(total_s=24.0, busy_s=14.0, own_s={7: 2.0, 8: 3.0}, waits_s={7: 1.5, 8: 0.2})
    assert before.shares_until(shared, 2.0) == (0.5, 0.25)
    assert before.shares_until(Contention(total_s=24.0, busy_s=14.0, own_s={7: 2.0}, waits_s={}), 2.0) is None


def test_others_take_no_more_than_all_cpus_while_the_program_is_being_paused() -> None:
    before = Contention(total_s=20.0, busy_s=10.0, own_s={7: 1.0}, waits_s={7: 0.5})
    # The counters are read half a second after the block of two seconds.
    after = Contention(total_s=25.0, busy_s=15.0, own_s={7: 1.0}, waits_s={7: 2.5})

    assert before.shares_until(after, 2.0) == (1.0, 1.0)


BUSY = "while True:\n    pass"


def test_a_program_that_shares_its_cpu_with_another_waits_for_it(folder: Path) -> None:
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        # In a session of its own: with autogroups, Linux shares the CPUs among sessions and not among processes.
        with subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) as other:
            try:
                with PausableProgram([sys.executable, "-c", BUSY], folder, folder) as program:
                    time.sleep(1.0)
                    before = program.contention()
                    time.sleep(1.5)
                    shares = before.shares_until(program.contention(), 1.5)
            finally:
                other.kill()
    finally:
        os.sched_setaffinity(0, everywhere)

    assert shares is not None
    waited, used = shares
    assert waited > 0.2
    assert used > 0.2
