"""DLRM: what the frameworks that train it promise of a run, and sparse gradients of its tables."""

from pathlib import Path
from typing import Any

import pytest
from preloaded_worker import start

from frameworks import of_each

pytestmark = pytest.mark.training

MODEL = "dlrm_tiny"
COMPILERS = {"pytorch": "none", "jax": "xla"}
"""The frameworks that train it, each with a compiler of its users on a CPU."""

BATCH, STEPS, WARMUP, VOCABULARY = 64, 8, 2, 500
RUN: dict[str, Any] = {
    "model": MODEL,
    "batch-per-device": BATCH,
    "vocabulary": VOCABULARY,
    "steps": STEPS,
    "warmup-steps": WARMUP,
    "learning-rate": 0.01,
}


in_every_framework, in_pytorch = of_each(COMPILERS), of_each(["pytorch"])


@in_every_framework
def test_a_run_says_what_it_really_computed_with_and_its_update_is_plain_sgd(
    framework: str, tmp_path: Path
) -> None:
    (ran,) = start(framework, tmp_path, {**RUN, "compiler": COMPILERS[framework]})
    assert ran.code == 0, ran.stderr
    actual, optimizer, looked = (
        ran.parameters["actual"],
        ran.parameters["optimizer"],
        ran.last["after_window"],
    )
    # Tables, bottom (13-64-32-16) and top (16 + 351 pairs, 64-32-1).
    layers = 13 * 64 + 64 + 64 * 32 + 32 + 32 * 16 + 16 + 367 * 64 + 64 + 64 * 32 + 32 + 32 + 1
    assert actual["parameters"] == 16 * VOCABULARY + layers
    assert (actual["vocabulary"], actual["embedding_width"]) == (VOCABULARY, 16)
    assert actual["table_gradients"] == "dense"
    assert (optimizer["name"], optimizer["momentum"], optimizer["dropout"]) == ("SGD", 0, 0)
    losses = [step["loss"] for step in ran.steps]
    assert losses == sorted(losses, reverse=True)
    if looked["learning_rate"] is not None:
        assert looked["learning_rate"] == pytest.approx(0.007, rel=0.01)
        assert looked["momentum"] == pytest.approx(0, abs=0.01)
    assert ran.last["suspect"] == []


@in_pytorch
@pytest.mark.parametrize("ranks", [1, 2])
def test_sparse_gradients_of_the_tables_are_said(framework: str, ranks: int, tmp_path: Path) -> None:
    ran = start(framework, tmp_path, {**RUN, "table-gradients": "sparse"}, ranks=ranks)
    assert [one.code for one in ran] == [0] * ranks, ran[0].stderr
    assert ran[0].parameters["actual"]["table_gradients"] == "sparse"
    assert ran[0].last["after_window"]["learning_rate"] == pytest.approx(0.007, rel=0.01)
    assert ran[0].last["suspect"] == []


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "jax": ({"table-gradients": "sparse"}, "JAX has no sparse gradients"),
    "pytorch": ({"momentum": 0.9}, "dlrm_tiny is trained by SGD without momentum"),
}


@in_every_framework
def test_what_cannot_be_trained_is_unsupported(framework: str, tmp_path: Path) -> None:
    flags, said = BAD[framework]
    (ran,) = start(framework, tmp_path, {**RUN, **flags})
    assert (ran.code, ran.last["outcome"]) == (3, "unsupported")
    assert ran.last["reason"].startswith(said)
