"""Where ranks are that get nowhere: each rank's Python says it, and who is not where the others wait is named."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from trainmark.node import Job, LocalHost
from trainmark.node.processes import belongs_to_job, rank_processes
from trainmark.node.stacks import DUMP_LIMIT_S, Frame, describe_missing_ranks, read_stack
from trainmark.schema.plan import Command

PROGRAM = """\
import os, threading, time

def all_reduce():
    threading.Event().wait(600)

def next_batch():
    time.sleep(600)

open("there.rank" + os.environ["RANK"], "w").close()
all_reduce() if os.environ["RANK"] != "3" else next_batch()
"""


@pytest.mark.parametrize("count", [1, 2])
def test_the_rank_that_never_came_to_the_others_is_known_by_what_its_python_says(
    count: int, tmp_path: Path
) -> None:
    """``count`` is how many ranks the node has: one is a program, several are started by a launcher of ours."""
    (tmp_path / "program.py").write_text(PROGRAM)
    words = (sys.executable, str(tmp_path / "program.py"))
    ranks = range(4 - count, 4)
    commands = tuple(Command(0, words, {"RANK": str(rank)}, rank=rank) for rank in ranks)
    host, mark = LocalHost(), str(tmp_path / "mark")
    pid = host.start(Job(commands, tmp_path, tmp_path / "train.log", mark, ranks=4))
    try:
        end = time.monotonic() + 60
        while not all((tmp_path / f"there.rank{rank}").exists() for rank in ranks):
            assert time.monotonic() < end
            time.sleep(0.02)
        # What they do next is to wait.
        while any(rank.status() != psutil.STATUS_SLEEPING for rank in rank_processes(mark, pid).values()):
            assert time.monotonic() < end
            time.sleep(0.02)
        host.stop_ranks(mark, pid)
        found = host.stacks(mark, pid)
    finally:
        host.kill(mark, pid)
        host.reap(pid)
    assert found[3][0].function == "next_batch"
    if count == 2:
        assert "all_reduce" in [frame.function for frame in found[2]]
        reported = describe_missing_ranks(found, dict.fromkeys(ranks, "node02"))
        first, _, second = reported.partition(", while ")
        assert first == "; rank 3 on node02 was in next_batch (program.py:7)"
        assert second == "rank 2 on node02 waited in all_reduce (program.py:4)"
    assert not list(tmp_path.glob("core*"))


HANDLES = """\
import os, signal, time

signal.signal(signal.SIGABRT, signal.SIG_DFL if os.environ["RANK"] == "0" else lambda *_: os._exit(6))
print(os.environ.get("PYTHONFAULTHANDLER"), flush=True)
open("there.rank" + os.environ["RANK"], "w").close()
time.sleep(600)
"""


def started(folder: Path, count: int, parent: str = "exec") -> tuple[LocalHost, str, int]:
    """Start ranks that say nothing when they are asked, each behind a shell that becomes it or waits for it."""
    (folder / "program.py").write_text(HANDLES)
    words = ("sh", "-c", f"{parent} {sys.executable} {folder}/program.py")
    commands = tuple(Command(0, words, {"RANK": str(rank)}, rank=rank) for rank in range(count))
    host, mark = LocalHost(), str(folder / "mark")
    pid = host.start(Job(commands, folder, folder / "train.log", mark, ranks=count))
    end = time.monotonic() + 60
    while not all((folder / f"there.rank{rank}").exists() for rank in range(count)):
        assert time.monotonic() < end
        time.sleep(0.02)
    return host, mark, pid


def test_a_rank_that_ends_without_a_word_is_not_waited_for(tmp_path: Path) -> None:
    host, mark, pid = started(tmp_path, 2)
    try:
        host.stop_ranks(mark, pid)
        requested = time.monotonic()
        assert host.stacks(mark, pid) == {1: ()}
        assert time.monotonic() - requested < DUMP_LIMIT_S
    finally:
        host.kill(mark, pid)
        host.reap(pid)


def test_a_program_on_its_own_is_started_as_its_user_would(tmp_path: Path) -> None:
    """The handler of fatal errors would have a helper's crash look like the program's own."""
    host, mark, pid = started(tmp_path, 1)
    host.kill(mark, pid)
    host.reap(pid)
    assert (tmp_path / "train.log").read_text() == "None\n"


def test_who_started_a_rank_and_is_not_of_the_run_goes_on(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        assert not belongs_to_job(psutil.Process(stranger.pid), str(tmp_path), os.getpid())
        assert belongs_to_job(psutil.Process(stranger.pid), str(tmp_path), stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("got_it", [0, 1])
def test_of_the_threads_the_main_one_counts_whichever_got_the_signal(got_it: int) -> None:
    heads = ["Thread", "Thread"]
    heads[got_it] = "Current thread"
    text = (
        f"step 6/12\nFatal Python error: Aborted\n\n{heads[0]} 0x00007f (most recent call first):\n"
        f'  File "/usr/lib/threading.py", line 1 in wait\n\n{heads[1]} 0x00008f (most recent call first):\n'
        '  File "/torch/distributed/distributed_c10d.py", line 3252 in barrier\n  File "/a/train.py", line 7 in main\n'
    )
    stack = read_stack(text)
    assert stack[0].text() == "barrier (distributed_c10d.py:3252)"
    assert len(stack) == 2
    assert read_stack("Killed") == ()


def test_where_all_ranks_wait_or_none_does_each_place_is_reported_and_none_is_blamed() -> None:
    waits, works = (Frame("/a/train.py", 3, "all_reduce"),), (Frame("/a/train.py", 9, "next"),)
    hosts = {0: "a", 1: "b"}
    assert describe_missing_ranks({0: works, 1: works}, hosts) == (
        "; rank 0 on a was in next (train.py:9), rank 1 on b was in next (train.py:9)"
    )
    assert describe_missing_ranks({0: waits, 1: waits}, hosts) == (
        "; rank 0 on a waited in all_reduce (train.py:3), rank 1 on b waited in all_reduce (train.py:3)"
    )
    assert describe_missing_ranks({}, {}) == ""


@pytest.mark.parametrize(
    ("file", "function"),
    [
        ("/v/site-packages/torch/distributed/distributed_c10d.py", "all_reduce"),
        ("/v/site-packages/tensorflow/python/eager/execute.py", "quick_execute"),
        ("/v/trainmark/worker/backends/mxnet/backend.py", "wait_to_read"),
        ("/v/trainmark/worker/backends/jax/backend.py", "synchronize"),
        ("/v/site-packages/mindspore/common/api.py", "__call__"),
    ],
)
def test_waiting_ranks_are_distinguished_from_missing_ones_in_any_framework(file: str, function: str) -> None:
    """As each framework's ranks were seen when rank 1 never left its input."""
    found = {0: (Frame(file, 3, function),), 1: (Frame("/v/trainmark/worker/core/feed.py", 77, "next"),)}
    assert describe_missing_ranks(found, {0: "a", 1: "b"}).startswith(
        "; rank 1 on b was in next (feed.py:77), while rank 0 "
    )


def test_of_many_ranks_a_few_are_named() -> None:
    hosts = {rank: f"host{rank // 8}" for rank in range(64)}
    stacks = {rank: (Frame("/a/train.py", 9, "next"),) for rank in hosts}
    assert describe_missing_ranks(stacks, hosts).endswith(
        "rank 3 on host0 was in next (train.py:9) and 60 more"
    )
