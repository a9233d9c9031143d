"""Image classification as a task: models, flags, the unit of work, synthetic input, and what must be equal."""

import argparse
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ...core.backend import Observation
from ...core.precision import Precision
from ...core.recipe_checks import cross_entropy
from ...core.task import Check, Piece, PlainLoss, Task, Verified
from ..products import describe_logits
from .architectures import ARCHITECTURES, NORM_EPSILON, NORM_MOMENTUM, is_batch_norm, is_trainable
from .observing import ObservedConvolution, verify_layers
from .settings import RECIPE, ImageSettings

SUFFIXES = (".jpg", ".jpeg")

PATIENCE_S = 5.0  # the time that a count may take; a data set on a slow file system is not counted


def list_images(source: str) -> list[str] | None:
    """Return the paths in class folders or a list file, in order; None for another form, or after ``PATIENCE_S``."""
    root, give_up = Path(source), time.monotonic() + PATIENCE_S
    paths: list[str] = []
    try:
        if root.is_file():
            lines = root.read_text(encoding="utf-8").splitlines()
            names = (line.strip().rpartition(" ")[0].strip() for line in lines if line.strip())
            return [str(root.parent / name) for name in names]
        for folder in sorted(root.iterdir()):
            if folder.is_dir() and not folder.name.startswith("."):
                with os.scandir(folder) as entries:
                    paths += sorted(entry.path for entry in entries if entry.name.lower().endswith(SUFFIXES))
            if time.monotonic() > give_up:
                return None
    except (OSError, UnicodeDecodeError):
        return None
    return paths or None


