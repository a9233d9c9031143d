"""Mistakes in the network or the step are refused by the golden observation; equal work is not, and is in no doubt."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from worker_process import Ran, ended, make_images

from frameworks import in_frameworks, require_bf16
from preloading import compiled_before, preloaded
from trainmark.environment import find_entry
from trainmark.equivalence import (
    Reference,
    compare_golden,
    compare_rounded,
    equal_work_of,
    golden_of,
    golden_rounding,
    party,
    worker_flags,
    write_inputs,
)
from trainmark.schema.observation import Observation
from trainmark.schema.precision import Precision

pytestmark = pytest.mark.training

CHANGED = Path(__file__).parents[1] / "programs" / "changed_worker.py"
IMAGES: dict[str, Any] = {"model": "mobilenet_v1", "image_size": 32, "classes": 10}
TEXT: dict[str, Any] = {"model": "gpt2_tiny", "sequence_length": 64}
REAL = {**IMAGES, "loader_workers": 1}

MISTAKES = {
    "gradient-stops": "mobilenet_v1",
    "block-left-out": "mobilenet_v1",
    "dropout": "mobilenet_v1",
    "accumulated": "mobilenet_v1",
    "half-the-gradient": "mobilenet_v1",
    "half-the-vocabulary": "gpt2_tiny",
    "shared-rows": "wide_deep_tiny",
}
"""Changes of PyTorch's worker by which the three steps of a model differ from its golden observation."""

EQUAL_WORK: dict[str, tuple[str, dict[str, Any]]] = {
    "another shuffled order": ("another-order", REAL),
    "another decoder": ("another-decoder", REAL),
    "three loader processes": ("none", {**REAL, "loader_workers": 3}),
    "two threads": ("none", {**IMAGES, "threads": 2}),
    "another layout": ("none", {**IMAGES, "layout": "nhwc"}),
    "other convolutions": ("other-convolutions", IMAGES),
    "deterministic algorithms": ("deterministic", IMAGES),
    "SGD by hand": ("update-by-hand", IMAGES),
    "the loss by hand": ("loss-by-hand", IMAGES),
    "attention by hand": ("attention-by-hand", TEXT),
    "accumulation": ("none", {**TEXT, "accumulation": 2}),
    "GELU by hand": ("gelu-by-hand", TEXT),
}
"""Changes of PyTorch's worker or its settings that leave the work as it is, with the flags of the run."""

OFTEN = {"dropout", "the loss by hand"}

LAYOUTS = {"jax": "nhwc", "tensorflow": "nhwc"}
"""The layout of images in a framework that does not have ``nchw``, or not in every precision."""


NARROW_MISTAKES: dict[str, tuple[str, Precision, str]] = {
    "accumulated-in-bf16": ("gpt2_tiny", Precision.AMP_BF16, "rounding"),
    "half-the-gradient": ("mobilenet_v1", Precision.AMP_BF16, "gradients"),
    "half-the-vocabulary": ("gpt2_tiny", Precision.AMP_BF16, "loss"),
    "block-left-out": ("mobilenet_v1", Precision.BF16, "activations"),
}
"""Changes of PyTorch's worker in a low precision, and what the golden observation refuses of them."""

NARROW_TYPES = {
    "logits-in-bf16-at-once": ("pytorch", "mobilenet_v1", "loss"),
    "tokens-in-bf16-at-once": ("pytorch", "gpt2_tiny", "loss"),
    "products-in-bf16": ("pytorch", "gpt2_tiny", "activations"),
}
"""Parts of a step in FP32 that are computed in 16 bits, and what the golden observation refuses of them."""

ONE_LAYER = {
    "pytorch": "one-layer-within-at-once",
    "tensorflow": "one-layer-within-at-once",
    "mxnet": "one-layer-within-at-once",
    "mindspore": "one-layer-within-at-once",
}
"""A convolution of 28 in BF16 (MindSpore: FP16), by the framework's own change."""

