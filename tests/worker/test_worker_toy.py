"""A framework and a task of another tree: found by TRAINMARK_EXTENSIONS, trained by the worker like its own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from worker_process import START, Ran, end_group, ended, rank_variables, wait_for_steps

from trainmark.placement import free_ports

TOY = Path(__file__).parents[1] / "toy"
FLAGS = ("--framework=toy", "--steps=8", "--warmup-steps=2")
TASK = ("--task=toy-regression", "--features=4")


def start(
    events: Path, *flags: str, here: Path | str | None = None, **variables: str
) -> "subprocess.Popen[str]":
    """Start one rank with this Python, which has numpy."""
    return subprocess.Popen(
        [sys.executable, str(START), *FLAGS, *flags, f"--events={events}"],
        env={**os.environ, "TRAINMARK_EXTENSIONS": str(TOY), **variables},
        stdin=subprocess.PIPE if "TRAINMARK_WAITS" in variables else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=here,
    )


def train(folder: Path, *flags: str, **variables: str) -> Ran:
    events = folder / "events.jsonl"
    return ended(start(events, *flags, **variables), events)


def test_a_toy_of_another_tree_trains_and_counts_its_own_work(tmp_path: Path) -> None:
    ran = train(tmp_path, *TASK)

    assert (ran.code, ran.stderr) == (0, "")
    told = ran.parameters
    assert (told["framework"], told["task"], told["model"]) == ("toy", "toy-regression", "linear")
    assert (told["work"], told["unit"], told["features"]) == ({"values": 128, "samples": 32}, "values/s", 4)
    assert not {"layout", "image_size", "classes", "epoch_images"} & set(told)
    assert told["optimizer"]["learning_rate"] == 0.05
    losses = [step["loss"] for step in ran.steps]
    assert len(losses) == 8
    assert losses[-1] < losses[0] / 2
    assert (ran.last["outcome"], ran.last["work"], ran.last["samples"]) == (
        "ok",
        {"values": 768, "samples": 192},
        192,
    )
    assert (ran.last["unit"], ran.last["suspect"]) == ("values/s", [])
    assert ran.last["throughput"] == 768 / ran.last["window_s"]


def test_a_worker_that_is_started_ahead_and_gets_no_word_ends_without_a_trace(tmp_path: Path) -> None:
    run, events = tmp_path / "run", tmp_path / "run" / "events.jsonl"
    process = start(events, *TASK, TRAINMARK_WAITS=str(run))

    assert process.communicate(timeout=300) == ("", "")
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_is_started_ahead_trains_after_the_word_in_the_folder_of_its_run(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    events = run / "events.jsonl"
    process = start(events, *TASK, TRAINMARK_WAITS=str(run))
    run.mkdir()
    assert process.stdin is not None
    process.stdin.write("\n")

    ran = ended(process, events)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.last["outcome"] == "ok"


def test_the_task_is_that_of_the_model_and_two_ranks_stay_alike(tmp_path: Path) -> None:
    events, port = tmp_path / "events.jsonl", free_ports(8)
    ranks = [start(events, "--model=linear", **rank_variables(rank, 2, port)) for rank in range(2)]
    first, second = (ended(rank, events) for rank in ranks)

    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.parameters["task"] == "toy-regression"
    assert (first.parameters["work"], first.parameters["backend"]) == ({"values": 512, "samples": 64}, "tcp")
    assert first.last["work"] == {"values": 3072, "samples": 384}
    assert first.last["ranks_agree"]


def test_equal_work_is_checked_by_what_the_task_says_of_its_weights(tmp_path: Path) -> None:
    inputs, points = tmp_path / "inputs.npz", np.eye(4, dtype=np.float32)
    np.savez(inputs, weight=np.ones(4, np.float32), points=points, values=np.zeros(4, np.float32))

    told = train(tmp_path, *TASK, "--batch-per-device=4", f"--equivalence={inputs}").last["equivalence"]

    assert (told["features"], told["parameters"], len(told["steps"])) == (4, 4, 3)
    first = told["steps"][0]
    assert (first["loss"], first["predictions"], first["statistics"]) == (0.5, [1.0] * 4, {})
    # The gradient is the weight over the batch; the update is that, 0.05 times.
    assert first["gradients"]["weight"]["norm"] == 0.5
    assert first["updates"]["weight"]["norm"] == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--task=image-classification",),
            "toy's worker does not train image-classification; it trains toy-regression",
        ),
        (("--task=toy-regression", "--data=somewhere"), "toy reads no data; it has the synthetic alone"),
        (("--model=linear", "--precision=bf16"), "toy has no precision 'bf16'; it has fp32"),
    ],
)
def test_what_the_toy_does_not_train_is_unsupported(
    tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    ran = train(tmp_path, *flags)

    assert ran.code == 3
    assert (ran.last["outcome"], ran.last["reason"]) == ("unsupported", said)


def test_a_third_tree_adds_a_task_to_a_framework_that_is_there(tmp_path: Path) -> None:
    for path, code in {
        "tasks/steep_regression/__init__.py": "from trainmark_worker.tasks.toy_regression import ToyRegression\n"
        "class Steep(ToyRegression):\n    name, models = 'steep-regression', ('steep',)\nTASK = Steep()\n",
        "models/toy_steep_regression.py": "from trainmark_worker.tasks.steep_regression import TASK\n"
        "from trainmark_worker.models.toy_toy_regression import ToyRegressionTraining\n"
        "class open_training(ToyRegressionTraining):\n    task = TASK\n",
    }.items():
        module = tmp_path / "worker" / path
        module.parent.mkdir(parents=True)
        module.write_text(code)

    ran = train(tmp_path, "--model=steep", TRAINMARK_EXTENSIONS=f"{TOY}{os.pathsep}{tmp_path}")

    assert ran.code == 0, ran.stderr
    assert (ran.parameters["task"], ran.last["unit"]) == ("steep-regression", "values/s")


def test_without_its_tree_the_toy_is_no_choice(tmp_path: Path) -> None:
    ran = train(tmp_path, TRAINMARK_EXTENSIONS="")

    assert ran.code == 2
    assert "--framework: invalid choice: 'toy'" in ran.stderr


def test_a_flag_of_another_task_is_none_of_this_one(tmp_path: Path) -> None:
    ran = train(tmp_path, "--model=linear", "--image-size=32")

    assert ran.code == 2
    assert "unrecognized arguments: --image-size=32" in ran.stderr


def test_runs_train_in_the_folder_for_compiled_modules_which_they_share(tmp_path: Path) -> None:
    """CUDA finds what it compiled from the same working directory only."""
    shared = tmp_path / "cache" / "bytecode"
    process = start(
        tmp_path / "events.jsonl", *TASK, "--steps=1000000", here=tmp_path, TRAINMARK_BYTECODE=str(shared)
    )
    wait_for_steps(process)
    entered = Path(f"/proc/{process.pid}/cwd").readlink()
    end_group(process)
    assert entered == shared


def test_paths_of_flags_are_those_of_the_folder_in_which_the_worker_is_started(tmp_path: Path) -> None:
    shared = tmp_path / "cache"
    process = start(Path("own.jsonl"), *TASK, here=tmp_path, TRAINMARK_BYTECODE=str(shared))
    assert ended(process, tmp_path / "own.jsonl").last["outcome"] == "ok"


PLANTED = """
import atexit, runpy, subprocess, sys
atexit.register(print, "freed")
child = subprocess.Popen(["sleep", "1000"])
print("child", child.pid, flush=True)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_whole_run_of_one_rank_ends_at_once_with_its_children(tmp_path: Path, ranks: int) -> None:
    events, port = tmp_path / "events.jsonl", free_ports(8)
    words = [sys.executable, "-c", PLANTED, str(START), *FLAGS, *TASK, f"--events={events}"]
    outputs = [tmp_path / f"rank{rank}.txt" for rank in range(ranks)]
    started = []
    for rank, output in enumerate(outputs):
        own = {**os.environ, "TRAINMARK_EXTENSIONS": str(TOY), **rank_variables(rank, ranks, port)}
        with output.open("w") as file:
            started.append(subprocess.Popen(words, env=own, stdout=file, text=True, start_new_session=True))
    assert [process.wait(timeout=60) for process in started] == [0] * ranks
    assert '"outcome": "ok"' in events.read_text().splitlines()[-1]
    for process, output in zip(started, outputs, strict=True):
        said = output.read_text()
        # Ranks of MPI take leave of one another while their interpreters end.
        assert ("freed" in said) == (ranks > 1)
        child = Path("/proc", said.split()[1], "stat")
        lives = child.exists() and ") Z " not in child.read_text()
        assert lives == (ranks > 1)
        end_group(process)
