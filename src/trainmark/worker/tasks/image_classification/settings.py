"""The own settings of an image run: its flags, and the recipe of 90 epochs on ImageNet."""

import argparse
from dataclasses import dataclass

from ...core.settings import Recipe, Settings, positive, truth

IMAGENET_IMAGES = 1_281_167  # the training images of ImageNet-1k: the epoch of synthetic data


@dataclass(frozen=True)
class ImageRecipe(Recipe):
    """``bn_weight_decay``: whether batch-norm parameters decay too; ``label_smoothing``: of the cross entropy."""

    bn_weight_decay: bool
    label_smoothing: float


@dataclass(frozen=True)
class ImageSettings(Settings):
    """``image_size``: side in pixels; ``classes``: outputs of the network; ``layout``: order of a batch in memory."""

    image_size: int
    layout: str
    classes: int
    recipe: ImageRecipe


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and make the recipe that of NVIDIA's PyTorch ConvNets (DGX1_RN50_AMP_90E.sh)."""
    add = parser.add_argument_group("images").add_argument
    add("--image-size", type=positive, default=224, metavar="N", help="side in pixels")
    add("--layout", choices=("nchw", "nhwc"), default="nchw", help="order of an image batch in memory")
    add("--classes", type=positive, default=1000, metavar="N", help="outputs of the network")
    add("--bn-weight-decay", type=truth, nargs="?", const=True, default=False, metavar="true|false",
        help="decay batch-norm parameters too")  # fmt: skip
    add("--label-smoothing", type=float, default=0.1, help="of the cross entropy")
    add("--epoch-images", type=positive, default=IMAGENET_IMAGES, metavar="N", dest="epoch_samples",
        help="length of an epoch of synthetic data")  # fmt: skip
    parser.set_defaults(momentum=0.875, weight_decay=3.0517578125e-05)
    parser.set_defaults(schedule="cosine", epochs=90, warmup_epochs=8)