SOUND: dict[str, dict[str, tuple[str, ...]]] = {
    "pytorch": {
        "mobilenet_v1": ("amp-bf16", "amp-fp16", "bf16", "fp16"),
        "gpt2_tiny": ("amp-bf16", "amp-fp16", "bf16", "fp16"),
        "llama_tiny": ("amp-bf16", "bf16"),
        "llama3.2_1b": ("amp-bf16",),
        "llama3.2_3b": ("amp-bf16",),
        "bert_tiny": ("amp-bf16", "amp-fp16"),
        "wide_deep_tiny": ("amp-bf16", "amp-fp16"),
        "dlrm_tiny": ("amp-bf16", "amp-fp16"),
    },
    "tensorflow": {
        "mobilenet_v1": ("amp-bf16", "amp-fp16"),
        "gpt2_tiny": ("amp-bf16", "amp-fp16"),
        "bert_tiny": ("amp-bf16",),
        "wide_deep_tiny": ("amp-bf16",),
    },
    "jax": {
        "gpt2_tiny": ("amp-bf16", "bf16"),
        "llama_tiny": ("amp-bf16",),
        "dlrm_tiny": ("amp-bf16",),
    },
    "mxnet": {"mobilenet_v1": ("amp-bf16",)},
    "mindspore": {"mobilenet_v1": ("amp-fp16",)},
}
"""The low precisions of each framework on a CPU, by model.

PaddlePaddle has none there, and JAX takes minutes for images without a compiler.
"""

IN_FP32 = {
    **{framework: tuple(models) for framework, models in SOUND.items()},
    "paddle": ("mobilenet_v1", "gpt2_tiny"),
}


def each(chosen: Iterable[str]) -> list[Any]:
    """Return the parameters of a test, with the marks of PyTorch's tests."""
    names = list(chosen)
    marks = {name: in_frameworks("pytorch", rarely=name not in OFTEN) for name in names}
    return [pytest.param(name, marks=marks[name], id=name.replace(" ", "-")) for name in names]


def run(folder: Path, word: str, flags: dict[str, Any], framework: str = "pytorch") -> Ran:
    """Run a worker with the change, and return it once it has ended well."""
    events = folder / "events.jsonl"
    given = {"framework": framework, "device": "cpu", "threads": 1, "events": events, **flags}
    words = [str(CHANGED), word, *(f"--{name.replace('_', '-')}={value}" for name, value in given.items())]
    variables = {**find_entry(framework).env_vars, **compiled_before(), "HOME": str(folder)}
    ran = ended(preloaded(framework).start(words, variables, folder), events)
    assert ran.code == 0, ran.stderr
    return ran


def observed(
    folder: Path, word: str, model: str, precision: Precision, framework: str = "pytorch"
) -> Observation:
    """Return the three steps of a worker with the change."""
    write_inputs(model, folder / "inputs.npz")
    words = worker_flags(model, folder / "inputs.npz", precision=precision)
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in words)
    if framework in LAYOUTS and "image-size" in flags:
        flags["layout"] = LAYOUTS[framework]
    ran = run(folder, word, flags, framework)
    return equal_work_of(model).observation.model_validate(ran.last["equivalence"])


def differences(folder: Path, word: str, model: str, framework: str = "pytorch") -> set[str]:
    """Return what the golden observation and the description refuse of a worker's step with the change."""
    seen, golden = observed(folder, word, model, Precision.FP32, framework), golden_of(model)
    assert golden is not None
    rounding = golden_rounding(model, {}, Precision.FP32)
    checks = (*party(seen, {}, None, None).checks, *compare_golden(seen, golden, rounding).checks)
    return {check.subject.value for check in checks if not check.holds}


