"""Shows what a training step really is, so that it can be compared with that of another framework.

The input (.npz) holds initial weights by the names that the frameworks share, and the arrays of the batch: a task's
``Check`` says which. For each of ``STEPS`` steps the batch is first *observed*: forward and backward, no update. Then
the weights of before are loaded again and the step is done by ``Training.step``, the function that is timed. The inner
products of updates, gradients, weights and the directions of an adaptive optimizer (``optimizers.py``) show the
conventions that cannot be seen from outside: ``docs/explanation/equivalence.md`` has the equations, and why a task with
tables has another batch for the second step. Nothing of this is taken from what the worker says of itself. Sums are in
float64.

A compiled step is not looked into: what a compiler makes of a network has no layers that could be observed. Of it only
what it does to the weights and the running statistics is compared, with the framework's step without a compiler.
"""

import zlib
from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from .optimizers import Directions, clipping
from .settings import Settings
from .task import Check
from .training import NONE, Training

SCHEMA = "trainmark.equivalence/1"
STEPS = 3


def observe_training(training: Training, settings: Settings) -> dict[str, Any]:
    """Train ``STEPS`` steps on the input of ``settings.equivalence``; return what was observed, ready for JSON.

    Raises OSError or ValueError when the input cannot be read.
    """
    check, is_observed = training.task.check(settings), settings.compiler == NONE
    weights, batch = _given(settings, check)
    training.load_weights(weights)
    training.set_batch(*batch)
    layers: dict[str, Any] = {}
    if is_observed:
        # Another loss on the same weights and batch than that of the first step is a random part's work.
        layers["repeated_loss"] = float(training.observe().loss)
        training.load_weights(weights)
    names = [name for name in check.shapes if training.task.is_trainable(name)]
    statistics = [name for name in check.shapes if name not in names]
    before, steps, directions = training.read_weights(), [], Directions(settings.recipe)
    previous: dict[str, Any] = {}
    for index in range(STEPS):
        if check.other is not None:
            training.set_batch(*(check.other(batch) if index % 2 else batch))
        observed = training.observe() if is_observed else None
        if observed is not None:
            training.load_weights(before)
        training.step(index)
        training.synchronize()
        after = training.read_weights()
        updates = {name: before[name] - after[name] for name in names}
        done: dict[str, Any] = {"updates": {name: sketch(name, update) for name, update in updates.items()}}
        done["statistics"] = {
            name: sketch(name, check.statistic(_double(before[name]), _double(after[name])))
            for name in statistics
        }
        if observed is not None:
            gradients = observed.gradients
            done.update(loss=float(observed.loss), **check.outputs(observed))
            done["gradients"] = {name: sketch(name, gradients[name]) for name in names}
            factor = clipping(gradients, settings.recipe)
            done["moments"] = {}
            for name in names:
                vectors = {"u": updates[name], "g": gradients[name], "w": before[name]}
                vectors |= {"p": previous[name]} if previous else {}
                vectors |= directions.next(name, gradients[name], factor)
                done["moments"][name] = _products(vectors)
            if index == 0:
                layers.update(check.layers(observed))
                layers.update({} if check.reach is None else check.reach(observed, before))
        steps.append(done)
        before, previous = after, updates
    return {
        "schema": SCHEMA,
        "framework": settings.framework,
        "model": settings.model,
        **check.facts,
        # The framework's own count, not that of the names that it was asked for.
        "parameters": training.describe()["parameters"],
        "steps": steps,
        "step_losses": training.losses()[:STEPS],
        **layers,
    }


def _given(settings: Settings, check: Check) -> tuple[dict[str, Any], list[Any]]:
    """Return the weights and the batch of the input."""
    assert settings.equivalence is not None
    with np.load(settings.equivalence) as given:
        arrays = {name: given[name] for name in given.files}
    for name in check.inputs:
        if name not in arrays:
            raise ValueError(f"{settings.equivalence} has no {name}")
    batch = [arrays.pop(name) for name in check.inputs]
    for name, shape in check.shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            raise ValueError(f"{settings.equivalence} has no weights of this model for {name}")
    return arrays, batch


def _double(array: Any) -> Any:
    return np.asarray(array, np.float64)


def sketch(name: str, array: Any) -> dict[str, float]:
    """Return the norm of an array and its sum with pseudo-random signs, which tells arrays of one norm apart."""
    values = _double(array).ravel()
    signs = np.random.RandomState(zlib.crc32(name.encode())).randint(0, 2, values.size) * 2 - 1
    return {"norm": float(np.sqrt(values @ values)), "signed_sum": float(values @ signs)}


def _products(vectors: Mapping[str, Any]) -> dict[str, float]:
    """Return the inner products from which learning rate, decay and momentum are solved, of one parameter.

    u: this step's update; p: that of the step before (none for the first); g: gradient; w: weights before; a and b: the
    directions of an adaptive optimizer.
    """
    doubles = {key: _double(vectors[key]).ravel() for key in sorted(vectors)}
    pairs = combinations_with_replacement(doubles, 2)
    return {one + other: float(doubles[one] @ doubles[other]) for one, other in pairs}
