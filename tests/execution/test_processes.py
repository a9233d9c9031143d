"""Finding and ending processes, whatever they do meanwhile; signals that wait."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from fakes import alive
from preloading import usual_signals
from trainmark.node import CommandRunner, LocalHost, deferred_signals, local, processes
from trainmark.node.jobs import Job
from trainmark.node.processes import MARK, end_all, private_bytes
from trainmark.schema.plan import Command
from trainmark.schema.suite import Limits

HYDRA = """
import os, signal, sys, time
def grow(number, frame):
    if os.fork() == 0:
        return
signal.signal(signal.SIGTERM, grow)
print("ready", flush=True)
while True:
    time.sleep(1)
"""

BUSY = """
import subprocess, sys
print("ready", flush=True)
while True:
    subprocess.run(["/bin/true"])
"""


def start(code: str, mark: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={MARK: str(mark)}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_program_that_grows_a_head_for_every_one_cut_off_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmark.node.processes.GRACE_S", 0.2)
    process = start(HYDRA, tmp_path)
    assert end_all(str(tmp_path)).number >= 1
    assert process.wait() == -signal.SIGKILL
    assert end_all(str(tmp_path)).number == 0
    process.communicate()


def test_processes_that_come_and_go_while_we_look_do_no_harm(tmp_path: Path) -> None:
    process = start(BUSY, tmp_path / "run")
    assert end_all(str(tmp_path)).number >= 1, "a mark inside the folder counts"
    process.communicate()
    assert not alive(process.pid)


def test_the_mark_of_a_folder_with_a_longer_name_is_another_one(tmp_path: Path) -> None:
    process = start(BUSY, tmp_path / "run-2")
    assert end_all(str(tmp_path / "run")).number == 0
    assert alive(process.pid)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("above", ["of-one-campaign", "of-all"])
def test_ending_one_command_ends_no_other(tmp_path: Path, above: str) -> None:
    """Every probe of every trainmark on a machine was ended with one whose mark lay above theirs."""
    mark = str(tmp_path / above)
    slow = CommandRunner(LocalHost(), Limits(timeout_s=60), f"{mark}/one" if above == "of-all" else mark)
    quick = CommandRunner(LocalHost(), Limits(timeout_s=60), mark)
    began = tmp_path / "began"
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(slow.run, Command(0, ("sh", "-c", f"touch {began}; sleep 1; echo told"), {}))
        while not began.exists():
            assert not answer.done(), answer.result()
            time.sleep(0.01)
        assert quick.run(Command(0, ("true",), {})).code == 0
        reported = answer.result()
    assert (reported.code, reported.out) == (0, b"told\n")
    assert end_all(mark).number == 0


def test_the_number_of_a_job_that_has_ended_is_given_to_nobody_before_its_processes_are_ended(
    tmp_path: Path,
) -> None:
    """Numbers come round again after some ten thousand processes, and the session of a stranger would be ended."""
    host = LocalHost()
    folder, mark = tmp_path / "job", str(tmp_path)
    pid = host.start(Job((Command(0, ("sh", "-c", "exit 3"), {}),), folder, folder / "log", mark))
    assert host.wait(pid, 10) == 3
    assert host.wait(pid, 0) == 3
    assert psutil.pid_exists(pid)
    assert host.kill(mark, pid) == 0
    assert host.reap(pid).code == 3
    assert not psutil.pid_exists(pid)
    endless = host.start(Job((Command(0, ("sleep", "60"), {}),), folder, folder / "log", mark))
    assert host.wait(endless, 0.1) is None
    assert host.kill(mark, endless) == 1
    assert host.reap(endless).code == -signal.SIGTERM


def test_a_job_is_ended_before_our_wrapper_has_started_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt can come at once; the program, started after it, would run to its own end."""
    slowly = ("sh", "-c", 'sleep 0.7; exec "$0" "$@"', *local._PYTHON)
    monkeypatch.setattr(local, "_PYTHON", slowly)
    host, mark = LocalHost(), str(tmp_path)
    pid = host.start(Job((Command(0, ("sleep", "60"), {}),), tmp_path, tmp_path / "log", mark))
    with monkeypatch.context() as hidden:
        # The shell above, and its sleep, stand for an interpreter that is starting.
        hidden.setattr(processes, "_members", lambda *_: [])
        ending = threading.Timer(0.5, hidden.undo)
        ending.start()
        host.kill(mark, pid)
    began = time.monotonic()
    host.reap(pid)

    assert time.monotonic() - began < 10


