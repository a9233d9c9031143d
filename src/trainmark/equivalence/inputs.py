"""The weights and the batch that every framework is given, made from a seed."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.worker.core.equivalence import OBSERVED, STEPS
from trainmark.worker.tasks.image_classification.architectures import ARCHITECTURES
from trainmark.worker.tasks.image_classification.settings import ImageRecipe

CLASSES = 1000
IMAGE_SIZE = 96
"""Even at each stride (96, 48, 24, 12, 6), where padding on the wrong side would go unseen in shapes alone."""

BATCH = 8

RECIPE = ImageRecipe(
    learning_rate=0.03,
    momentum=0.875,
    weight_decay=0.01,
    bn_weight_decay=False,
    label_smoothing=0.1,
    schedule="cosine",
    epochs=2,
    warmup_epochs=1,
    loss_scale=None,
)
"""The three steps' recipe: a decay that is large enough to be seen, a rate that rises and then falls."""

EPOCH_IMAGES = BATCH * 3 // 2
"""An epoch is a step and a half: two steps of warm-up, then the first step of the cosine (rates 1/2, 1 and 3/4)."""


def worker_flags(model: str, inputs: Path, compiler: str = OBSERVED) -> tuple[str, ...]:
    """Return the words that make a worker train the three steps on ``inputs`` and tell what they computed.

    With a compiler the steps are done and not looked into.
    """
    flags = {
        "model": model,
        "precision": "fp32",
        "compiler": compiler,
        "batch-per-device": BATCH,
        "image-size": IMAGE_SIZE,
        "classes": CLASSES,
        "learning-rate": RECIPE.learning_rate,
        "momentum": RECIPE.momentum,
        "weight-decay": RECIPE.weight_decay,
        "label-smoothing": RECIPE.label_smoothing,
        "schedule": RECIPE.schedule,
        "epochs": RECIPE.epochs,
        "warmup-epochs": RECIPE.warmup_epochs,
        "epoch-images": EPOCH_IMAGES,
        "steps": STEPS + 1,
        "warmup-steps": 1,
        "equivalence": inputs,
    }
    return tuple(f"--{name}={value}" for name, value in flags.items())


def make_inputs(model: str, seed: int = 0) -> dict[str, NDArray[np.generic]]:
    """Return weights by the names of ``Architecture.shapes``, ``images`` (8, 3, 96, 96) and ``labels`` (8,).

    Convolutions are normal with variance 2 / fan-in, the classifier normal with 1 / features, in float32. Running
    statistics are not 0 and 1, so that one that is ignored shows.

    Batch norms scale by about 0.5 and shift by 1; the last one of a residual branch scales by 0.25 and does not shift.
    A ReLU cuts off some percent of the values. With the usual 1 and 0 a network of this depth is chaotic: the rounding
    of FP32 grows to 1 % of ResNet-50's gradients in the first step and to more than 100 % in the second (measured
    against FP64; docs/equivalence.md), so that a check would have to let every mistake pass.
    """
    random = np.random.default_rng([seed, *model.encode()])
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, shape in ARCHITECTURES[model].shapes(CLASSES).items():
        arrays[name] = _draw(random, name, shape).astype(np.float32)
    arrays["images"] = random.standard_normal((BATCH, 3, IMAGE_SIZE, IMAGE_SIZE)).astype(np.float32)
    arrays["labels"] = random.integers(0, CLASSES, BATCH)
    return arrays


def write_inputs(model: str, path: Path, seed: int = 0) -> None:
    """Write the inputs as ``.npz``; raises OSError."""
    # numpy's stubs take the keywords for its own options.
    np.savez(path, **make_inputs(model, seed))  # type: ignore[arg-type]


def _draw(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    noise = random.standard_normal(shape)
    if name.endswith("conv.weight"):
        return noise * math.sqrt(2 / math.prod(shape[1:]))
    if name == "classifier.weight":
        return noise * math.sqrt(1 / shape[1])
    if name.endswith(".bn.weight"):
        return (0.25 if name.endswith(".c.bn.weight") else 0.5) * (1 + 0.1 * np.tanh(noise))
    if name.endswith(".bn.bias"):
        return (0.0 if name.endswith(".c.bn.bias") else 1.0) + 0.1 * noise
    if name.endswith(".running_var"):
        return 1 + 0.1 * np.tanh(noise)
    return 0.1 * noise
