"""Masked language modelling: what every framework that pre-trains BERT promises of a run."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from preloaded_worker import COMPILERS, assert_loader_processes_change_nothing, start
from worker_process import Ran, beside

from frameworks import in_pytorch, of_each
from trainmark.dataset.masked import MaskedSpec, make_masked
from trainmark.worker.tasks.masked_lm.architectures import ARCHITECTURES

MODEL = "bert_tiny"

BATCH, LENGTH, PREDICTIONS, STEPS, WARMUP = 4, 32, 5, 8, 2
PADDING = 25
RUN: dict[str, Any] = {
    "model": MODEL,
    "batch-per-device": BATCH,
    "sequence-length": LENGTH,
    "predictions": PREDICTIONS,
    "accumulation": 2,
    "steps": STEPS,
    "warmup-steps": WARMUP,
    "learning-rate": 0.001,
    "dropout": 0,
    "warmup-updates": 0,
}

training = pytest.mark.training
every_framework = of_each(COMPILERS, scope="module", marks=[training])
# Where JAX has another program to compile.
rarely_jax = of_each(COMPILERS, scope="module", marks=[training], rarely=["jax"])


@pytest.fixture(scope="module")
def whole(framework: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    given = {**RUN, "compiler": COMPILERS[framework], "padding": PADDING}
    return start(framework, tmp_path_factory.mktemp(framework), given)[0]


@every_framework
def test_a_run_counts_sequences_and_tokens_and_classifies_the_hidden_words_alone(whole: Ran) -> None:
    assert whole.code == 0, whole.stderr
    told, actual = whole.parameters, whole.parameters["actual"]
    assert (told["task"], told["unit"]) == ("masked-lm", "sequences/s")
    tokens, real = BATCH * LENGTH, BATCH * LENGTH * (100 - PADDING) // 100
    assert told["work"] == {"sequences": BATCH, "tokens": tokens, "tokens_without_padding": real}
    measured = (STEPS - WARMUP) * BATCH
    assert whole.last["work"]["tokens_without_padding"] == (STEPS - WARMUP) * real
    assert actual["tokens_without_padding"] == real
    assert whole.last["throughput"] == measured / whole.last["window_s"]
    seen = {name: actual[name] for name in ("sequence_length", "predictions", "accumulation", "parameters")}
    assert seen == {
        "sequence_length": LENGTH,
        "predictions": PREDICTIONS,
        "accumulation": 2,
        "parameters": ARCHITECTURES[MODEL].parameters(),
    }
    assert actual["residual_dtype"] == "float32"
    assert (whole.last["outcome"], whole.last["suspect"]) == ("ok", [])


@every_framework
def test_the_share_of_the_measured_peak_is_told_by_both_conventions(whole: Ran) -> None:
    peaks, shares = whole.last["peak_operations_per_s"], whole.last["mfu"]
    assert len(peaks) == 1
    # On many cores a larger product is the faster one.
    assert re.fullmatch(r"product of (\d+) x \1 matrices, float32", whole.last["peak_of"])
    assert whole.last["peak_type"] == "float32"
    for name, operations in ARCHITECTURES[MODEL].operations(LENGTH, PREDICTIONS).items():
        assert shares[name] == pytest.approx(operations * whole.last["throughput"] / peaks[0])


@every_framework
def test_the_loss_begins_at_guessing_word_and_sentence_and_the_one_batch_is_learned(whole: Ran) -> None:
    losses = [step["loss"] for step in whole.steps]
    assert abs(losses[0] - math.log(512) - math.log(2)) < 0.3
    assert losses[-1] < losses[0]


def two_ranks(framework: str, folder: Path, optimizer: str) -> Ran:
    """Return rank 0 of a run of two, which has ended well."""
    given = {**RUN, "compiler": COMPILERS[framework], "optimizer": optimizer}
    first, second = start(framework, folder, given, ranks=2)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.last["ranks_agree"]
    assert first.last["suspect"] == []
    return first


@rarely_jax
def test_two_ranks_stay_alike(framework: str, tmp_path: Path) -> None:
    two_ranks(framework, tmp_path, "adamw")


# TensorFlow's two ranks are often asked for AdamW, and its LAMB for one rank's steps (test_equal_steps.py).
@of_each(COMPILERS, marks=[training], rarely=["jax", "tensorflow"])
def test_two_ranks_stay_alike_with_lamb(framework: str, tmp_path: Path) -> None:
    first = two_ranks(framework, tmp_path, "lamb")
    # Of each parameter that decays, from weights and moments alone.
    assert first.last["after_window"]["trust_ratio_off"] < 0.01


@rarely_jax
def test_with_dropout_what_cannot_be_solved_is_null_and_no_doubt(framework: str, tmp_path: Path) -> None:
    ran = start(framework, tmp_path, {**RUN, "dropout": 0.1, "compiler": COMPILERS[framework]})[0]
    assert (ran.code, ran.last["suspect"]) == (0, []), ran.stderr
    looked = ran.last["after_window"]
    if framework == "pytorch":
        # Its generators can be set back: its own pass drops what the step drops.
        assert looked["gradient_factor"] == pytest.approx(1, rel=1e-3)
        assert looked["learning_rate"] == pytest.approx(0.0007, rel=1e-3)
        assert looked["residual"] < 1e-3
    else:
        assert looked["learning_rate"] is None
    assert ran.parameters["optimizer"]["dropout"] == 0.1
    losses = looked["dropout_losses"]
    assert len(losses) == 4
    # Of the same weights: they differ by what is dropped, and not by what is learned.
    assert 0 < max(losses) - min(losses) < 0.3


@of_each(COMPILERS, marks=[training], rarely=["jax", "tensorflow", "paddle"])
@pytest.mark.parametrize("mistake", ["no-dropout", "same-dropout"])
def test_a_step_that_drops_nothing_or_always_the_same_is_in_doubt(
    framework: str, mistake: str, tmp_path: Path
) -> None:
    given = {**RUN, "dropout": 0.1, "accumulation": 1, "compiler": COMPILERS[framework]}
    ran = start(framework, tmp_path, given, mistake)[0]
    assert ran.code == 0, ran.stderr
    (sentence,) = [one["sentence"] for one in ran.last["suspect"] if one["code"] == "dropout-not-random"]
    assert "a dropout of 0.1 was requested" in sentence


@every_framework
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"sequence-length": 129}, "a sequence of 129 tokens is longer than the 128 positions of bert_tiny"),
        ({"predictions": 32}, "32 hidden words are too many for a sequence of 32 tokens"),
        ({"accumulation": 3}, "a batch of 4 cannot be cut into 3 equal parts (accumulation)"),
    ],
    ids=["positions", "predictions", "parts"],
)
def test_what_cannot_be_trained_is_an_outcome(
    framework: str, tmp_path: Path, flags: dict[str, int], said: str
) -> None:
    ran = start(framework, tmp_path, {**RUN, **flags})[0]
    assert (ran.code, ran.last["outcome"], ran.last["reason"]) == (3, "unsupported", said)


# Real sequences.


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return sequences of many lengths, of the small model's vocabulary."""
    folder = tmp_path_factory.mktemp("masked") / "set"
    values = {"sequence_length": LENGTH, "predictions": PREDICTIONS, "vocabulary": 512, "short": 70}
    make_masked(folder, MaskedSpec(sequences=200, shards=2, **values))
    return folder


