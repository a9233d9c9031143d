"""Ranks that PyTorch's ``spawn`` starts: the errors that it does not show are found, and the right rank is blamed."""

import pickle
import sys
import time
from pathlib import Path

import pytest

from trainmark.execution.classify import NodeExit, classify
from trainmark.node import Job, JobOnHost, LocalHost, run_jobs
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Command
from trainmark.schema.suite import Limits

LOST = """\


-- Process 0 terminated with the following error:
Traceback (most recent call last):
  File "/code/spawning.py", line 12, in work
RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:45730
"""
RAISED = """\
Traceback (most recent call last):
  File "SCRIPT", line 12, in work
    raise ValueError("this is why")
ValueError: this is why
"""
ABORTED = "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGABRT\n"


@pytest.mark.parametrize("log", [LOST, ABORTED])
def test_the_rank_whose_error_was_not_shown_is_the_cause_of_the_others_loss(tmp_path: Path, log: str) -> None:
    (tmp_path / "train.log").write_text(log)
    (tmp_path / "torch-spawn-error.0").write_text(LOST.partition("error:\n")[2])
    (tmp_path / "torch-spawn-error.1").write_text(RAISED)
    ended = [NodeExit(1, 0, tmp_path / "train.log")]
    assert classify(ended, tmp_path / "events.jsonl", ranks=2) == (
        Outcome.FAILED,
        "rank 1 failed: ValueError: this is why",
    )
    assert (
        classify(ended, tmp_path / "events.jsonl", ranks=4)[1] == "one rank failed: ValueError: this is why"
    )


def test_a_rank_without_memory_is_found_though_another_ones_loss_was_shown(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOST)
    (tmp_path / "torch-spawn-error.0").write_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried 20 MiB\n"
    )
    outcome, reason = classify([NodeExit(1, 0, tmp_path / "train.log")], tmp_path / "events.jsonl", ranks=2)
    assert (outcome, reason) == (
        Outcome.OOM,
        "out of memory: torch.OutOfMemoryError: CUDA out of memory. Tried 20 MiB",
    )


PROGRAM = """\
import pathlib, pickle, sys
for number, text in enumerate(eval(sys.argv[1])):
    pathlib.Path(sys.argv[2], f"pytorch-errorfile-{number}.pickle").write_bytes(pickle.dumps(text))
sys.exit(1)
"""


def test_errors_that_spawn_leaves_in_the_temporary_folder_are_stored_with_the_run(tmp_path: Path) -> None:
    temporary, folder, script = tmp_path / "tmp", tmp_path / "run", tmp_path / "program.py"
    temporary.mkdir()
    folder.mkdir()
    script.write_text(PROGRAM)
    raised, others = RAISED.replace("SCRIPT", str(script)), RAISED.replace("SCRIPT", "/somewhere/else.py")
    old = temporary / "pytorch-errorfile-old.pickle"
    old.write_bytes(pickle.dumps(raised))
    time.sleep(0.2)
    command = Command(
        0,
        (sys.executable, str(script), repr([raised, others]), str(temporary)),
        {"TMPDIR": str(temporary)},
    )
    job = Job((command,), folder, folder / "train.log", str(folder))
    run_jobs([JobOnHost(LocalHost(), job)], Limits())
    assert [path.read_text() for path in folder.glob("torch-spawn-error.*")] == [raised]
    assert sorted(path.name for path in temporary.iterdir()) == [
        "pytorch-errorfile-1.pickle",
        "pytorch-errorfile-old.pickle",
    ], "what is older, or of another program, is left alone"


def test_what_claims_to_be_an_error_file_is_not_run(tmp_path: Path) -> None:
    from trainmark.node.local import _pickled_text

    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (exec, (f"open({str(tmp_path / 'run')!r}, 'w')",))

    _pickled_text(pickle.dumps(Bad()))
    _pickled_text(b"\x80\x04 no pickle")
    assert not (tmp_path / "run").exists()
