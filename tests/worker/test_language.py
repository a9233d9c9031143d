"""Language models: what every framework that trains them promises of a run."""

import math
from pathlib import Path
from typing import Any

import pytest
from preloaded_worker import COMPILERS, assert_loader_processes_change_nothing, start
from worker_process import Ran

from frameworks import in_frameworks, in_pytorch, of_each
from trainmark.dataset.tokens import TokenSpec, make_tokens

pytestmark = pytest.mark.training

MODEL = "gpt2_tiny"
RUN: dict[str, Any] = {
    "model": MODEL,
    "batch-per-device": 4,
    "sequence-length": 32,
    "accumulation": 2,
    "steps": 8,
    "warmup-steps": 2,
    "learning-rate": 0.001,
}
BATCH, LENGTH, STEPS, WARMUP = 4, 32, 8, 2
PARAMETERS = 139_584


# XLA compiles for most of the time of a JAX test: often it is asked on images (test_conformance.py).
every_framework = of_each(COMPILERS, scope="module", rarely=["jax"])


@pytest.fixture(scope="module")
def folder(framework: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(framework)


@pytest.fixture(scope="module")
def whole(framework: str, folder: Path) -> Ran:
    return start(framework, folder, {**RUN, "compiler": COMPILERS[framework]})[0]


@every_framework
def test_a_run_counts_tokens_and_sequences(whole: Ran) -> None:
    assert whole.code == 0, whole.stderr
    told = whole.parameters
    assert (told["task"], told["unit"]) == ("causal-lm", "tokens/s")
    assert told["work"] == {"tokens": BATCH * LENGTH, "sequences": BATCH}
    measured = (STEPS - WARMUP) * BATCH
    assert whole.last["work"] == {"tokens": measured * LENGTH, "sequences": measured}
    assert whole.last["throughput"] == measured * LENGTH / whole.last["window_s"]
    assert not {"layout", "image_size", "classes"} & set(told)
    assert (whole.last["outcome"], whole.last["suspect"]) == ("ok", [])


@every_framework
def test_a_run_says_what_it_really_computed_with(whole: Ran) -> None:
    actual = whole.parameters["actual"]
    assert actual["parameters"] == PARAMETERS
    assert (actual["compute_dtype"], actual["weight_dtype"]) == ("float32", "float32")
    assert actual["residual_dtype"] == "float32"
    seen = (actual["batch_per_device"], actual["sequence_length"], actual["accumulation"])
    assert seen == (BATCH, LENGTH, 2)
    optimizer = whole.parameters["optimizer"]
    assert (optimizer["name"], optimizer["second_momentum"], optimizer["epsilon"]) == ("AdamW", 0.95, 1e-8)


@every_framework
def test_the_loss_begins_at_guessing_and_the_one_batch_is_learned(whole: Ran) -> None:
    losses = [step["loss"] for step in whole.steps]
    assert abs(losses[0] - math.log(512)) < 0.2
    assert losses == sorted(losses, reverse=True)


@every_framework
def test_the_steps_after_the_window_are_looked_into(whole: Ran) -> None:
    looked = whole.last["after_window"]
    assert looked["learning_rate_asked"] == pytest.approx(0.0007)
    if looked["learning_rate"] is not None:
        assert looked["learning_rate"] == pytest.approx(0.0007, rel=0.01)
        assert looked["gradient_factor"] == pytest.approx(1, rel=0.01)
        assert looked["residual"] < 0.01


@every_framework
def test_two_ranks_stay_alike(framework: str, tmp_path: Path) -> None:
    first, second = start(framework, tmp_path, {**RUN, "compiler": COMPILERS[framework]}, ranks=2)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.last["ranks_agree"]
    assert first.last["work"]["sequences"] == 2 * (STEPS - WARMUP) * BATCH
    assert first.last["suspect"] == []


@every_framework
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {"sequence-length": 129},
            "a sequence of 129 tokens is longer than the 128 positions of gpt2_tiny",
        ),
        ({"accumulation": 3}, "a batch of 4 cannot be cut into 3 equal parts (accumulation)"),
    ],
    ids=["positions", "parts"],
)
def test_what_cannot_be_trained_is_an_outcome(
    framework: str, tmp_path: Path, flags: dict[str, int], said: str
) -> None:
    ran = start(framework, tmp_path, {**RUN, **flags})[0]
    assert (ran.code, ran.last["outcome"], ran.last["reason"]) == (3, "unsupported", said)


@pytest.fixture(scope="module")
def words(folder: Path) -> Path:
    """Return packed tokens of the small model's vocabulary."""
    make_tokens(folder / "words", TokenSpec(tokens=4000, vocabulary=512, seed=1))
    return folder / "words"


