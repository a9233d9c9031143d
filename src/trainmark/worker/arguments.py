"""The worker's flags: every axis of a case, the recipe, and where the events go."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Optional, Sequence

from .architectures import ARCHITECTURES

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "paddle", "jax", "mindspore", "oneflow")
PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16", "fp16", "bf16")
LAYOUTS = ("nchw", "nhwc")
SCHEDULES = ("cosine", "step", "constant")
SYNTHETIC = "synthetic"

NATIVE = "native"
"""The collective and the exchange of gradients that every framework has: its own."""

IMAGENET_IMAGES = 1_281_167
"""The training images of ImageNet-1k: the epoch of synthetic data."""


@dataclass(frozen=True)
class Recipe:
    """How the weights are updated. ``learning_rate`` is the rate after the warm-up epochs.

    ``loss_scale`` is None for dynamic loss scaling; it is used by the fp16 precisions alone.
    """

    learning_rate: float
    momentum: float
    weight_decay: float
    bn_weight_decay: bool
    label_smoothing: float
    schedule: str
    epochs: int
    warmup_epochs: int
    loss_scale: Optional[float]


@dataclass(frozen=True)
class Settings:
    """One run as it was asked for. ``steps`` counts every step, the first and the warm-up included."""

    framework: str
    model: str
    precision: str
    batch_per_device: int
    image_size: int
    layout: str
    compiler: str
    data: str
    loader: str
    loader_workers: int
    steps: int
    warmup_steps: int
    seed: int
    device: str
    threads: int
    classes: int
    events: Optional[str]
    memory_limit: Optional[int]
    collective: str
    gradients: str
    equivalence: Optional[str]
    epoch_images: int
    recipe: Recipe

    @property
    def synthetic(self) -> bool:
        """Whether the images are made up on the device instead of read."""
        return self.data == SYNTHETIC


def parse(arguments: Sequence[str], world_size: int) -> Settings:
    """Return the settings; a flag that cannot be used ends the program with exit code 2, as argparse does.

    ``world_size`` turns the recipe's learning rate for a batch of 256 into the one for the global batch.
    """
    parser = _parser()
    given = parser.parse_args(list(arguments))
    if given.warmup_steps < 1:
        parser.error("--warmup-steps must be at least 1: the first step is never part of the measured window")
    if given.steps <= given.warmup_steps:
        parser.error(
            f"--steps ({given.steps}) must be more than --warmup-steps ({given.warmup_steps}): "
            "nothing would be left to measure"
        )
    learning_rate = given.learning_rate
    if learning_rate is None:
        learning_rate = 0.256 * given.batch_per_device * world_size / 256
    return Settings(
        framework=given.framework,
        model=given.model,
        precision=given.precision,
        batch_per_device=given.batch_per_device,
        image_size=given.image_size,
        layout=given.layout,
        compiler=given.compiler,
        data=given.data,
        loader=given.loader,
        loader_workers=given.loader_workers,
        steps=given.steps,
        warmup_steps=given.warmup_steps,
        seed=given.seed,
        device=given.device,
        threads=given.threads,
        classes=given.classes,
        events=given.events,
        memory_limit=given.memory_limit,
        collective=given.collective,
        gradients=given.gradients,
        equivalence=given.equivalence,
        epoch_images=given.epoch_images,
        recipe=Recipe(
            learning_rate=learning_rate,
            momentum=given.momentum,
            weight_decay=given.weight_decay,
            bn_weight_decay=given.bn_weight_decay,
            label_smoothing=given.label_smoothing,
            schedule=given.schedule,
            epochs=given.epochs,
            warmup_epochs=given.warmup_epochs,
            loss_scale=given.loss_scale,
        ),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trainmark-worker",
        description="Train a model for some steps and write what each of them took.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    case = parser.add_argument_group("case")
    case.add_argument("--framework", choices=FRAMEWORKS, required=True, help="the framework that trains")
    case.add_argument("--model", choices=sorted(ARCHITECTURES), default="resnet50_v1.5", help="the network")
    case.add_argument("--precision", choices=PRECISIONS, default="fp32", help="fp32 means that TF32 is off")
    case.add_argument("--batch-per-device", type=_positive, default=32, metavar="N", help="images a rank")
    case.add_argument("--image-size", type=_positive, default=224, metavar="N", help="side in pixels")
    case.add_argument("--layout", choices=LAYOUTS, default="nchw", help="order of an image batch in memory")
    case.add_argument("--compiler", default="none", help="a compiler that the framework has")
    case.add_argument("--data", default=SYNTHETIC, help="synthetic, an image folder, or a 'path label' list")
    case.add_argument("--loader", default="native", help="what reads and decodes real images")
    case.add_argument("--loader-workers", type=_count, default=2, metavar="N", help="for each rank")
    case.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="what computes")
    case.add_argument("--threads", type=_count, default=0, metavar="N", help="of this rank; 0: as they are")
    case.add_argument("--classes", type=_positive, default=1000, metavar="N", help="outputs of the network")
    case.add_argument(
        "--collective", default=NATIVE, help="what the ranks talk through; native: the framework's"
    )
    case.add_argument(
        "--gradients", default=NATIVE, help="how the ranks exchange them; native: the framework's usual way"
    )
    protocol = parser.add_argument_group("protocol")
    protocol.add_argument("--steps", type=_positive, default=120, metavar="N", help="all, the first included")
    protocol.add_argument("--warmup-steps", type=_count, default=20, metavar="N", help="steps not measured")
    protocol.add_argument("--seed", type=_count, default=0, metavar="N", help="of weights, data and crops")
    protocol.add_argument("--events", metavar="FILE", help="what rank 0 writes; standard output if not given")
    protocol.add_argument("--memory-limit", type=_positive, metavar="BYTES", help="of this process's data")
    protocol.add_argument(
        "--equivalence", metavar="FILE",
        help="train the three steps in this file (.npz) instead, and write what they computed as the events",
    )  # fmt: skip
    recipe = parser.add_argument_group("recipe")
    recipe.add_argument("--learning-rate", type=float, help="if not given: 0.256 a global batch of 256")
    recipe.add_argument("--momentum", type=float, default=0.875, help="of SGD")
    recipe.add_argument("--weight-decay", type=float, default=3.0517578125e-05, help="L2 penalty")
    recipe.add_argument(
        "--bn-weight-decay", type=_truth, nargs="?", const=True, default=False, metavar="true|false",
        help="decay batch-norm parameters too",
    )  # fmt: skip
    recipe.add_argument("--label-smoothing", type=float, default=0.1, help="of the cross entropy")
    recipe.add_argument("--schedule", choices=SCHEDULES, default="cosine", help="of the learning rate")
    recipe.add_argument("--epochs", type=_positive, default=90, metavar="N", help="length of the schedule")
    recipe.add_argument("--warmup-epochs", type=_count, default=8, metavar="N", help="of the learning rate")
    recipe.add_argument(
        "--epoch-images", type=_positive, default=IMAGENET_IMAGES, metavar="N",
        help="length of an epoch of synthetic data",
    )  # fmt: skip
    recipe.add_argument("--loss-scale", type=_loss_scale, default="dynamic", help="dynamic, or a number")
    return parser


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'true' nor 'false'")
    return text == "true"


def _positive(text: str) -> int:
    value = _count(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def _loss_scale(text: str) -> Optional[float]:
    if text == "dynamic":
        return None
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'dynamic' nor a number") from None
    if not value >= 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
