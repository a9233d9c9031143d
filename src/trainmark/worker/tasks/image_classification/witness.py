"""What was seen of an image network's layers in the step after the window, and what is wrong with it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.facts import Expected
from .settings import ImageSettings

USUAL_MEAN, USUAL_DEVIATION = 1.0, (0.3, 2.0)
"""How far from 0 the mean of normalised pictures can be, and between what their deviation: photographs are well inside.

Bytes that were not normalised have a mean near 120 and a deviation near 60; scaled to 1 alone, a deviation below 0.3.
"""


class LayerSeen(NamedTuple):
    """A convolution or product: its name, and the type of what came out of it."""

    name: str
    dtype: str


class LayersSeen(NamedTuple):
    """A step's layers; what a framework does not show is None.

    ``image_size`` (height, width), ``input_mean`` and ``input_deviation`` are of what the first layer got;
    ``not_training`` names the batch norms that are not in training mode.
    """

    layers: Sequence[LayerSeen] | None = None
    image_size: tuple[int, int] | None = None
    input_mean: float | None = None
    input_deviation: float | None = None
    not_training: Sequence[str] = ()


def measured(images: Any) -> tuple[tuple[int, int], float, float]:
    """Return (height, width), mean and deviation of a batch of pictures: numpy, (batch, 3, height, width)."""
    import numpy as np

    values = np.asarray(images, np.float32)
    return (
        (values.shape[2], values.shape[3]),
        float(values.mean(dtype=np.float64)),
        float(values.std(dtype=np.float64)),
    )


def looked(
    settings: ImageSettings, expected: Expected, seen: LayersSeen | None
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what the events say of it, and the doubts."""
    seen = seen or LayersSeen()
    doubts: list[tuple[str, str]] = []
    types = None if seen.layers is None else Counter(layer.dtype for layer in seen.layers)
    others = [layer for layer in seen.layers or () if layer.dtype != expected.compute_dtype]
    if others:
        doubts.append(
            (
                "layer-type-differs",
                f"After the window {len(others)} of {len(seen.layers or ())} layers compute in another type than "
                f"{expected.compute_dtype}: {others[0].name} in {others[0].dtype}.",
            )
        )
    if seen.not_training:
        doubts.append(
            (
                "batch-norm-not-training",
                f"After the window {len(seen.not_training)} batch norms are not in training mode, "
                f"{seen.not_training[0]} among them.",
            )
        )
    side = settings.image_size
    if seen.image_size is not None and tuple(seen.image_size) != (side, side):
        height, width = seen.image_size
        doubts.append(
            (
                "image-size-differs",
                f"The network got pictures of {height} x {width} pixels, not {side} x {side}.",
            )
        )
    mean, deviation = seen.input_mean, seen.input_deviation
    if not settings.synthetic and mean is not None and deviation is not None:
        low, high = USUAL_DEVIATION
        if abs(mean) > USUAL_MEAN or not low <= deviation <= high:
            doubts.append(
                (
                    "input-not-normalised",
                    f"The network's input has the mean {mean:.3g} and the deviation {deviation:.3g}, but correctly "
                    "normalised pictures are near 0 and 1.",
                )
            )
    said = {
        "layer_types": None if types is None else dict(types),
        "seen_image_size": None if seen.image_size is None else list(seen.image_size),
        "input_mean": mean,
        "input_deviation": deviation,
    }
    return said, doubts
