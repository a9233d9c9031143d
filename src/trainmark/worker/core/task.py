"""The declaration of a task, what its parts compute and move, and the result of a check."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, NamedTuple, TypeVar, cast

from .precision import Precision
from .settings import Recipe, Settings

Arrays = Mapping[str, Any]  # of numpy, by the shared names


class Piece(NamedTuple):
    """A layer's forward or backward pass over a rank's batch, or the update of all weights."""

    name: str
    operations: float
    moved_bytes: float


@dataclass
class Verified:
    """The result of checks of a run: data for the events, doubts (codes and sentences), checks that were impossible."""

    data: dict[str, Any] = field(default_factory=dict)
    doubts: list[tuple[str, str]] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    def doubt(self, code: str, sentence: str) -> None:
        """Add a doubt."""
        self.doubts.append((code, sentence))

    def add(self, other: "Verified") -> None:
        """Add the result of another check."""
        self.data.update(other.data)
        self.doubts += other.doubts
        self.not_checked += other.not_checked


class Check(NamedTuple):
    """The facts of a task for the check of equal work of one model; see ``equivalence.py``.

    ``layers``, ``outputs`` and ``reach`` take an ``Observation``. They return, like ``facts``, what is ready for JSON.
    """

    shapes: Mapping[str, tuple[int, ...]]  # of every parameter and running statistic, by the shared names
    inputs: tuple[str, ...]  # the names of the batch's arrays, as ``Training.set_batch`` takes them
    facts: Mapping[str, Any]  # the reported settings
    layers: Callable[[Any], dict[str, Any]]  # returns the facts and outputs of the layers in the first step
    outputs: Callable[[Any], dict[str, Any]]  # returns the network's outputs in a step
    # Returns the batch's own statistic from a running one before and after a step.
    statistic: Callable[[Any, Any], Any] = lambda _before, after: after
    # Returns the ranges of the activations' inputs, from the first step and the weights.
    reach: Callable[[Any, Mapping[str, Any]], dict[str, Any]] | None = None
    # Returns the batch of every second step; None for the same batch in all steps.
    other: Callable[[Sequence[Any]], Sequence[Any]] | None = None


class PlainLoss(NamedTuple):
    """The loss of a batch by the recipe's formula."""

    loss: float
    targets: int  # that it is the mean of
    mistakes: Mapping[str, float]  # the losses by formulas with a mistake, by what is wrong with each
    gradients: Mapping[str, Any] = {}  # those that follow from the outputs alone, by the shared names


Own = TypeVar("Own", bound=Settings)  # the type of a task's settings


class Task(Generic[Own]):
    """One kind of training. A folder of ``tasks`` has one as ``TASK`` in its ``__init__.py``."""

    name: str  # that of the folder, with ``-`` for ``_``
    models: Sequence[str]  # the first one is the default
    headline: str  # the counter of work that throughput is counted by
    settings_type: type[Settings] = Settings  # with a ``Flag`` for each of its own fields
    observed_fields: Sequence[str] = ()  # the settings whose values the first step must show
    is_default = False  # runs that name neither a task nor a model have this one

    @property
    def unit(self) -> str:
        """Return the unit of throughput."""
        return f"{self.headline}/s"

    def defaults(self, _model: str) -> Mapping[str, Any]:
        """Return a model's values of fields that are not given, where they are no default of a ``Flag``."""
        return {}

    def recipe_type(self, _model: str) -> type[Recipe]:
        """Return the type of a model's recipe, here that of the settings; the first model's has the flags of all."""
        (found,) = (one.type for one in fields(self.settings_type) if one.name == "recipe")
        return cast("type[Recipe]", found)

    def complete(self, given: argparse.Namespace, _world_size: int) -> None:
        """Set the flags that were not given, and whose values follow from others or the number of ranks."""

    def refuse(self, settings: Own) -> None:
        """Raise ``RunError`` for settings that no framework can train."""

    def work(self, settings: Own, samples: int) -> dict[str, int]:
        """Return the work of a number of samples, by counter."""
        raise NotImplementedError

    def parameters(self, settings: Own, epoch_samples: int) -> dict[str, Any]:
        """Return the task's own settings for the PARAMETER event."""
        raise NotImplementedError

    def operations(self, _settings: Own) -> dict[str, int]:
        """Return the floating-point operations of training on a sample, by convention; empty if unknown.

        ``counted``: two for each multiply-add of the forward pass, and twice as many backward.
        """
        return {}

    def pieces(self, _settings: Own, _value_bytes: int) -> Sequence[Piece]:
        """Return the least work of one rank's step, by part, if values have so many bytes; empty if unknown."""
        return ()

    def requested(self, settings: Own) -> dict[str, Any]:
        """Return the task's own required observations of the first step, by key."""
        return {name: getattr(settings, name) for name in self.observed_fields}

    def synthetic(self, settings: Own, rank: int) -> tuple[Any, ...]:
        """Return a rank's synthetic batch in numpy for ``Training.set_batch``, the same in every framework."""
        raise NotImplementedError

    def labels(self, _settings: Own, _batch: Sequence[Any]) -> tuple[Any, float] | None:
        """Return the labels of a batch (numpy, any shape), and the largest plausible share of one of them."""
        return None

    def count_samples(self, _settings: Own) -> int | None:
        """Return the samples of the data set, counted by other code than the loaders'; None if it is not counted."""
        return None

    def list_samples(self, _settings: Own) -> Sequence[int] | None:
        """Return the numbers that loaders record (``SampleCounter``), in the order of the data set; None if unknown."""
        return None

    def plain_loss(self, _settings: Own, _batch: Sequence[Any], _alone: Any) -> PlainLoss | None:
        """Return the loss of a batch from the outputs of ``Training.own_pass``; None if it does not show enough."""
        return None

    def is_trainable(self, _name: str) -> bool:
        """Return whether a shared name belongs to a parameter and not to a running statistic."""
        return True

    def decays(self, _name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return True

    def decay(self, settings: Own, name: str) -> float:
        """Return the requested weight decay of a parameter by its shared name."""
        return settings.recipe.weight_decay if self.decays(name) else 0.0

    def verify_layers(self, _settings: Own, _expected: Precision, _observed: Any, _alone: Any) -> Verified:
        """Check the observations of ``Training.observed_step`` and ``own_pass``."""
        return Verified()

    def another(self, _settings: Own, _batch: Sequence[Any]) -> Sequence[Any] | None:
        """Return the batch of the last step after the window from a synthetic one (numpy); None for the same batch.

        Only this reveals what a step does to a row of a table that only an earlier step has looked up. And of another
        batch fewer digits of the gradients are lost in 16 bits than of one that the model has learned.
        """
        return None

    def unrelated(self, _settings: Own, _rank: int) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """Return two isolated batches (numpy) whose losses must be equal: they differ in parts that nothing counts."""
        return None

    def is_lazy(self, _settings: Own, _name: str) -> bool:
        """Return whether the adaptive optimizer must not change elements without a gradient."""
        return False

    def rows(self, _settings: Own, _batches: Sequence[Sequence[Any]], _weights: Sequence[Arrays]) -> Verified:
        """Check what the last of two steps did to rows that only the first looked up, by the weights around both."""
        return Verified()

    def check(self, settings: Own) -> Check:
        """Return the task's part of the check of equal work."""
        raise NotImplementedError
