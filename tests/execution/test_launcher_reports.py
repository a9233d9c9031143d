"""What launchers print when a rank fails, as they really printed it, and the reason that is made of it."""

from pathlib import Path

import pytest

from trainmark.execution.classify import NodeExit, classify
from trainmark.schema.outcome import Outcome

OPENMPI_4 = """\
[1,1]<stderr>:[rank1]: Traceback (most recent call last):
[1,1]<stderr>:[rank1]: ValueError: this is why
[1,0]<stderr>:[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:45730.
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[30254,1],RANK]
  Exit code:    CODE
--------------------------------------------------------------------------
"""

OPENMPI_4_KILLED = """\
--------------------------------------------------------------------------
mpirun noticed that process rank 13 with PID 0 on node vm exited on signal 9 (Killed).
--------------------------------------------------------------------------
"""

OPENMPI_5 = """\
[1,12]<stderr>: Traceback (most recent call last):
[1,12]<stderr>: ValueError: no such thing
--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-vm-4299@1,12]
   Exit code:    1
--------------------------------------------------------------------------
"""

OPENMPI_5_KILLED = """\
--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 4416 on node vm exited on
signal 9 (Killed).
--------------------------------------------------------------------------
"""

NO_SLOTS = """\
--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 3
slots that were requested by the application:

  python3

Either request fewer slots for your application, or make more slots
available for use.
--------------------------------------------------------------------------
"""

PADDLE = """\
LAUNCH INFO 2026-11-21 12:41:23,446 Pod failed
LAUNCH ERROR 2026-11-21 12:41:23,446 Container failed !!!
Container rank RANK status failed cmd ['/envs/paddle/bin/python', '-u', 't.py', 'exit'] code CODE log log/workerlog.0
LAUNCH INFO 2026-11-21 12:41:23,446 ------------------------- ERROR LOG DETAIL -------------------------
"""

LOST_IN_PADDLE = """\
0 step 4 1.24782133102417
terminate called after throwing an instance of 'gloo::TimeoutException'
  what():  [gloo/transport/tcp/pair.cc:584] TIMEOUT self_rank = 0 pair_rank = 1 peer_str = [127.0.0.1]:12698

----------------------
Error Message Summary:
----------------------
FatalError: `Process abort signal` is detected by the operating system.
  [SignalInfo: *** SIGABRT (@0xc8c) received by PID 3212 (TID 0x7f06c8fceb80) from PID 3212 ***]
"""

SPAWN = """\
  File "torch/multiprocessing/spawn.py", line 211, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/tmp/sp.py", line 5, in w
    if m=="exit": raise ValueError("no such thing")
ValueError: no such thing
"""

FAILED = Outcome.FAILED


def judged(folder: Path, log: str, code: int = 1, oom_kills: int = 0) -> tuple[Outcome, str | None]:
    (folder / "train.log").write_text(log)
    return classify([NodeExit(code, oom_kills, folder / "train.log")], folder / "events.jsonl", ranks=2)


def openmpi(rank: int, code: int) -> str:
    return OPENMPI_4.replace("RANK", str(rank)).replace("CODE", str(code))


def paddle(folder: Path, rank: int, code: int, *logs: str) -> str:
    (folder / "paddle").mkdir()
    for number, text in enumerate(logs):
        (folder / "paddle" / f"workerlog.{number}").write_text(text)
    return PADDLE.replace("RANK", str(rank)).replace("CODE", str(code))


def test_openmpis_failed_rank_is_quoted_by_its_own_words(tmp_path: Path) -> None:
    assert judged(tmp_path, openmpi(1, 1)) == (
        FAILED,
        "rank 1 ended with exit code 1: ValueError: this is why",
    )
    assert judged(tmp_path, OPENMPI_5) == (
        FAILED,
        "rank 12 ended with exit code 1: ValueError: no such thing",
    )


def test_a_rank_that_only_lost_another_one_is_not_blamed_where_that_one_says_why(tmp_path: Path) -> None:
    assert judged(tmp_path, openmpi(0, 1)) == (FAILED, "rank 1 failed: ValueError: this is why")


