"""The own settings of an image run, and the recipe of 90 epochs on ImageNet."""

from dataclasses import dataclass
from typing import Annotated

from ...core.settings import EPOCH, Flag, Recipe, Settings, positive, truth

IMAGENET_IMAGES = 1_281_167  # the training images of ImageNet-1k: the epoch of synthetic data
# That of NVIDIA's PyTorch ConvNets (DGX1_RN50_AMP_90E.sh).
RECIPE = {
    "momentum": 0.875, "weight_decay": 3.0517578125e-05,
    "schedule": "cosine", "epochs": 90, "warmup_epochs": 8,
}  # fmt: skip


@dataclass(frozen=True)
class ImageRecipe(Recipe):
    """``bn_weight_decay``: whether batch-norm parameters decay too; ``label_smoothing``: of the cross entropy."""

    bn_weight_decay: Annotated[bool, Flag("decay batch-norm parameters too", truth, False)]
    label_smoothing: Annotated[float, Flag("of the cross entropy", float, 0.1)]


@dataclass(frozen=True)
class ImageSettings(Settings):
    """``image_size``: side in pixels; ``classes``: outputs of the network; ``layout``: order of a batch in memory."""

    epoch_samples: Annotated[int, Flag(EPOCH, positive, IMAGENET_IMAGES, "epoch_images")]
    image_size: Annotated[int, Flag("side in pixels", positive, 224)]
    layout: Annotated[str, Flag("order of an image batch in memory", ("nchw", "nhwc"), "nchw")]
    classes: Annotated[int, Flag("outputs of the network", positive, 1000)]
    recipe: ImageRecipe
