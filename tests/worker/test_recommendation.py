"""Recommenders: what every framework that trains them promises of a run."""

import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from preloaded_worker import COMPILERS, assert_loader_processes_change_nothing, start
from worker_process import START, Ran, read_events

from frameworks import framework_python, in_pytorch, needs_framework, of_each
from trainmark.dataset.clicks import ClickSpec, convert, make_clicks
from trainmark.dataset.example import encode_lists
from trainmark.dataset.tfrecord import frame
from trainmark.environment import find_entry
from trainmark.tasks.recommendation.axes import Form

pytestmark = pytest.mark.training

MODEL = "wide_deep_tiny"
BATCH, STEPS, WARMUP, VOCABULARY = 64, 8, 2, 500
RUN: dict[str, Any] = {
    "model": MODEL,
    "batch-per-device": BATCH,
    "vocabulary": VOCABULARY,
    "steps": STEPS,
    "warmup-steps": WARMUP,
    "dropout": 0,
}


# XLA compiles for most of the time of a JAX test: often it is asked on images (test_conformance.py).
every_framework = of_each(COMPILERS, scope="module", rarely=["jax"])


@pytest.fixture(scope="module")
def folder(framework: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(framework)


@pytest.fixture(scope="module")
def whole(framework: str, folder: Path) -> Ran:
    return start(framework, folder, {**RUN, "compiler": COMPILERS[framework]})[0]


@every_framework
def test_a_run_counts_samples_and_says_what_it_really_computed_with(whole: Ran) -> None:
    assert whole.code == 0, whole.stderr
    told, actual, optimizer = (
        whole.parameters,
        whole.parameters["actual"],
        whole.parameters["optimizer"],
    )
    assert (told["task"], told["unit"], told["work"]) == ("recommendation", "samples/s", {"samples": BATCH})
    assert whole.last["throughput"] == (STEPS - WARMUP) * BATCH / whole.last["window_s"]
    assert (actual["vocabulary"], actual["embedding_width"], actual["batch_per_device"]) == (
        VOCABULARY,
        16,
        BATCH,
    )
    assert (actual["table_gradients"], actual["compute_dtype"]) == ("dense", "float32")
    assert actual["parameters"] == 17 * VOCABULARY + 35_905
    assert (optimizer["name"], optimizer["second_momentum"], optimizer["dropout"]) == ("Adam", 0.999, 0)
    assert (whole.last["outcome"], whole.last["suspect"]) == ("ok", [])


@every_framework
def test_the_loss_begins_at_guessing_and_the_one_batch_is_learned(whole: Ran) -> None:
    losses = [step["loss"] for step in whole.steps]
    assert abs(losses[0] - math.log(2)) < 0.05
    assert losses == sorted(losses, reverse=True)


@every_framework
def test_the_steps_after_the_window_are_looked_into(whole: Ran) -> None:
    looked = whole.last["after_window"]
    assert looked["learning_rate_asked"] == pytest.approx(0.0007)
    # The last step has another batch: what Adam kept moves the rows of the one before.
    assert looked["rows_left"] == 0
    if looked["learning_rate"] is not None:
        assert looked["learning_rate"] == pytest.approx(0.0007, rel=0.01)
        assert looked["gradient_factor"] == pytest.approx(1, rel=0.01)
        assert looked["residual"] < 0.01


@every_framework
def test_two_ranks_stay_alike_with_dropout(framework: str, tmp_path: Path) -> None:
    given = {**RUN, "compiler": COMPILERS[framework], "dropout": 0.5}
    first, second = start(framework, tmp_path, given, ranks=2)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.last["ranks_agree"]
    assert first.last["work"] == {"samples": 2 * (STEPS - WARMUP) * BATCH}
    assert first.last["suspect"] == []
    looked = first.last["after_window"]
    if framework == "pytorch":
        # Its generators can be set back: each rank's own pass drops what its step drops.
        assert looked["learning_rate"] == pytest.approx(0.0007, rel=1e-3)
        assert looked["gradient_factor"] == pytest.approx(1, rel=1e-3)
    else:
        # Another pass drops other values: what the update was made of cannot be shown.
        assert looked["learning_rate"] is None


BAD = [
    (
        {"vocabulary": 25},
        "unsupported",
        "a vocabulary of 25 has no row for each of the 26 categorical fields",
    ),
    (
        {"weight-decay": 0.1},
        "unsupported",
        "wide_deep_tiny is trained by Adam, which has no weight decay here",
    ),
    (
        {"vocabulary": 10**12},
        "oom",
        "tables of 1000000000000 rows, with gradients and moments, need 272000.0 GB, and there are ",
    ),
    (
        {"vocabulary": 10**7, "memory-limit": 10**9},
        "oom",
        "tables of 10000000 rows, with gradients and moments, need 2.7 GB, and there are 1.0 GB of memory",
    ),
]


@in_pytorch
@pytest.mark.parametrize(("flags", "outcome", "said"), BAD, ids=["vocabulary", "decay", "memory", "limit"])
def test_what_cannot_be_trained_is_an_outcome(
    tmp_path: Path, flags: dict[str, Any], outcome: str, said: str
) -> None:
    """The task says it, whatever the framework."""
    ran = start("pytorch", tmp_path, {**RUN, **flags})[0]
    assert (ran.code, ran.last["outcome"]) == (3, outcome)
    assert ran.last["reason"].startswith(said)


@pytest.fixture(scope="module")
def log(folder: Path) -> Path:
    """Return clicks of as many categories as the tables have rows."""
    make_clicks(folder / "clicks", ClickSpec(samples=1000, vocabulary=VOCABULARY, seed=1))
    return folder / "clicks"


@every_framework
def test_clicks_of_a_file_are_read_in_the_order_of_the_seed(framework: str, log: Path, folder: Path) -> None:
    given = {**RUN, "compiler": COMPILERS[framework], "data": log, "loader-workers": 1, "steps": 14}
    ran = start(framework, folder, given)[0]
    assert ran.code == 0, ran.stderr
    assert (ran.parameters["data"], ran.parameters["epoch_samples"]) == (str(log), 1000)
    assert ran.last["after_window"]["batch_changed"]
    assert ran.last["loading"]["consumed"] == [(14 - WARMUP) * BATCH]
    # Batches differ, and what Adam kept of earlier rows moves rows that the last batch has not.
    assert ran.doubts == []
    if ran.last["after_window"]["learning_rate"] is not None:
        assert ran.last["after_window"]["learning_rate"] == pytest.approx(0.0007, rel=0.01)


@every_framework
def test_the_number_of_loader_processes_changes_nothing_in_the_batches(
    framework: str, log: Path, folder: Path
) -> None:
    assert_loader_processes_change_nothing(framework, folder, {**RUN, "data": log})


@every_framework
def test_a_category_out_of_range_ends_the_run_and_is_named(framework: str, log: Path, tmp_path: Path) -> None:
    words = np.fromfile(log / "train.bin", "<u4").reshape(-1, 40)
    words[500, 16] = 10**6
    shutil.copy(log / "dataset.json", tmp_path)
    words.tofile(tmp_path / "train.bin")
    ran = start(
        framework, tmp_path, {**RUN, "data": tmp_path, "steps": 40, "compiler": COMPILERS[framework]}
    )[0]
    assert (ran.code, ran.last["outcome"]) == (3, "failed")
    said = f"sample 500 of {tmp_path / 'train.bin'} has category 1000000 in C3, which has "
    assert ran.last["reason"].startswith(said)


@needs_framework("tensorflow")
@pytest.mark.xdist_group("worker-tensorflow")
def test_examples_without_a_column_or_cut_end_the_run(tmp_path: Path) -> None:
    make_clicks(tmp_path / "raw", ClickSpec(samples=300, vocabulary=VOCABULARY))
    folder, given = tmp_path / "records", {**RUN, "loader": "tfrecord", "loader-workers": 1}
    convert(tmp_path / "raw", folder, Form.TFRECORD)
    (path,) = folder.glob("*.tfrecord")
    data = path.read_bytes()
    whole = start("tensorflow", tmp_path, {**given, "data": folder})[0]
    assert (whole.code, whole.parameters["epoch_samples"], whole.doubts) == (0, 300, [])
    path.write_bytes(data[:-9])
    # What is not wrong before the cut is trained on: 300 samples are fewer than the steps take.
    cut = start("tensorflow", tmp_path, {**given, "data": folder})[0]
    assert (cut.code, cut.last["outcome"]) == (3, "failed")
    assert cut.last["reason"].startswith(f"{folder} cannot be read: ")
    path.write_bytes(frame(encode_lists({"label": [1]})))
    without = start("tensorflow", tmp_path, {**given, "data": folder})[0]
    assert without.last["reason"] == f"an Example of {folder} has no column C1"


@pytest.mark.rare
@of_each(["pytorch", "tensorflow", "paddle", "jax"])
def test_parquet_is_read_where_the_environment_has_its_extra(framework: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'trainmark[parquet]'")
    make_clicks(tmp_path / "raw", ClickSpec(samples=300, vocabulary=VOCABULARY))
    convert(tmp_path / "raw", tmp_path / "parquet", Form.PARQUET)
    given = {**RUN, "loader": "parquet", "loader-workers": 1, "data": tmp_path / "parquet"}
    events = tmp_path / "parquet.jsonl"
    flags = [f"--{name}={value}" for name, value in {**given, "device": "cpu", "events": events}.items()]
    (extra,) = find_entry(framework).extras["parquet"].requirements
    python, beside = framework_python(framework), tmp_path / "extra"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", beside, extra], check=True
    )

    ran = subprocess.run(
        [python, START, f"--framework={framework}", "--threads=1", *flags],
        env={**os.environ, **find_entry(framework).env_vars, "PYTHONPATH": str(beside)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    last = read_events(events)[-1]["data"]
    assert last["outcome"] == "ok"
    assert last["loading"]["consumed"] == [(STEPS - WARMUP) * BATCH]
    assert last["after_window"]["batch_changed"]


@in_pytorch
def test_a_run_sees_that_its_adam_leaves_rows_alone(tmp_path: Path) -> None:
    (ran,) = start("pytorch", tmp_path, {**RUN, "dropout": 0.5}, "lazy")
    assert ran.code == 0, ran.stderr
    (doubt,) = [found["sentence"] for found in ran.last["suspect"] if found["code"] == "rows-left-alone"]
    assert "do not change: a lazy Adam instead of the published one" in doubt


@in_pytorch
@pytest.mark.parametrize("ranks", [1, 2])
def test_with_sparse_gradients_adam_leaves_rows_alone(ranks: int, tmp_path: Path) -> None:
    ran = start("pytorch", tmp_path, {**RUN, "table-gradients": "sparse"}, ranks=ranks)
    assert [one.code for one in ran] == [0] * ranks, ran[0].stderr
    (told, last) = (ran[0].parameters, ran[0].last)
    assert (told["actual"]["table_gradients"], told["optimizer"]["name"]) == ("sparse", "LazyAdam")
    assert last["suspect"] == []
    assert last["after_window"]["learning_rate"] == pytest.approx(0.0007, rel=0.01)
    assert last["after_window"]["rows_left"] > (0.95 if ranks == 1 else 0.5)


@in_pytorch
def test_a_large_epsilon_is_the_same_one_for_rows_that_a_lazy_adam_moves(tmp_path: Path) -> None:
    (ran,) = start("pytorch", tmp_path, {**RUN, "table-gradients": "sparse", "epsilon": "1e-4"})
    assert ran.last["suspect"] == []
    assert ran.last["after_window"]["learning_rate"] == pytest.approx(0.0007, rel=0.01)


@in_pytorch
def test_gradients_that_are_summed_over_the_ranks_show_in_the_optimizers_moments(tmp_path: Path) -> None:
    ran = start("pytorch", tmp_path, {**RUN, "gradients": "flat"}, "ranks-summed", ranks=2)
    assert [one.code for one in ran] == [0, 0], ran[0].stderr + ran[1].stderr
    (doubt,) = [found["sentence"] for found in ran[0].last["suspect"] if found["code"] == "update-differs"]
    assert "the gradients of the 2 ranks are summed instead of averaged" in doubt