def test_a_rank_that_raises_and_aborts_on_its_way_out_is_quoted(tmp_path: Path) -> None:
    raised = OPENMPI_4.partition(f"{74 * '-'}\n")[0]
    aborted = OPENMPI_4_KILLED.replace("rank 13", "rank 1").replace("signal 9 (Killed)", "signal 6 (Aborted)")
    why = "rank 1 was killed by signal 6 (SIGABRT): ValueError: this is why"
    assert judged(tmp_path, raised + aborted, 134) == (FAILED, why)


def test_a_silent_rank_of_openmpi_is_not_given_mpiruns_words(tmp_path: Path) -> None:
    log = "[1,0]<stdout>:step 3/10\n" + openmpi(2, 7).partition("peer [127.0.0.1]:45730.\n")[2]
    assert judged(tmp_path, log, 7) == (FAILED, "rank 2 ended with exit code 7")


@pytest.mark.parametrize(("log", "rank"), [(OPENMPI_4_KILLED, 13), (OPENMPI_5_KILLED, 1)])
def test_a_killed_rank_of_openmpi_is_named(tmp_path: Path, log: str, rank: int) -> None:
    assert judged(tmp_path, log, 137) == (FAILED, f"rank {rank} was killed by signal 9 (SIGKILL)")
    assert judged(tmp_path, log, 137, oom_kills=1) == (
        Outcome.OOM,
        f"rank {rank} was killed by the kernel because memory ran out",
    )


def test_what_keeps_openmpi_from_starting_the_ranks_is_quoted_from_its_beginning(tmp_path: Path) -> None:
    reason = judged(tmp_path, NO_SLOTS)[1] or ""
    assert reason.startswith(
        "the program ended with exit code 1: There are not enough slots available in the system to satisfy the 3 slots"
    )


def test_paddle_names_the_rank_that_lost_another_and_that_ones_words_are_the_reason(tmp_path: Path) -> None:
    log = paddle(tmp_path, 0, -6, LOST_IN_PADDLE, "1 step 4\nValueError: no such thing\n")
    assert judged(tmp_path, log + LOST_IN_PADDLE, 250) == (FAILED, "rank 1 failed: ValueError: no such thing")


def test_when_the_other_rank_is_silent_the_loss_is_reported(tmp_path: Path) -> None:
    log = paddle(tmp_path, 0, -6, LOST_IN_PADDLE, "1 step 4\n")
    reason = judged(tmp_path, log + LOST_IN_PADDLE, 250)[1] or ""
    assert reason.startswith(
        "rank 0 lost contact with another rank: what():  [gloo/transport/tcp/pair.cc:584] TIMEOUT"
    )
    assert judged(tmp_path, log + LOST_IN_PADDLE, 250, oom_kills=1)[0] is Outcome.OOM


def test_a_rank_without_memory_is_found_in_its_own_file(tmp_path: Path) -> None:
    log = paddle(tmp_path, 0, -6, LOST_IN_PADDLE, "ResourceExhaustedError: Out of memory error on GPU 1.\n")
    assert judged(tmp_path, log, 250) == (
        Outcome.OOM,
        "out of memory on rank 1: ResourceExhaustedError: Out of memory error on GPU 1.",
    )


def test_a_spawned_rank_is_named_by_the_exception_that_pytorch_quotes(tmp_path: Path) -> None:
    assert judged(tmp_path, SPAWN) == (FAILED, "rank 1 failed: ValueError: no such thing")


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("signal SIGKILL", "rank 1 was killed by signal 9 (SIGKILL)"),
        ("exit code 3", "rank 1 ended with exit code 3"),
    ],
)
def test_a_spawned_rank_that_ended_without_an_exception_is_named(
    tmp_path: Path, ending: str, reason: str
) -> None:
    log = f"torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with {ending}\n"
    assert judged(tmp_path, log) == (FAILED, reason)


def test_an_early_error_that_was_survived_is_not_the_last_word(tmp_path: Path) -> None:
    log = "[rank0]: ImportError: no optional thing\nstep 1/9\n[rank0]: KeyError: 'x'\n"
    assert judged(tmp_path, log) == (FAILED, "rank 0 failed: KeyError: 'x'")


def test_a_refused_connection_is_the_reason_where_no_other_rank_says_more(tmp_path: Path) -> None:
    log = "ImportError: no optional thing\nConnectionRefusedError: [Errno 111] Connection refused\n"
    assert judged(tmp_path, log) == (
        FAILED,
        "the program ended with exit code 1: ConnectionRefusedError: [Errno 111] Connection refused",
    )