def test_a_removed_folder_of_a_job_stays_removed(tmp_path: Path) -> None:
    host, folder = LocalHost(), tmp_path / "run"
    command = Command(0, ("sleep", "60"), {})
    pid = host.start(Job((command,), folder, folder / "log", str(folder), telemetry=folder / "telemetry"))
    host.remove(folder)
    host.kill(str(folder), pid)
    host.reap(pid)

    assert not folder.exists()


def test_a_job_whose_folder_was_removed_leaves_the_folders_next_use_alone(tmp_path: Path) -> None:
    host, folder = LocalHost(), tmp_path / "run"
    commands = (Command(0, ("sleep", "60"), {}),)
    first = host.start(
        Job(commands, folder, folder / "log", str(tmp_path / "first"), telemetry=folder / "telemetry")
    )
    host.remove(folder)
    second = host.start(Job(commands, folder, folder / "log", str(tmp_path / "second"), heading=b"second\n"))
    host.kill(str(tmp_path / "first"), first)
    host.reap(first)
    assert (folder / "log").read_bytes() == b"second\n"
    assert not (folder / "telemetry").exists()

    host.kill(str(tmp_path / "second"), second)
    host.reap(second)


def test_the_words_of_a_program_are_in_no_other_command_line(tmp_path: Path) -> None:
    host, mark = LocalHost(), str(tmp_path)
    words = ("sh", "-c", "sleep 60; : words-of-the-program")
    pid = host.start(Job((Command(0, words, {}),), tmp_path, tmp_path / "log", mark))
    wrapper = psutil.Process(pid)
    deadline = time.monotonic() + 60
    while not (wrapper.children() and wrapper.children()[0].cmdline() == list(words)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while wrapper.cmdline()[0] != "trainmark-wrapper":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while len(wrapper.children(recursive=True)) < 2:  # the shell, and its sleep
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "words-of-the-program" not in " ".join(wrapper.cmdline())
    assert host.kill(mark, pid) == 2
    assert host.reap(pid).code == -signal.SIGTERM


def test_memory_is_that_of_the_whole_family(tmp_path: Path) -> None:
    code = "import subprocess, sys; held = bytearray(b'x') * (40 << 20); print('ready', flush=True); {}"
    child = code.format("import signal; signal.pause()")
    process = start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])", tmp_path)
    assert private_bytes(process.pid) > 40 << 20
    end_all(str(tmp_path))
    process.communicate()
    assert private_bytes(process.pid) == 0


@pytest.fixture(autouse=True)
def _signals_that_stop_us() -> Iterator[None]:
    with usual_signals():
        yield


def interrupted_while_held(steps: list[str]) -> None:
    with deferred_signals():
        steps.append("deferred_signals")
        os.kill(os.getpid(), signal.SIGINT)
        # Long enough for Python to notice a signal, had it been let through.
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass
        steps.append("done")
    steps.append("lost")


def test_a_held_signal_takes_effect_when_it_is_let_go() -> None:
    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_while_held(steps)
    assert steps == ["deferred_signals", "done"]


def test_a_signal_is_held_even_when_another_thread_could_take_it() -> None:
    """A blocked mask would fail here: the kernel gives the signal to the other thread, and Python to us."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    steps: list[str] = []
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted_while_held(steps)
    finally:
        stop.set()
        thread.join()
    assert steps == ["deferred_signals", "done"]


def test_an_ignored_signal_stays_ignored_and_handlers_are_given_back() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with deferred_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_the_main_thread_nothing_is_held() -> None:
    entered = []

    def work() -> None:
        with deferred_signals():
            entered.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert entered == [signal.default_int_handler]
