"""Mistakes in the network or the step are refused by the golden observation; equal work is not, and is in no doubt."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from worker_process import Ran, ended, make_images

from frameworks import in_frameworks
from preloading import compiled_before, preloaded
from trainmark.equivalence import compare, equal_work_of, golden_of, party, worker_flags, write_inputs

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


def each(chosen: Iterable[str]) -> list[Any]:
    """Return the parameters of a test, with the marks of PyTorch's tests."""
    names = list(chosen)
    marks = {name: in_frameworks("pytorch", rarely=name not in OFTEN) for name in names}
    return [pytest.param(name, marks=marks[name], id=name.replace(" ", "-")) for name in names]


def run(folder: Path, word: str, flags: dict[str, Any]) -> Ran:
    """Run PyTorch's worker with the change, and return it once it has ended well."""
    events = folder / "events.jsonl"
    given = {"framework": "pytorch", "device": "cpu", "threads": 1, "events": events, **flags}
    words = [str(CHANGED), word, *(f"--{name.replace('_', '-')}={value}" for name, value in given.items())]
    ran = ended(preloaded("pytorch").start(words, {**compiled_before(), "HOME": str(folder)}, folder), events)
    assert ran.code == 0, ran.stderr
    return ran


def differences(folder: Path, word: str, model: str) -> set[str]:
    """Return what the golden observation and the description refuse of PyTorch's step with the change."""
    write_inputs(model, folder / "inputs.npz")
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in worker_flags(model, folder / "inputs.npz"))
    ran = run(folder, word, flags)
    seen = equal_work_of(model).observation.model_validate(ran.last["equivalence"])
    golden = golden_of(model)
    assert golden is not None
    checks = (*party(seen, {}, None, None).checks, *compare(seen, golden).checks)
    return {check.subject.value for check in checks if not check.holds}


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
