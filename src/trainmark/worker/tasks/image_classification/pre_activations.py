"""From what the convolutions of a pass gave: between which values lies what goes into each of its activations.

The batch norms and the sums of the residual blocks between them are computed here, in numpy, from the weights that the
check of equal work has given. Two activations that differ only where nothing gets are not told apart by that check.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .architectures import ARCHITECTURES, BATCH_NORM_EPSILON
from .observing import ConvolutionSeen


def pre_activations(
    model: str, convolutions: Sequence[ConvolutionSeen], weights: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Return the lowest and the highest input of each activation, by its convolution's name or its block's."""
    import numpy as np

    outputs = {seen.name: seen.values for seen in convolutions}
    ranges: dict[str, list[float]] = {}

    def normalised(name: str) -> Any:
        values = outputs[name].astype(np.float64)
        mean, variance = values.mean((0, 2, 3), keepdims=True), values.var((0, 2, 3), keepdims=True)
        scale, shift = (
            np.asarray(weights[f"{name}.bn.{word}"], np.float64).reshape(1, -1, 1, 1)
            for word in ("weight", "bias")
        )
        return (values - mean) / np.sqrt(variance + BATCH_NORM_EPSILON) * scale + shift

    def activated(name: str, values: Any) -> Any:
        ranges[name] = [float(values.min()), float(values.max())]
        return np.maximum(values, 0)

    architecture = ARCHITECTURES[model]
    stem = architecture.convolutions[0].name
    beside = activated(stem, normalised(stem))
    for index, (block, layers) in enumerate(architecture.blocks().items()):
        if "c" not in layers:
            for conv in layers.values():
                activated(conv.name, normalised(conv.name))
            continue
        for word in ("a", "b"):
            activated(layers[word].name, normalised(layers[word].name))
        if index == 0:
            beside = _largest_of_each_window(beside)
        shortcut = normalised(layers["shortcut"].name) if "shortcut" in layers else beside
        beside = activated(block, normalised(layers["c"].name) + shortcut)
    return ranges


def _largest_of_each_window(values: Any) -> Any:
    """Return the largest of each 3 x 3 window, of every second one, of values that are not negative."""
    import numpy as np

    padded = np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = (-(-side // 2) for side in values.shape[2:])
    windows = [
        padded[:, :, down : down + 2 * height : 2, right : right + 2 * width : 2][:, :, :height, :width]
        for down in range(3)
        for right in range(3)
    ]
    return np.maximum.reduce(windows)
