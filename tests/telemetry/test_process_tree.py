"""The run's process tree, with real processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from trainmark.node.processes import ProcessTree, read_node

SPIN = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"


@contextmanager
def python(code: str) -> Iterator["subprocess.Popen[str]"]:
    """Run ``code``; it says ``ready`` when it is, and ends when its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline().strip() == "ready"
        yield process
    finally:
        process.stdin.close()
        process.wait(timeout=300)
        process.stdout.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, for as long as a slow machine may need."""
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


WITH_CHILDREN = """
import subprocess, sys, threading
quiet = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
made = []
def start(): made.append(subprocess.Popen(quiet, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
start()
thread = threading.Thread(target=start); thread.start(); thread.join()
for child in made: child.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
for child in made: child.communicate()
"""


def test_children_of_every_thread_are_found_and_memory_agrees_with_psutil() -> None:
    with python(WITH_CHILDREN) as process:
        tree = ProcessTree(process.pid)
        usage = tree.read()
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert sorted(usage.pids) == sorted(member.pid for member in family)
        assert len(usage.pids) == 3
        rss = sum(member.memory_info().rss for member in family)
        assert abs(usage.rss_bytes - rss) < 0.2 * rss
        pss = tree.pss_bytes()
        assert pss is None or 0 < pss <= usage.rss_bytes


def test_the_cpu_time_of_an_ended_child_counts() -> None:
    code = f"import subprocess, sys\nprint('ready', flush=True)\nsubprocess.run([sys.executable, '-c', {SPIN!r}])\n"
    code += "print('done', flush=True)\nsys.stdin.read()\n"
    with python(code) as process:
        tree = ProcessTree(process.pid)
        before = tree.read().cpu_s
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "done"
        after = tree.read()
        assert after.pids == (process.pid,)
        assert after.cpu_s - before >= 0.15


def test_an_orphan_that_was_found_once_stays_in_the_tree() -> None:
    code = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=sys.stdin)
print("ready", flush=True)
print(child.pid, flush=True)
sys.stdin.close()
sys.stdout.close()
signal = __import__("signal"); signal.pause()
"""
    with python(code) as process:
        assert process.stdout is not None
        orphan = int(process.stdout.readline())
        tree = ProcessTree(process.pid)
        assert set(tree.read().pids) == {process.pid, orphan}
        process.kill()
        process.wait()
        assert tree.read().pids == (orphan,)


def test_a_tree_that_has_ended_uses_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    usage = ProcessTree(process.pid).read()
    assert (usage.cpu_s, usage.rss_bytes, usage.pids) == (0.0, 0, ())


def test_a_process_name_with_brackets_and_blanks_is_read(tmp_path: Path) -> None:
    stat = "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 100 50 25 25 20 0 1 0 12345 4096 3 " + "0 " * 20
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text(stat)
    usage = ProcessTree(7, tmp_path).read()
    assert usage.pids == (7,)
    assert usage.cpu_s == 200 / os.sysconf("SC_CLK_TCK")
    assert usage.rss_bytes == 3 * os.sysconf("SC_PAGE_SIZE")


def test_a_reused_pid_leaves_the_tree(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    stat = "7 (a) S 1 7 7 0 -1 0 0 0 0 0 100 50 25 25 20 0 1 0 {} 4096 3 0"
    (tmp_path / "7/stat").write_text(stat.format(100))
    tree = ProcessTree(7, tmp_path)
    assert tree.read().pids == (7,)
    (tmp_path / "7/stat").write_text(stat.format(999))
    assert tree.read().pids == ()


def test_the_node_is_busy_within_its_capacity() -> None:
    one = read_node()
    until(lambda: read_node().total_s > one.total_s)
    two = read_node()
    # The kernel counts in hundredths of a second; their difference as floats is not exact.
    assert 0 <= two.busy_s - one.busy_s <= two.total_s - one.total_s + 1e-6
    assert two.available_bytes is not None
    assert abs(two.available_bytes - psutil.virtual_memory().available) < 2**30
