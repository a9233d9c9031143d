"""What each framework's training step computes from given weights and a given batch."""

from pathlib import Path
from typing import Any

import pytest
from worker_process import Ran, train

from frameworks import needs_framework
from trainmark.equivalence.inputs import BATCH, IMAGE_SIZE, write_inputs

pytestmark = [pytest.mark.training, needs_framework("pytorch")]

RECIPE: dict[str, Any] = {
    "batch_per_device": BATCH,
    "image_size": IMAGE_SIZE,
    "learning_rate": 0.1,
    "weight_decay": 0.01,
    "epoch_images": 2 * BATCH,
    "warmup_epochs": 2,
    "steps": 4,
    "warmup_steps": 1,
}


def observe(tmp_path: Path, framework: str, model: str, **flags: Any) -> Ran:
    write_inputs(model, tmp_path / "inputs.npz")
    given = {**RECIPE, "model": model, "equivalence": tmp_path / "inputs.npz", **flags}
    return train(tmp_path, framework=framework, **given)


def test_the_step_that_is_timed_is_observed(tmp_path: Path) -> None:
    ran = observe(tmp_path, "pytorch", "mobilenet_v1")
    assert ran.code == 0, ran.stderr
    seen = ran.last["equivalence"]
    assert seen["parameters"] == 4_231_976
    assert [step["loss"] for step in seen["steps"]] == pytest.approx(seen["step_losses"], rel=1e-6)
