"""The requested settings of a run that all tasks share, and the types of flags.

A task adds its own settings in a subclass. The types are for ``type=`` of argparse: they raise its error.
"""

import argparse
from dataclasses import dataclass, fields
from typing import Any, TypeVar

SYNTHETIC = "synthetic"
ADAM, ADAMW, LAMB = "adam", "adamw", "lamb"


@dataclass(frozen=True)
class Recipe:
    """The update of the weights."""

    learning_rate: float  # after the warm-up epochs
    momentum: float
    weight_decay: float
    schedule: str
    epochs: int
    warmup_epochs: int
    loss_scale: float | None  # of the fp16 precisions; None for dynamic loss scaling

    @property
    def optimizer_name(self) -> str:
        """Return the field's name of the optimizer."""
        return "SGD"


@dataclass(frozen=True)
class AdamRecipe(Recipe):
    """An adaptive optimizer: ``momentum`` is beta 1 (gradients), ``second_momentum`` is beta 2 (squares).

    The decay is decoupled, so it is not part of the gradient; Adam has none.
    """

    optimizer: str  # ``adam``, ``adamw`` or ``lamb``
    second_momentum: float
    epsilon: float
    clip_norm: float | None  # at which the norm of all gradients is clipped
    warmup_updates: int  # over which the rate rises from 0, regardless of ``warmup_epochs``

    @property
    def optimizer_name(self) -> str:
        return {ADAM: "Adam", ADAMW: "AdamW", LAMB: "LAMB"}[self.optimizer]


@dataclass(frozen=True)
class Settings:
    """The requested settings of a run; ``steps`` and ``warmup_steps`` include ``drain_steps``."""

    framework: str
    task: str
    model: str
    precision: str
    batch_per_device: int
    compiler: str
    data: str
    loader: str
    loader_workers: int
    steps: int  # all, with the first one and the warm-up
    warmup_steps: int
    drain_steps: int  # added to the request to drain the loader's queues
    witness_steps: int  # after the measured ones, at a part of the recipe's rate and, for some checks, at 0
    seed: int
    device: str
    threads: int
    events: str | None
    memory_limit: int | None
    collective: str
    gradients: str
    equivalence: str | None
    profile: int  # the steps that are profiled after the measured ones, in the place of ``witness_steps``
    epoch_samples: int  # of synthetic samples
    recipe: Recipe

    @property
    def synthetic(self) -> bool:
        """Return whether the samples are synthetic instead of read."""
        return self.data == SYNTHETIC

    @property
    def isolated(self) -> bool:
        """Return whether a sample has parts that must not see each other."""
        return False

    @property
    def dropout(self) -> float:
        """Return the share of values that the recipe drops; 0 for a recipe without dropout."""
        return float(getattr(self.recipe, "dropout", 0.0))


Kind = TypeVar("Kind", Recipe, Settings)
Number = TypeVar("Number", int, float)


def from_flags(kind: type[Kind], given: argparse.Namespace, **others: Any) -> Kind:
    """Return settings of a kind: each field is one of the ``others``, or the value of the flag of its name."""
    names = [one.name for one in fields(kind) if one.name not in others]
    return kind(**{name: getattr(given, name) for name in names}, **others)


def truth(text: str) -> bool:
    """Return whether the word is ``true``; it must be that or ``false``."""
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'true' nor 'false'")
    return text == "true"


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if count(text) == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return int(text)


def count(text: str) -> int:
    """Return a whole number of at least 0."""
    value = _number(text, int, "not a whole number")
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def norm(text: str) -> float | None:
    """Return a length to which gradients are clipped, None for 0: they are not."""
    value = _number(text, float, "not a number")
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must not be negative, nor infinite")
    return value or None


def loss_scale(text: str) -> float | None:
    """Return a fixed scale, None for ``dynamic``."""
    if text == "dynamic":
        return None
    value = _number(text, float, "neither 'dynamic' nor a number")
    if not value >= 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _number(text: str, kind: type[Number], otherwise: str) -> Number:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is {otherwise}") from None