@every_framework
def test_real_tokens_are_read_in_the_order_of_the_seed(framework: str, words: Path, folder: Path) -> None:
    given = {**RUN, "compiler": COMPILERS[framework], "data": words, "loader-workers": 1, "learning-rate": 0}
    ran = start(framework, folder, given)[0]
    assert ran.code == 0, ran.stderr
    assert (ran.parameters["data"], ran.parameters["epoch_sequences"]) == (str(words), 3999 // LENGTH)
    assert ran.last["after_window"]["batch_changed"]
    loading = ran.last["loading"]
    assert loading["consumed"] == [(STEPS - WARMUP) * BATCH]
    assert loading["produced"] != [None]
    assert ran.doubts == []
    # Nothing is learned: each step's loss is that of its tokens under weights that hardly tell them apart.
    losses = [step["loss"] for step in ran.steps]
    assert len(set(losses)) > len(losses) / 2
    assert all(abs(loss - math.log(512)) < 0.2 for loss in losses)


@every_framework
def test_the_number_of_loader_processes_changes_nothing_in_the_batches(
    framework: str, words: Path, folder: Path
) -> None:
    assert_loader_processes_change_nothing(framework, folder, {**RUN, "data": words})


@every_framework
def test_a_token_outside_the_vocabulary_ends_the_run_and_is_named(
    framework: str, words: Path, tmp_path: Path
) -> None:
    data = (words / "train.bin").read_bytes()
    (tmp_path / "train.bin").write_bytes(data[:2000] + (600).to_bytes(2, "little") + data[2002:])
    ran = start(
        framework, tmp_path, {**RUN, "data": tmp_path, "steps": 60, "compiler": COMPILERS[framework]}
    )[0]
    assert (ran.code, ran.last["outcome"]) == (3, "failed")
    assert ran.last["reason"] == (
        f"token 1000 of {tmp_path / 'train.bin'} is 600, outside of the model's vocabulary of 512"
    )


@in_pytorch
def test_gradients_that_are_summed_over_the_ranks_show_in_the_optimizers_moments(tmp_path: Path) -> None:
    first, second = start("pytorch", tmp_path, {**RUN, "gradients": "flat"}, "ranks-summed", ranks=2)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    (doubt,) = [found["sentence"] for found in first.last["suspect"] if found["code"] == "update-differs"]
    assert "the gradients of the 2 ranks are summed instead of averaged" in doubt


@pytest.mark.parametrize(
    ("framework", "model", "added_in"),
    [
        pytest.param("pytorch", "gpt2_tiny", "float32", marks=in_frameworks("pytorch")),
        pytest.param("pytorch", "llama_tiny", "float32", marks=in_frameworks("pytorch")),
        pytest.param("pytorch", "bert_tiny", "float32", marks=in_frameworks("pytorch")),
        pytest.param("tensorflow", "gpt2_tiny", "bfloat16", marks=in_frameworks("tensorflow")),
        pytest.param("jax", "llama_tiny", "bfloat16", marks=in_frameworks("jax", rarely=True)),
    ],
)
def test_the_type_that_blocks_are_added_in_is_told_where_no_precision_says_it(
    framework: str, model: str, added_in: str, tmp_path: Path
) -> None:
    """Autocast adds in FP32, TensorFlow and JAX in the type of the products: another step under one name."""
    given = {**RUN, "model": model, "precision": "amp-bf16", "compiler": COMPILERS[framework], "steps": 3}
    ran = start(framework, tmp_path, {**given, "warmup-steps": 1})[0]
    assert ran.code == 0, ran.stderr
    assert ran.parameters["actual"]["compute_dtype"] == "bfloat16"
    assert ran.parameters["actual"]["residual_dtype"] == added_in


@in_pytorch
def test_steps_that_overflow_are_counted_and_most_of_them_are_a_doubt(tmp_path: Path) -> None:
    """A dynamic scale is tried out: what it makes overflow is left out by the optimizer, and by its count of steps."""
    ran = start("pytorch", tmp_path, {**RUN, "precision": "amp-fp16", "steps": 40}, "scale-too-large")[0]
    assert ran.code == 0, ran.stderr
    looked = ran.last["after_window"]
    assert looked["steps_skipped"] > 10
    assert looked["steps_taken"] == 40 - looked["steps_skipped"]
    codes = [doubt["code"] for doubt in ran.last["suspect"]]
    assert "steps-not-taken" not in codes
    assert "steps-skipped" in codes


@of_each(["pytorch", "tensorflow", "jax"], rarely=["tensorflow", "jax"])
def test_a_moment_that_is_stored_in_16_bits_is_in_doubt(framework: str, tmp_path: Path) -> None:
    given = {**RUN, "compiler": COMPILERS[framework]}
    ran = start(framework, tmp_path, given, "moment-in-bf16")[0]
    assert ran.code == 0, ran.stderr
    (sentence,) = [one["sentence"] for one in ran.last["suspect"] if one["code"] == "stored-in-16-bits"]
    assert sentence.startswith("All elements of the first moment of ")


@in_pytorch
@pytest.mark.parametrize("what", ["weights", "gradients"])
def test_weights_and_gradients_of_16_bits_are_in_doubt_in_a_run_of_fp32(what: str, tmp_path: Path) -> None:
    # A sum of two parts would have more digits than each of them.
    ran = start("pytorch", tmp_path, {**RUN, "accumulation": 1}, f"{what}-in-bf16")[0]
    assert ran.code == 0, ran.stderr
    assert "stored-in-16-bits" in [doubt["code"] for doubt in ran.last["suspect"]]
    assert any(what[:-1] in array for array in ran.last["after_window"]["narrow"])
