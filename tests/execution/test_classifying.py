"""From exit codes, logs and events to outcomes, for the endings that a test cannot bring about cheaply."""

import json
from pathlib import Path

import pytest

from trainmark.execution.classify import NodeExit, classify
from trainmark.node import last_step, read_tail
from trainmark.schema.outcome import Outcome

TORCHRUN = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
start.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_05:00:00
  host      : node
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4711
============================================================
"""


TORCHRUN_OF_TWO = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
start.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_06:30:46
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 6006)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 6006
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_06:30:46
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : 3 (pid: 6005)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
"""As torch 2.13 printed it: rank 1 was killed, and rank 0 was quicker to end than torchrun to see it."""


def judged(tmp_path: Path, log: str | bytes, code: int, oom_kills: int = 0) -> tuple[Outcome, str | None]:
    path = tmp_path / "train.log"
    path.write_bytes(log.encode() if isinstance(log, str) else log)
    return classify([NodeExit(code, oom_kills, path)], tmp_path / "events.jsonl", ranks=2)


def say(path: Path, **data: object) -> None:
    path.write_text("DLLL " + json.dumps({"step": [], "data": data}) + "\n")


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.",
        "MemoryError",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
    ],
)
def test_every_frameworks_words_for_no_memory_are_oom(tmp_path: Path, line: str) -> None:
    assert judged(tmp_path, f"step 3/10\n{line}\n", 1) == (Outcome.OOM, f"out of memory: {line}")


def test_the_reason_is_the_last_complaint_about_memory(tmp_path: Path) -> None:
    log = "warning: out of memory, trying a smaller workspace\nstep 3/10\nMemoryError: at last\n"
    assert judged(tmp_path, log, 1)[1] == "out of memory: MemoryError: at last"


def test_an_error_after_a_full_disk_says_so(tmp_path: Path) -> None:
    line = "OSError: [Errno 28] No space left on device: '/dev/shm/torch'"
    assert judged(tmp_path, f"{line}\nmore\n", 1) == (Outcome.FAILED, f"a disk is full: {line}")


FATAL = """\
step 3/10
Fatal Python error: {}

Thread 0x00007f (most recent call first):
  File "/usr/lib/threading.py", line 1 in wait

Current thread 0x00008f (most recent call first):
  File "/a/train.py", line 7 in main

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)
"""


@pytest.mark.parametrize("error", ["Segmentation fault", "Bus error", "Aborted"])
def test_a_fatal_error_of_python_is_the_reason_and_not_the_libraries_that_it_names(
    tmp_path: Path, error: str
) -> None:
    """Of NVIDIA's ``multiproc.py`` nothing else is known: it ends with 1 when a rank has crashed."""
    assert judged(tmp_path, FATAL.format(error), 1) == (
        Outcome.FAILED,
        f"the program ended with exit code 1: Fatal Python error: {error}",
    )


def test_a_crash_says_where_python_was(tmp_path: Path) -> None:
    crashed = FATAL.format("Segmentation fault")
    assert judged(tmp_path, crashed, -11) == (
        Outcome.FAILED,
        "the program was killed by signal 11 (SIGSEGV), in main (train.py:7)",
    )
    of_two = TORCHRUN.replace("-9", "-11").replace("Signal 9 (SIGKILL)", "Signal 11 (SIGSEGV)")
    reason = "rank 1 was killed by signal 11 (SIGSEGV)"
    assert judged(tmp_path, crashed + of_two, 1)[1] == f"{reason}, in main (train.py:7)"
    nowhere = crashed.replace('  File "/a/train.py", line 7 in main', "  <no Python frame>")
    assert judged(tmp_path, nowhere + of_two, 1)[1] == f"{reason}, outside of Python code"


def test_the_message_of_a_rank_before_it_aborted_is_the_reason(tmp_path: Path) -> None:
    words = "ValueError: this is why\n" + FATAL.format("Aborted")
    assert judged(tmp_path, words, 1)[1] == "the program ended with exit code 1: ValueError: this is why"


def test_the_launcher_names_the_rank_that_died(tmp_path: Path) -> None:
    assert judged(tmp_path, TORCHRUN, 1) == (Outcome.FAILED, "rank 1 was killed by signal 9 (SIGKILL)")


def test_a_rank_that_the_kernel_killed_for_memory_is_oom(tmp_path: Path) -> None:
    assert judged(tmp_path, TORCHRUN, 1, oom_kills=1) == (
        Outcome.OOM,
        "rank 1 was killed by the kernel because memory ran out",
    )


def test_a_rank_that_lost_its_peer_is_not_the_cause(tmp_path: Path) -> None:
    say(
        tmp_path / "events.jsonl",
        outcome="failed",
        reason="lost contact with another rank",
        rank=0,
        peer_lost=True,
    )
    assert judged(tmp_path, TORCHRUN, 1)[1] == "rank 1 was killed by signal 9 (SIGKILL)"
    assert judged(tmp_path, TORCHRUN_OF_TWO, 1)[1] == "rank 1 was killed by signal 9 (SIGKILL)"