def pre_activations(
    model: str, convolutions: Sequence[ObservedConvolution], weights: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Return the lowest and the highest input of each activation, by its convolution's name or its block's.

    The batch norms and the sums of the residual blocks between them are computed here, in numpy, from the weights that
    the check of equal work has given. That check does not distinguish two activations that differ only in a range that
    no input reaches.
    """
    outputs = {observed.name: observed.values for observed in convolutions}
    ranges: dict[str, list[float]] = {}

    def normalised(name: str) -> Any:
        values = outputs[name].astype(np.float64)
        mean, variance = values.mean((0, 2, 3), keepdims=True), values.var((0, 2, 3), keepdims=True)
        own = (np.asarray(weights[f"{name}.bn.{word}"], np.float64) for word in ("weight", "bias"))
        scale, shift = (vector.reshape(1, -1, 1, 1) for vector in own)
        return (values - mean) / np.sqrt(variance + NORM_EPSILON) * scale + shift

    def activated(name: str, values: Any) -> Any:
        ranges[name] = [float(values.min()), float(values.max())]
        return np.maximum(values, 0)

    architecture = ARCHITECTURES[model]
    stem = architecture.convolutions[0].name
    branch = activated(stem, normalised(stem))
    for index, (block, layers) in enumerate(architecture.blocks().items()):
        if "c" not in layers:
            for conv in layers.values():
                activated(conv.name, normalised(conv.name))
            continue
        for word in ("a", "b"):
            activated(layers[word].name, normalised(layers[word].name))
        if index == 0:
            # The largest of each 3 x 3 window, of every second one, of values that are not negative.
            padded = np.pad(branch, ((0, 0), (0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
            branch = windows[:, :, ::2, ::2].max((-2, -1))
        shortcut = normalised(layers["shortcut"].name) if "shortcut" in layers else branch
        branch = activated(block, normalised(layers["c"].name) + shortcut)
    return ranges


# The patches in a row of a made-up picture whose pixels differ as a photo does; how many pictures differ in their
# noise; the largest share of a class.
PATCHES, NOISE, LARGEST_CLASS = (1, 3, 8, 24), 32, 0.8


class ImageClassification(Task[ImageSettings]):
    """Networks that map an image to one of some classes."""

    name = "image-classification"
    models = tuple(ARCHITECTURES)
    headline = "images"
    is_default = True
    settings_type = ImageSettings

    def defaults(self, _model: str) -> Mapping[str, Any]:
        return RECIPE

    def complete(self, given: argparse.Namespace, world_size: int) -> None:
        """Set the rate to 0.256 for a batch of 256 samples of all ranks, and in proportion for others."""
        if given.learning_rate is None:
            given.learning_rate = 0.256 * (given.batch_per_device * world_size) / 256

    def work(self, _settings: ImageSettings, samples: int) -> dict[str, int]:
        return {"images": samples}

    def parameters(self, settings: ImageSettings, epoch_samples: int) -> dict[str, Any]:
        own = {name: getattr(settings, name) for name in ("layout", "image_size", "classes")}
        return {**own, "epoch_images": epoch_samples}

    def operations(self, settings: ImageSettings) -> dict[str, int]:
        """Return those of convolutions and classifier."""
        model = ARCHITECTURES[settings.model]
        return {"counted": 6 * model.multiply_adds(settings.image_size, settings.classes)}

    def pieces(self, settings: ImageSettings, value_bytes: int) -> list[Piece]:
        """Return the passes of convolutions and classifier, and the update by SGD with momentum in float32.

        Backward a layer reads its input, its weights and the gradient of its output once, and writes the gradients of
        its weights and, but for the first layer, of its input.
        """
        pieces, batch, weights = [], settings.batch_per_device, 0
        layers = ARCHITECTURES[settings.model].layers(settings.image_size, settings.classes)
        for number, layer in enumerate(layers):
            once = layer.inputs + layer.outputs
            forward = 2 * layer.multiply_adds * batch
            gradients = batch * (once + (layer.inputs if number else 0)) + 2 * layer.weights
            pieces += [
                Piece(layer.name, forward, value_bytes * (batch * once + layer.weights)),
                Piece(f"{layer.name}, backward", forward * (2 if number else 1), value_bytes * gradients),
            ]
            weights += layer.weights
        # Weights and momentum are read and written, gradients are read.
        return [*pieces, Piece("update", 0, weights * (4 * 4 + value_bytes))]

    def requested(self, settings: ImageSettings) -> dict[str, Any]:
        return {"activation_layout": settings.layout, "weight_layout": settings.layout}

    def synthetic(self, settings: ImageSettings, rank: int) -> tuple[Any, Any]:
        """Return noise (batch, 3, size, size) in float32, and labels (batch,) in int64."""
        random = np.random.default_rng([settings.seed, rank])
        shape = (settings.batch_per_device, 3, settings.image_size, settings.image_size)
        return random.standard_normal(shape, np.float32), random.integers(settings.classes, size=shape[0])

    def another(self, settings: ImageSettings, batch: Sequence[Any]) -> tuple[Any, Any]:
        """Return pictures of coarse and fine patches, as large as those of the batch, with other labels.

        To a network all pictures of noise are alike. What tells them apart is lost in the rounding of 16 bits, and with
        it half of the digits of their gradients. The noise under the patches repeats: more of it takes half a second.
        """
        labels, size = np.asarray(batch[1]), max(np.asarray(batch[0]).shape[1:])
        random = np.random.default_rng([settings.seed, int(labels.sum())])
        shape = (len(labels), 3)
        noise = random.standard_normal((min(NOISE, len(labels)), 3, size, size), np.float32) / 2
        pictures = np.resize(noise, (*shape, size, size))
        for cells in PATCHES:
            at = np.arange(size) * cells // size
            patches = random.standard_normal((*shape, cells, cells), np.float32)[..., at]
            # Row by row: copies as large as the pictures would take seconds of a batch of 256.
            for row, cell in enumerate(at):
                pictures[:, :, row] += patches[:, :, cell]
        pictures -= pictures.mean()
        pictures /= np.linalg.norm(pictures) / math.sqrt(pictures.size)
        return pictures, random.integers(settings.classes, size=shape[0])

    def labels(self, settings: ImageSettings, batch: Sequence[Any]) -> tuple[Any, float]:
        """Return the classes of the images; of a data set one class may be most."""
        return batch[1], 1 / settings.classes if settings.synthetic else LARGEST_CLASS

    def count_samples(self, settings: ImageSettings) -> int | None:
        """Return the number of JPEGs in a folder of classes, or in a list file."""
        paths = list_images(settings.data)
        return None if paths is None else len(paths)

    def list_samples(self, settings: ImageSettings) -> Sequence[int] | None:
        """Return the numbers of the images in the order of their folders or list file: the CRC32 of each one's path."""
        return [crc32(path.encode()) for path in list_images(settings.data) or ()]

    def plain_loss(self, settings: ImageSettings, batch: Sequence[Any], alone: Any) -> PlainLoss | None:
        """Return the cross entropy with smoothed labels."""
        logits, smoothing = getattr(alone, "logits", None), settings.recipe.label_smoothing
        return None if logits is None else cross_entropy(logits, batch[1], smoothing)

    def is_trainable(self, name: str) -> bool:
        """Return whether it is not one of a batch norm's running statistics."""
        return is_trainable(name)

    def decay(self, settings: ImageSettings, name: str) -> float:
        """Return the recipe's decay; none for a batch norm's parameters, unless they are to decay too."""
        recipe = settings.recipe
        return recipe.weight_decay if recipe.bn_weight_decay or not is_batch_norm(name) else 0.0

    def verify_layers(
        self, settings: ImageSettings, expected: Precision, observed: Any, _alone: Any
    ) -> Verified:
        return verify_layers(settings, expected, observed)

    def check(self, settings: ImageSettings) -> Check:
        classes = settings.classes
        return Check(
            shapes=ARCHITECTURES[settings.model].shapes(classes),
            inputs=("images", "labels"),
            # The batch's mean or variance that moved a running one.
            statistic=lambda before, after: (after - NORM_MOMENTUM * before) / (1 - NORM_MOMENTUM),
            facts={"classes": classes},
            layers=_convolutions,
            outputs=describe_logits,
            reach=lambda observed, weights: {
                "pre_activations": pre_activations(settings.model, observed.operations, weights)
            },
        )


def _convolutions(observed: Observation) -> dict[str, Any]:
    described = [conv._asdict() for conv in observed.operations]
    return {"convolutions": [{name: conv[name] for name in conv if name != "values"} for conv in described]}