def narrow_differences(
    folder: Path, word: str, model: str, precision: Precision, framework: str = "pytorch"
) -> dict[str, tuple[float, float]]:
    """Return the deviation and the tolerance of what is refused of a worker's step in a low precision."""
    seen, golden = observed(folder, word, model, precision, framework), golden_of(model)
    rounding = golden_rounding(model, {}, precision)
    assert golden is not None
    assert rounding is not None
    checks = (
        *party(seen, {}, None, None, reference=Reference(precision=precision, rounding=rounding)).checks,
        *compare_rounded(seen, golden, rounding, precision).checks,
    )
    return {
        check.subject.value: (check.deviation, check.tolerance)
        for check in checks
        if not check.holds or check.remark is not None
    }


@pytest.mark.parametrize("change", each(MISTAKES))
def test_the_golden_observation_refuses_a_mistake_of_one_framework_alone(change: str, tmp_path: Path) -> None:
    assert "gradients" in differences(tmp_path, change, MISTAKES[change])


@pytest.mark.parametrize("name", each(EQUAL_WORK))
def test_equal_work_is_in_no_doubt(name: str, tmp_path: Path) -> None:
    word, flags = EQUAL_WORK[name]
    if "loader_workers" in flags:
        flags = {**flags, "data": make_images(tmp_path / "images", 24)}
    ran = run(tmp_path, word, {"batch_per_device": 4, "steps": 8, "warmup_steps": 2, **flags})
    assert ran.last["outcome"] == "ok"
    assert ran.doubts == []


COMPARED = [name for name, (word, flags) in EQUAL_WORK.items() if word != "none" and flags in (IMAGES, TEXT)]


@pytest.mark.parametrize("name", each(COMPARED))
def test_the_golden_observation_accepts_equal_work(name: str, tmp_path: Path) -> None:
    word, flags = EQUAL_WORK[name]
    assert differences(tmp_path, word, str(flags["model"])) == set()


@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=in_frameworks("pytorch", rarely=True)) for name in NARROW_MISTAKES]
)
def test_the_golden_observation_refuses_a_mistake_in_a_low_precision(change: str, tmp_path: Path) -> None:
    model, precision, subject = NARROW_MISTAKES[change]
    assert subject in narrow_differences(tmp_path, change, model, precision)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(name, marks=in_frameworks(framework, rarely=True))
        for name, (framework, _, _) in NARROW_TYPES.items()
    ],
)
def test_the_golden_observation_refuses_16_bits_in_fp32(change: str, tmp_path: Path) -> None:
    framework, model, subject = NARROW_TYPES[change]
    assert subject in differences(tmp_path, change, model, framework)


@pytest.mark.parametrize(
    ("framework", "change"),
    [
        pytest.param(framework, change, marks=in_frameworks(framework, rarely=True))
        for framework, change in ONE_LAYER.items()
    ],
)
def test_the_golden_observation_refuses_one_layer_in_16_bits(
    framework: str, change: str, tmp_path: Path
) -> None:
    assert "rounding" in differences(tmp_path, change, "mobilenet_v1", framework)


@pytest.mark.parametrize(
    ("framework", "model"),
    [
        pytest.param(framework, model, marks=in_frameworks(framework, rarely=True))
        for framework, models in IN_FP32.items()
        for model in models
    ],
)
def test_the_golden_observation_accepts_every_framework_in_fp32(
    framework: str, model: str, tmp_path: Path
) -> None:
    assert differences(tmp_path, "none", model, framework) == set()


@pytest.mark.parametrize(
    ("framework", "model", "precision"),
    [
        pytest.param(framework, model, Precision(precision), marks=in_frameworks(framework, rarely=True))
        for framework, models in SOUND.items()
        for model, precisions in models.items()
        for precision in precisions
    ],
)
def test_the_golden_observation_accepts_a_sound_low_precision(
    framework: str, model: str, precision: Precision, tmp_path: Path
) -> None:
    if precision.of_products is Precision.BF16:
        require_bf16(framework, "nchw")
    assert narrow_differences(tmp_path, "none", model, precision, framework) == {}
