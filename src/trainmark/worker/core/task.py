"""What a task says of itself: its models, flags and units of work, its made-up inputs, and its check of equal work."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .facts import Expected
from .roofline import Piece
from .settings import Settings


class Check(NamedTuple):
    """What the check of equal work has to know of a task, for one model; see ``equivalence.py``."""

    shapes: Mapping[str, Tuple[int, ...]]
    """The shape of every trainable parameter and running statistic, by the names that all frameworks share."""

    inputs: Tuple[str, ...]
    """The names of the batch's arrays, in the order in which ``Training.set_batch`` takes them."""

    statistic: Callable[[Any, Any], Any]
    """From a running statistic before and after a step: the batch's own that moved it."""

    facts: Mapping[str, Any]
    """What is told of the settings, ready for JSON."""

    layers: Callable[[Any], Dict[str, Any]]
    """From the first step's ``Observation``: what the layers are and did, ready for JSON."""

    outputs: Callable[[Any], Dict[str, Any]]
    """From each step's ``Observation``: what came out of the network, ready for JSON."""

    reach: Optional[Callable[[Any, Mapping[str, Any]], Dict[str, Any]]] = None
    """From the first step's ``Observation`` and its weights: between which values the activations' inputs are."""

    other: Optional[Callable[[Sequence[Any]], Sequence[Any]]] = None
    """From the batch: that of every second step. Without it all steps have the same one.

    What a step does to a row of a table that only an earlier one has looked up shows in no other way.
    """


class Task:
    """One kind of training. A folder of ``tasks`` has one as ``TASK`` in its ``__init__.py``."""

    name: str
    """That of the folder, with ``-`` for ``_``."""

    models: Sequence[str]
    """What can be trained; the first one if nothing else is asked for."""

    headline: str
    """The counter of work by which throughput is counted."""

    unnamed = False
    """Whether a run that names neither a task nor a model means this one."""

    @property
    def unit(self) -> str:
        """Return the unit of throughput."""
        return f"{self.headline}/s"

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add the task's own flags, and set the defaults of the recipe.

        Something must set ``epoch_samples``, the length of an epoch of made-up samples.
        """
        raise NotImplementedError

    def defaults(self, _model: str) -> Mapping[str, Any]:
        """Return what the recipe of a model has otherwise than the task's, by the names of the flags' values."""
        return {}

    def learning_rate(self, global_batch: int) -> float:
        """Return the recipe's learning rate for the samples of one step of all ranks."""
        raise NotImplementedError

    def settings(self, _given: argparse.Namespace, common: Settings) -> Settings:
        """Return the settings with those of the task's own flags; the type that the frameworks' workers get."""
        return common

    def refuse(self, settings: Settings) -> None:
        """Raise ``RunError`` for settings that cannot be trained, whatever the framework."""

    def work(self, settings: Settings, samples: int) -> Dict[str, int]:
        """Return the work in so many samples, by counter."""
        raise NotImplementedError

    def parameters(self, settings: Settings, epoch_samples: int) -> Dict[str, Any]:
        """Return what the PARAMETER event says of the task's own settings."""
        raise NotImplementedError

    def operations(self, _settings: Settings) -> Dict[str, int]:
        """Return the floating-point operations of training on a sample, by the name of the convention; none known: {}.

        ``counted``: two for each multiply-add of the forward pass, and twice as many backward.
        """
        return {}

    def pieces(self, _settings: Settings, _value_bytes: int) -> Sequence[Piece]:
        """Return what a step of one rank must at least compute and move; none known: ().

        ``value_bytes`` is the size of a value in the type in which the run computes.
        """
        return ()

    def recipe(self, _settings: Settings) -> Dict[str, Any]:
        """Return what the PARAMETER event says of the recipe beside what all tasks have in it."""
        return {}

    def asked(self, _settings: Settings) -> Dict[str, Any]:
        """Return what ``Training.seen`` must have seen of the task's own, by key."""
        return {}

    def synthetic(self, settings: Settings, rank: int) -> Tuple[Any, ...]:
        """Return a rank's made-up batch, the same in every framework: numpy's, as ``Training.set_batch`` has it."""
        raise NotImplementedError

    def is_trainable(self, _name: str) -> bool:
        """Return whether a shared name is that of a parameter, and not of a running statistic."""
        return True

    def decay(self, settings: Settings, _name: str) -> float:
        """Return the weight decay of a parameter by its shared name."""
        return settings.recipe.weight_decay

    def looked(
        self, _settings: Settings, _expected: Expected, _seen: Any, _alone: Any
    ) -> Tuple[Dict[str, Any], List[Tuple[str, str]]]:
        """Return what the events say of what ``Training.watched_step`` and ``own_pass`` saw (or None), and doubts."""
        return {}, []

    def another(self, _settings: Settings, _batch: Sequence[Any]) -> Optional[Sequence[Any]]:
        """Return from a made-up batch (numpy) that of the last step after the window; None: the same one.

        What a step does to a row of a table that only an earlier one has looked up shows in no other way.
        """
        return None

    def is_lazy(self, _settings: Settings, _name: str) -> bool:
        """Return whether an adaptive optimizer was asked to leave elements without a gradient of a parameter alone."""
        return False

    def rows(
        self, _settings: Settings, _batches: Sequence[Sequence[Any]], _weights: Sequence[Mapping[str, Any]]
    ) -> Tuple[Dict[str, Any], List[Tuple[str, str]]]:
        """Return what the last step did to rows that only the step before it has looked up, and what is wrong with it.

        There are two ``batches`` and three sets of ``weights``: before, between and after the steps.
        """
        return {}, []

    def check(self, settings: Settings) -> Check:
        """Return the task's part of the check of equal work."""
        raise NotImplementedError