@rarely_jax
def test_the_loss_is_that_of_all_words_however_ranks_and_parts_divide_them(
    framework: str, sequences: Path, tmp_path: Path
) -> None:
    """A mean of the parts' means would be another number, where the parts have not equally many hidden words."""
    given = {**RUN, "data": sequences, "loader-workers": 1, "compiler": COMPILERS[framework]}
    divisions = [(1, {"batch-per-device": 8, "accumulation": 1}), (2, {"batch-per-device": 4})]
    losses, counts = [], []
    for ranks, flags in divisions:
        first, *others = start(framework, tmp_path, {**given, **flags}, ranks=ranks)
        assert [first.code, *(one.code for one in others)] == [0] * ranks, first.stderr
        # How far a loader gets in so few steps depends on who else takes the cores.
        assert {doubt["code"] for doubt in first.last["suspect"]} <= {"queue-drained"}
        losses.append([step["loss"] for step in first.steps])
        counts.append(first.last["work"]["tokens_without_padding"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert counts[0] == counts[1] < 8 * LENGTH * (STEPS - WARMUP)


# The others' loaders are those of the other tasks of text (test_language.py).
@of_each(COMPILERS, marks=[training], rarely={*COMPILERS} - {"pytorch"})
def test_the_number_of_loader_processes_changes_nothing_in_the_batches(
    framework: str, sequences: Path, tmp_path: Path
) -> None:
    assert_loader_processes_change_nothing(framework, tmp_path, {**RUN, "data": sequences})


@training
@in_pytorch
@pytest.mark.parametrize("dropout", [0, 0.1])
def test_adamw_in_lambs_name_is_a_doubt_with_dropout_too(dropout: float, tmp_path: Path) -> None:
    given = {**RUN, "optimizer": "lamb", "dropout": dropout}
    ran = start("pytorch", tmp_path, given, "no-trust-ratio")[0]
    (doubt,) = ran.last["suspect"]
    assert doubt["code"] == "update-differs"
    assert "parameters is another than LAMB's" in doubt["sentence"]


@training
@in_pytorch
@pytest.mark.parametrize(
    ("mistake", "clip_norm", "said"),
    [
        # Gradients that are clipped are as long as their sum would be: here they are shorter than the recipe's norm.
        ("ranks-summed", 100, "the gradients of the 2 ranks are summed instead of averaged"),
        ("ranks-divide-twice", 100, "the mean of the 2 ranks' gradients is divided by 2 once more"),
        ("ranks-clip-alone", 1, "the gradients count 0.7"),
    ],
)
def test_another_mean_over_the_ranks_is_a_doubt_where_gradients_are_clipped(
    mistake: str, clip_norm: float, said: str, tmp_path: Path
) -> None:
    given = {**RUN, "padding": PADDING, "clip-norm": clip_norm, "gradients": "flat"}
    first, second = start("pytorch", tmp_path, given, mistake, ranks=2)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    (doubt,) = [found["sentence"] for found in first.last["suspect"] if found["code"] == "update-differs"]
    assert said in doubt


@training
@in_pytorch
def test_the_mean_of_the_ranks_means_shows_in_the_loss_of_sequences_that_are_read(
    sequences: Path, tmp_path: Path
) -> None:
    """No run sees it of itself: ``test_the_loss_is_that_of_all_words_…`` is what keeps workers from it."""
    given = {**RUN, "data": sequences, "loader-workers": 1}
    losses = []
    for mistake in ("", "mean-of-ranks"):
        folder = tmp_path / (mistake or "right")
        folder.mkdir()
        first, second = start("pytorch", folder, given, mistake, ranks=2)
        assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
        losses.append([step["loss"] for step in first.steps])
    # By as much as the two may differ there.
    assert losses[1] != pytest.approx(losses[0], rel=1e-4)


@training
@in_pytorch
@pytest.mark.parametrize(("mistake", "predicted"), [("eighty", 80), ("all-words", LENGTH)])
def test_another_number_of_predictions_is_no_valid_run(mistake: str, predicted: int, tmp_path: Path) -> None:
    """Eighty words of a sequence in the place of twenty are four times the work of the largest product."""
    ran = start("pytorch", tmp_path, {**RUN, "predictions": 20}, mistake)[0]
    assert (ran.code, ran.last["outcome"]) == (3, "invalid")
    assert ran.last["reason"] == f"predictions of the first step was {predicted}, not 20 as requested"


@training
@in_pytorch
def test_padding_that_is_counted_as_tokens_is_no_valid_run(tmp_path: Path) -> None:
    ran = start("pytorch", tmp_path, {**RUN, "padding": PADDING}, "padding-counted")[0]
    assert (ran.code, ran.last["outcome"]) == (3, "invalid")
    assert ran.last["reason"] == "128 tokens of a batch are counted as non-padding, but it has 96"


@in_pytorch
def test_a_pass_on_its_own_exchanges_nothing_with_other_ranks_and_no_hook_stays() -> None:
    """Else each rank's own time would be that of the slowest."""
    flags = [
        "--framework=pytorch",
        f"--model={MODEL}",
        "--sequence-length=32",
        "--predictions=5",
        "--padding=25",
    ]
    asked = beside(
        "pytorch",
        f"""
from trainmark_worker.models.pytorch_masked_lm import open_training
training = open_training(parse({flags!r}, 1), ALONE)
asked = []
mean = training.ranks.mean
training.ranks.mean = lambda value: asked.append("mean") or mean(value)
training.step(0)
stepped = len(asked)
training.alone()()
training.observed_config()
training.read_batch()
hooks = sum(len(module._forward_hooks) for module in training.model.modules())
print(json.dumps([stepped, len(asked), hooks]))
""",
    )
    assert asked == [1, 1, 0]
