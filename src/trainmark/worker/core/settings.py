"""One run as it was asked for: what every task has. A task adds fields of its own in a subclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

SYNTHETIC = "synthetic"

ADAM, ADAMW, LAMB = "adam", "adamw", "lamb"


@dataclass(frozen=True)
class Recipe:
    """How the weights are updated. ``learning_rate`` is the rate after the warm-up epochs.

    ``loss_scale`` is None for dynamic loss scaling; it is used by the fp16 precisions alone.
    """

    learning_rate: float
    momentum: float
    weight_decay: float
    schedule: str
    epochs: int
    warmup_epochs: int
    loss_scale: Optional[float]

    @property
    def optimizer_name(self) -> str:
        """What the field calls the optimizer."""
        return "SGD"


@dataclass(frozen=True)
class AdamRecipe(Recipe):
    """An adaptive optimizer: ``momentum`` is that of gradients (beta 1), ``second_momentum`` of squares (beta 2).

    ``optimizer`` is ``adam``, ``adamw`` or ``lamb``. The decay is decoupled: it is no part of the gradient;
    ``adam`` has none. Gradients whose norm, of all parameters together, is more than ``clip_norm`` are made as long as
    that; None: as they are. Over the first ``warmup_updates`` the rate rises from 0, whatever ``warmup_epochs`` are.
    """

    optimizer: str
    second_momentum: float
    epsilon: float
    clip_norm: Optional[float]
    warmup_updates: int

    @property
    def optimizer_name(self) -> str:
        """What the field calls the optimizer."""
        return {ADAM: "Adam", ADAMW: "AdamW", LAMB: "LAMB"}[self.optimizer]


@dataclass(frozen=True)
class Settings:
    """One run as it was asked for. ``steps`` counts every step, the first and the warm-up included.

    Of them and of ``warmup_steps`` ``drain_steps`` come on top of what was asked for: they drain the loader's queues.
    ``witness_steps`` of a training come after all those that a run measures; they are at the full learning rate.
    ``epoch_samples`` is the length of an epoch of made-up samples.
    """

    framework: str
    task: str
    model: str
    precision: str
    batch_per_device: int
    compiler: str
    data: str
    loader: str
    loader_workers: int
    steps: int
    warmup_steps: int
    drain_steps: int
    witness_steps: int
    seed: int
    device: str
    threads: int
    events: Optional[str]
    memory_limit: Optional[int]
    collective: str
    gradients: str
    equivalence: Optional[str]
    epoch_samples: int
    recipe: Recipe

    @property
    def synthetic(self) -> bool:
        """Whether the samples are made up on the device instead of read."""
        return self.data == SYNTHETIC