def test_without_the_ranks_own_words_the_launchers_root_cause_counts(tmp_path: Path) -> None:
    assert (judged(tmp_path, TORCHRUN_OF_TWO, 1)[1] or "").startswith("rank 0 ended with exit code 3")


def test_ranks_that_the_launcher_ended_are_not_the_cause(tmp_path: Path) -> None:
    log = TORCHRUN_OF_TWO.replace("exitcode  : 3 ", "exitcode  : -15 ")
    assert judged(tmp_path, log, 1)[1] == "rank 1 was killed by signal 9 (SIGKILL)"


def test_when_every_rank_lost_its_peer_the_exit_code_says_more_than_nothing(tmp_path: Path) -> None:
    say(
        tmp_path / "events.jsonl",
        outcome="failed",
        reason="lost contact with another rank",
        rank=0,
        peer_lost=True,
    )
    assert judged(tmp_path, "gone\n", 3) == (Outcome.FAILED, "the program ended with exit code 3: gone")


GAVE_UP = "lost contact with another rank: TIMEOUT self_rank = none pair_rank = -1"


@pytest.mark.parametrize(
    ("place", "elsewhere"),
    [
        ("next (feed.py:77)", True),
        ("all_reduce (torch/distributed/distributed_c10d.py:3252)", False),
        ("quick_execute (tensorflow/python/eager/execute.py:53)", False),
    ],
)
@pytest.mark.parametrize("stopped", [False, True], ids=["lost the other", "was ended"])
def test_the_rank_that_never_came_to_a_collective_is_named_when_the_others_gave_it_up(
    stopped: bool, place: str, elsewhere: bool, tmp_path: Path
) -> None:
    """Paddle's and MindSpore's collectives give up by themselves; that ends the rank that was waited for."""
    say(tmp_path / "events.jsonl", outcome="failed", reason=GAVE_UP, rank=0, peer_lost=True)
    if not stopped:
        gone = f"lost contact with another rank: rank 0 has gone, while it was in {place}"
        say(tmp_path / "events.jsonl.rank1", outcome="failed", reason=gone, rank=1, peer_lost=True)
    end = f"trainmark-worker: rank 1: stopped by SIGTERM, while it was in {place}\n" if stopped else "\n"
    (tmp_path / "train.log").write_text(end)
    outcome, reason = classify([NodeExit(1, 0, tmp_path / "train.log")], tmp_path / "events.jsonl", 2)
    assert outcome is Outcome.FAILED
    assert (reason == f"rank 1 was in {place}, when rank 0 {GAVE_UP}") is elsewhere, reason


def test_of_several_ranks_the_one_without_memory_is_the_cause(tmp_path: Path) -> None:
    say(tmp_path / "events.jsonl", outcome="failed", reason="the other one is gone", rank=0)
    say(tmp_path / "events.jsonl.rank1", outcome="oom", reason="tried to allocate 8 GiB", rank=1)
    assert judged(tmp_path, "", 3) == (Outcome.OOM, "rank 1: tried to allocate 8 GiB")


def test_an_unsupported_case_is_what_its_program_says(tmp_path: Path) -> None:
    say(tmp_path / "events.jsonl", outcome="unsupported", reason="this GPU has no bf16", rank=0)
    assert judged(tmp_path, "", 3) == (Outcome.UNSUPPORTED, "this GPU has no bf16")


def test_a_program_that_says_ok_and_fails_has_failed(tmp_path: Path) -> None:
    say(tmp_path / "events.jsonl", outcome="ok")
    assert judged(tmp_path, "", -11) == (Outcome.FAILED, "the program was killed by signal 11 (SIGSEGV)")


def test_control_characters_of_a_log_stay_out_of_the_reason(tmp_path: Path) -> None:
    reason = judged(tmp_path, b"\x1b[31mbad\x00news\xff\n", 1)[1]
    assert reason == "the program ended with exit code 1: \\u001b[31mbad\\u0000news\ufffd"


def test_a_reason_is_one_line_of_bounded_length(tmp_path: Path) -> None:
    reason = judged(tmp_path, "x" * 1_000_000, 1)[1] or ""
    assert len(reason) < 300
    say(tmp_path / "events.jsonl", outcome="failed", reason="two\nlines", rank=0)
    assert judged(tmp_path, "", 3) == (Outcome.FAILED, "two\\nlines")


