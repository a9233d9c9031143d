"""The requested settings of a run that all tasks share, with their flags.

A task adds its own settings in a subclass. The types of flags are for ``type=`` of argparse: they raise its error.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from .precision import PRECISIONS

SYNTHETIC = "synthetic"
NATIVE = "native"  # the collective, and the exchange of gradients, that every framework has: its own
ADAM, ADAMW, LAMB = "adam", "adamw", "lamb"

Number = TypeVar("Number", int, float)


class Flag(NamedTuple):
    """A flag, in the ``Annotated`` type of the field of settings or of a recipe that has its value."""

    purpose: str  # for the help
    kind: Callable[[str], Any] | Sequence[str] = str  # its type, or its choices
    default: Any = None
    name: str | None = None  # with ``_`` for ``-``, if it is not the field's


def truth(text: str) -> bool:
    """Return whether the word is ``true``; it must be that or ``false``."""
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'true' nor 'false'")
    return text == "true"


def at_least(least: Number, problem: str, otherwise: str = "not a number") -> Callable[[str], Number]:
    """Return the type of a flag whose finite value, of the type of ``least``, is not below it."""

    def value_of(text: str) -> Number:
        try:
            value = type(least)(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is {otherwise}") from None
        if not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(problem)
        return value

    return value_of


count = at_least(0, "must not be negative", "not a whole number")
positive = at_least(1, "must be at least 1", "not a whole number")


def norm(text: str) -> float | None:
    """Return a length to which gradients are clipped, None for 0: they are not."""
    return at_least(0.0, "must not be negative, nor infinite")(text) or None


def loss_scale(text: str) -> float | None:
    """Return a fixed scale, None for ``dynamic``."""
    if text == "dynamic":
        return None
    return at_least(1.0, "must be at least 1 and finite", "neither 'dynamic' nor a number")(text)


def file_path(text: str) -> str:
    """Return the absolute path of a file."""
    return str(Path(text).absolute())


def data_path(text: str) -> str:
    """Return ``synthetic`` or an absolute path."""
    return text if text == SYNTHETIC else file_path(text)


# What a type of flags has besides in ``add_argument``.
OF_TYPES: Mapping[Any, Mapping[str, Any]] = {
    positive: {"metavar": "N"}, count: {"metavar": "N"}, file_path: {"metavar": "FILE"}, norm: {"metavar": "LENGTH"},
    truth: {"nargs": "?", "const": True, "metavar": "true|false"},
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """The update of the weights; the rate is that after the warm-up epochs, a loss scale of None is dynamic."""

    learning_rate: Annotated[float, Flag("if not given: the task's, by the global batch", float)]
    momentum: Annotated[float, Flag("of SGD", float, 0.9)]
    weight_decay: Annotated[float, Flag("L2 penalty", float, 0.0)]
    schedule: Annotated[
        str, Flag("of the learning rate", ("cosine", "step", "linear", "constant"), "constant")
    ]
    epochs: Annotated[int, Flag("length of the schedule", positive, 1)]
    warmup_epochs: Annotated[int, Flag("of the learning rate", count, 0)]
    loss_scale: Annotated[float | None, Flag("dynamic, or a number", loss_scale, "dynamic")]

    @property
    def optimizer_name(self) -> str:
        """Return the field's name of the optimizer."""
        return "SGD"


UPDATES = "steps over which the rate rises from 0, regardless of the warm-up epochs"
CLIPPED = "of all gradients together, made so long where they are longer; 0: as they are"


@dataclass(frozen=True)
class AdamRecipe(Recipe):
    """An adaptive optimizer: ``momentum`` is beta 1 (gradients), ``second_momentum`` is beta 2 (squares).

    The decay is decoupled, so it is not part of the gradient; Adam has none.
    """

    optimizer: str  # ``adam``, ``adamw`` or ``lamb``
    second_momentum: Annotated[float, Flag("of the optimizer (beta 2)", float)]
    epsilon: Annotated[float, Flag("of the optimizer", float)]
    clip_norm: Annotated[float | None, Flag(CLIPPED, norm)]
    warmup_updates: Annotated[int, Flag(UPDATES, count, 0)]

    @property
    def optimizer_name(self) -> str:
        return {ADAM: "Adam", ADAMW: "AdamW", LAMB: "LAMB"}[self.optimizer]


EQUIVALENCE = "train the three steps in this file (.npz) instead, and write their results as the events"
PROFILE = "profile N more steps instead of verifying the run; needs --events: the trace is written there"
EPOCH = "length of an epoch of synthetic data"


@dataclass(frozen=True)
class Settings:
    """The requested settings of a run; ``steps`` and ``warmup_steps`` include ``drain_steps``."""

    framework: str
    task: str
    model: str
    precision: Annotated[str, Flag("fp32 means that TF32 is off", tuple(PRECISIONS), "fp32")]
    batch_per_device: Annotated[int, Flag("samples per rank", positive, 32)]
    compiler: Annotated[str, Flag("a compiler of the framework", default="none")]
    data: Annotated[str, Flag("synthetic, or the path of real data", data_path, SYNTHETIC)]
    loader: Annotated[str, Flag("the loader of real data", default="native")]
    loader_workers: Annotated[int, Flag("for each rank", count, 2)]
    steps: Annotated[int, Flag("all steps, including the first", positive, 120)]
    warmup_steps: Annotated[int, Flag("steps not measured", count, 20)]
    drain_steps: int  # added to the request to drain the loader's queues
    witness_steps: int  # after the measured ones, at a part of the recipe's rate and, for some checks, at 0
    seed: Annotated[int, Flag("of weights and data", count, 0)]
    device: Annotated[str, Flag("the device of the rank", ("auto", "cpu", "cuda"), "auto")]
    threads: Annotated[int, Flag("of this rank; 0: the default", count, 0)]
    events: Annotated[str | None, Flag("the file for rank 0's events; default: standard output", file_path)]
    memory_limit: Annotated[int | None, Flag("bytes of this process's data", positive)]
    collective: Annotated[str, Flag("the ranks' collectives; native: the framework's", default=NATIVE)]
    gradients: Annotated[str, Flag("the exchange of gradients; native: the usual one", default=NATIVE)]
    equivalence: Annotated[str | None, Flag(EQUIVALENCE, file_path)]
    profile: Annotated[int, Flag(PROFILE, count, 0)]
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


def flags_of(kind: type[Recipe] | type[Settings]) -> dict[str, Flag]:
    """Return the flags of settings or of a recipe, by their fields' names."""
    return {one.name: flag for one in fields(kind) for flag in getattr(one.type, "__metadata__", ())}


def from_flags(kind: type[Kind], given: argparse.Namespace, **others: Any) -> Kind:
    """Return settings of a kind: each field is one of the ``others``, or the value of the flag of its name."""
    names = [one.name for one in fields(kind) if one.name not in others]
    return kind(**{name: getattr(given, name) for name in names}, **others)
