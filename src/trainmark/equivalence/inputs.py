"""The weights and the batch that every framework is given, made from a seed."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.worker.architectures import ARCHITECTURES

CLASSES = 1000
IMAGE_SIZE = 96
"""Odd on the way down (96, 48, 24, 12, 6, 3), so that a padding on the wrong side shows."""

BATCH = 8


def make_inputs(model: str, seed: int = 0) -> dict[str, NDArray[np.generic]]:
    """Return weights by the names of ``Architecture.shapes``, ``images`` (8, 3, 96, 96) and ``labels`` (8,).

    Convolutions are normal with variance 2 / fan-in, the classifier normal with 1 / features, in float32. Batch-norm
    scales and shifts are not 1 and 0, and running statistics not 0 and 1, so that one that is ignored shows.
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
    if name.endswith((".bn.weight", ".running_var")):
        return 1 + 0.1 * np.tanh(noise)
    return 0.1 * noise