def test_a_log_that_was_never_written_is_no_error(tmp_path: Path) -> None:
    assert classify([NodeExit(1, 0, tmp_path / "train.log")], tmp_path / "events.jsonl") == (
        Outcome.FAILED,
        "the program ended with exit code 1",
    )
    assert last_step(read_tail(tmp_path / "train.log")) is None


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (b"step 3/40 done, iter 7", 3),
        (b"iter 12: loss 2", 12),
        (b"global_step: 77 ", 77),
        (b"Iteration [12/50]", 12),
        (b"4 steps per second", None),
        (b"| epoch   1 |    85/  292 batches | lr 20.00 | ms/batch 246.69", 85),
        (b"epoch: 0, batch_id: 38, auc:0.5", 38),
        (b"Epoch[0] Batch [49]\tSpeed: 80.1 samples/sec", 49),
        ("Epoch 1/3\n\x1b[1m 17/422\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━━━\x1b[0m 9s 24ms/step".encode(), 17),
        (b" 17/422 [>....] - ETA: 9s", 17),
        ("\x1b[1m1017/1422\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━━━\x1b[0m 9s 24ms/step".encode(), 1017),
        (b"Epoch: [0][   19/640584]\tTime  1.417 ( 1.570)\tData  0.028", 19),
        (b"Train: 0 [  12/60 ( 20%)]  Loss: 1.40 (1.41)  Time: 0.5s", 12),
        (b"[0/3][50/300]\tLoss_D: 0.1", 50),
        (b"Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3", None),
        (b"Epoch [1/3] loss 0.2", None),
        (b" 12%|#2   | 12/100 [00:03<00:22,  3.9it/s]", 12),
        (b"Map:   0%|          | 0/800 [00:00<?, ? examples/s]", None),
        (b"Map:  40%|####      | 320/800 [00:01<00:00, 9.1 examples/s]\r  1%| | 1/100 [00:03<00:22]", 1),
        (b"7 batches, 4/5 of them read; ratio 1/2 [a]", None),
        (b"I0822 Config param steps: 80\n", None),
        (b"Namespace(batch=64, steps=80, lr=0.1)\nwarmup steps: 10\ndecay steps: 70\n", None),
        (b"Config param steps: 80\nConfig param steps: 80\n", None),
        (b"Config param steps: 80\ncompleted step: 3, seconds: 0.2\n", 3),
        (b"steps: 80\r12:00:07 steps: 100, loss 2\r12:00:08 steps: 200, loss 1\n", 200),
        (b"batch=64\nepoch 0 batch: 1 loss: 2\nepoch 0 batch: 2 loss: 1\n", 2),
    ],
)
def test_the_last_step_is_what_any_program_calls_so(line: bytes, step: int | None) -> None:
    assert last_step(line) == step


def test_the_last_lines_are_those_of_the_rank_that_failed(tmp_path: Path) -> None:
    (tmp_path / "stderr.rank1").write_text("Traceback\nValueError: this is why\n")
    log = "ValueError: this is why\nstep 3/12\ntrainmark-ranks: rank 1 ended with exit code 1\n"
    assert judged(tmp_path, log, 1)[1] == "rank 1 ended with exit code 1: ValueError: this is why"


def test_a_silent_rank_gets_no_other_ranks_message(tmp_path: Path) -> None:
    (tmp_path / "stderr.rank0").write_text("ValueError: lost my peer\n")
    log = "ValueError: lost my peer\ntrainmark-ranks: rank 1 ended with exit code 7\n"
    assert judged(tmp_path, log, 1)[1] == "rank 1 ended with exit code 7"


def test_the_only_program_of_a_node_is_its_rank(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"")
    ended = [NodeExit(-9, 0, tmp_path / "log", node=1), NodeExit(-15, 0, tmp_path / "log", node=0)]
    events = tmp_path / "events.jsonl"
    assert classify(ended, events, ranks=2)[1] == "rank 1 was killed by signal 9 (SIGKILL)"
    assert classify(ended, events, ranks=8)[1] == "the program on node 1 was killed by signal 9 (SIGKILL)"


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("code", "oom_kills", "reason"),
    [
        (3, 0, (Outcome.FAILED, "rank 1 ended with exit code 3")),
        (-9, 0, (Outcome.FAILED, "rank 1 was killed by signal 9 (SIGKILL)")),
        (-9, 1, (Outcome.OOM, "rank 1 was killed by the kernel because memory ran out")),
    ],
)
def test_of_two_nodes_the_rank_that_ended_without_a_word_is_the_cause_and_not_the_one_that_lost_it(
    code: int, oom_kills: int, reason: tuple[Outcome, str], alone: bool, tmp_path: Path
) -> None:
    """``alone``: each rank is its node's only program, and no launcher of ours reports it."""
    logs = tmp_path / "train.log", tmp_path / "train.node1.log"
    lost = "RuntimeError: [pair.cc:537] Read error [10.0.0.2]:44694: Connection reset by peer."
    reported = [f"{lost}\n", "\n"]
    if not alone:
        (tmp_path / "stderr.rank0").write_text(reported[0])
        report = "\ntrainmark-ranks: rank {} ended with exit code {}\n"
        reported = [reported[0] + report.format(0, 1), reported[1] + report.format(1, code)]
    for log, one in zip(logs, reported, strict=True):
        log.write_text(one)
    # The one that lost its peer was the first whose end was seen.
    ended = [NodeExit(1, 0, logs[0], 0), NodeExit(code if alone else 1, oom_kills, logs[1], 1)]
    assert classify(ended, tmp_path / "events.jsonl", ranks=2) == reason
