"""Flags, places, events and reports: what needs no framework."""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from trainmark.worker.core.arguments import parse
from trainmark.worker.core.place import place_from
from trainmark.worker.core.report import EventWriter, RankTotals, step_events, summary
from trainmark.worker.core.window import Timeline
from trainmark.worker.tasks.image_classification import TASK
from trainmark.worker.tasks.image_classification.architectures import ARCHITECTURES

START = Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker" / "start.py"

SETTINGS = parse(["--framework", "pytorch"], world_size=1)
TIMELINE = Timeline(
    first_step_s=5.0,
    step_s=[5.0, 0.5, 0.25, 0.25],
    window_ns=500_000_000,
    first_step_at=1000.0,
    window_at=1010.0,
    compile_s=None,
    compiled_in_window=False,
)


def rank(window_ns: int = 500_000_000, digest: int = 1, compiled: int = 0) -> RankTotals:
    return RankTotals(window_ns, 64, 10**9, digest, compiled)


def test_the_learning_rate_grows_with_the_global_batch() -> None:
    flags = ["--framework", "pytorch", "--batch-per-device", "128"]

    assert parse(flags, world_size=1).recipe.learning_rate == 0.128
    assert parse(flags, world_size=8).recipe.learning_rate == 1.024
    assert parse([*flags, "--learning-rate", "0.1"], world_size=8).recipe.learning_rate == 0.1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--steps", "20"], "--steps (20) must be more than --warmup-steps (20)"),
        (["--warmup-steps", "0"], "--warmup-steps must be at least 1"),
        (["--precision", "fp4"], "invalid choice: 'fp4'"),
        (["--batch-per-device", "0"], "must be at least 1"),
        (["--loss-scale", "big"], "neither 'dynamic' nor a number"),
    ],
)
def test_flags_that_cannot_be_used_end_with_code_2_and_a_sentence(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(["--framework", "pytorch", *flags], world_size=1)

    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_a_process_without_a_launcher_is_alone() -> None:
    assert not place_from({}).distributed


def test_openmpi_tells_a_rank_its_place_and_a_process_of_its_own_is_none() -> None:
    said = {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}
    meeting = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29400"}
    openmpi = {f"OMPI_COMM_WORLD_{name}": value for name, value in said.items()}
    place = place_from({**openmpi, **meeting, "TRAINMARK_NODES": "10.0.0.1,10.0.0.2"})
    assert place[:6] == (3, 4, 1, 2, "10.0.0.1", 29400)
    assert place.address_of(1) == "10.0.0.1"
    assert place.address_of(3) == "10.0.0.2"
    assert not place_from({**openmpi, "OMPI_COMM_WORLD_SIZE": "1"}).distributed


def test_half_a_launcher_is_refused() -> None:
    with pytest.raises(ValueError, match="MASTER_ADDR, MASTER_PORT"):
        place_from({"WORLD_SIZE": "2", "RANK": "0"})
    with pytest.raises(ValueError, match="RANK is 'x'"):
        place_from({"WORLD_SIZE": "2", "RANK": "x", "MASTER_ADDR": "a", "MASTER_PORT": "1"})


def test_the_architectures_have_the_parameters_that_are_published() -> None:
    assert ARCHITECTURES["resnet50_v1.5"].parameters(1000) == 25_557_032
    assert ARCHITECTURES["mobilenet_v1"].parameters(1000) == 4_231_976


def test_an_event_has_the_shape_of_dlloggers_stream() -> None:
    out = StringIO()

    EventWriter(out, started_at=100.0).write([0, 3], {"loss": 1.5}, at=102.5)

    line = json.loads(out.getvalue().removeprefix("DLLL "))
    assert line["timestamp"] == "102.5"
    assert line["elapsedtime"] == "2.5"
    assert line["type"] == "LOG"
    assert line["step"] == [0, 3]
    assert line["data"] == {"loss": 1.5}


def test_throughput_is_all_samples_over_the_slowest_ranks_window() -> None:
    told = summary(SETTINGS, TASK, TIMELINE, [rank(), rank(window_ns=800_000_000)], [7.0] * 4, "process")

    assert told["window_s"] == 0.8
    assert told["samples"] == 128
    assert told["throughput"] == 128 / 0.8
    assert told["suspect"] == []


def test_ranks_that_hold_different_parameters_are_suspect() -> None:
    told = summary(SETTINGS, TASK, TIMELINE, [rank(), rank(digest=2)], [7.0] * 4, "process")

    assert told["ranks_agree"] is False
    assert [entry["code"] for entry in told["suspect"]] == ["ranks-disagree"]


def test_a_loss_that_is_not_finite_is_null_in_its_step_and_suspect_in_the_end() -> None:
    losses = [7.0, 6.9, float("nan"), float("inf")]
    settings = parse(["--framework", "pytorch", "--steps", "4", "--warmup-steps", "2"], world_size=1)

    events = step_events(settings, TIMELINE, losses, [0.0] * 4, epoch_samples=100, global_batch=40)
    told = summary(SETTINGS, TASK, TIMELINE, [rank()], losses, "process")

    assert [data["loss"] for _, data, _ in events] == [7.0, 6.9, None, None]
    assert events[2][1]["loss_finite"] is False
    assert told["suspect"] == [{"code": "loss-not-finite", "sentence": "The loss of step 2 is nan."}]
    assert told["outcome"] == "ok"


def test_steps_have_their_phase_their_epoch_and_the_time_at_which_they_ended() -> None:
    settings = parse(["--framework", "pytorch", "--steps", "4", "--warmup-steps", "2"], world_size=1)

    events = step_events(settings, TIMELINE, [7.0] * 4, [0.0] * 4, epoch_samples=100, global_batch=40)

    assert [step for step, _, _ in events] == [[0, 0], [0, 1], [0, 2], [1, 3]]
    assert [data["phase"] for _, data, _ in events] == ["first_step", "warmup", "measured", "measured"]
    assert [at for _, _, at in events] == [1005.0, 1005.5, 1010.25, 1010.5]


def test_compiling_in_the_window_is_suspect() -> None:
    told = summary(SETTINGS, TASK, TIMELINE, [rank(), rank(compiled=1)], [7.0] * 4, "process")

    assert [entry["code"] for entry in told["suspect"]] == ["compiled-in-window"]


def test_the_workers_folder_does_not_shadow_what_a_framework_imports() -> None:
    folder = str(START.parent)
    code = f"""
import runpy, sys
sys.path.insert(0, {folder!r})
runpy.run_path({str(START)!r})
print({folder!r} in sys.path, "trainmark_worker" in sys.modules)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.split() == ["False", "True"]


def test_an_environment_without_the_framework_is_unsupported_and_says_which_python_it_was(
    tmp_path: Path,
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('No module named torch, or half of one')")
    events = tmp_path / "events.jsonl"

    done = subprocess.run(
        [sys.executable, str(START), "--framework", "pytorch", "--events", str(events)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
        check=False,
    )

    assert done.returncode == 3
    last = json.loads(events.read_text().splitlines()[-1].removeprefix("DLLL "))["data"]
    assert last["outcome"] == "unsupported"
    assert sys.executable in last["reason"]
    assert last["reason"] in done.stderr


LOADER_ENDS_MEANWHILE = """
import os
import signal
from types import SimpleNamespace
from trainmark.worker.core import program
from trainmark.worker.core.outcomes import FAILED, RunError

def raise_as_torch(*_):
    raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed.")

def run(*_):
    signal.signal(signal.SIGCHLD, raise_as_torch)
    raise RunError(FAILED, "a loader process ended")

def classify(error, _failures):
    os.kill(os.getpid(), signal.SIGCHLD)
    return error

program.import_backend = program.import_trainer = lambda *_: SimpleNamespace(FAILURES=(), open_training=print)
program._run, program.classify = run, classify
program.main(["--framework", "pytorch"])
"""


def test_a_loader_process_that_ends_while_the_outcome_is_written_does_not_replace_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADER_ENDS_MEANWHILE], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 3
    assert ran.stderr.splitlines()[-1] == "trainmark-worker: rank 0: failed: a loader process ended"
