"""Shows what a training step really is, so that it can be compared with that of another framework.

The input (.npz) holds initial weights by the names that the frameworks share, and the arrays of the batch: a task's
``Check`` says which. For each of ``STEPS`` steps the batch is first *observed*: forward and backward, no update. Then
the weights of before are loaded again and the step is done by ``Training.step``, the function that is timed. From the
weights before and after it, and the observed gradients, follow the conventions that cannot be seen from outside:
with u the update, w the weights, g the gradient, l the learning rate, d the decay, m the momentum,

    u_0 = l_0 (g_0 + d w_0)             a parameter that does not decay gives l_0, the others d
    u_1 = l_1 (m v + g_1 + d w_1)       with v = u_0 / l_0, gives l_1 m

An adaptive optimizer divides each element by what it remembers of its squares. There a, the direction that the recipe
asks for, is computed from the observed gradients of all steps so far (``optimizers.py``), and the step must be

    u = l (a + d w)

with one l and d for all elements of a parameter; b is that direction without the recipe's clipping. Nothing of this is
taken from what the worker says of itself. Sums are in float64.

A compiled step is not looked into: what a compiler makes of a network has no layers that could be asked. It is
done, three times, by the function that is timed, and what it does to the weights and the running statistics is told;
that is compared with the same framework's step without a compiler.

A task with tables has another batch for the second step: with one batch alone a row that it does not look up has no
gradient and no moments for ever, and an optimizer that leaves such rows alone does what the published one does.
"""

import zlib
from collections.abc import Mapping
from typing import Any

from .backend import Observation
from .optimizers import Directions, clipping
from .settings import Settings
from .task import Check
from .training import Training

SCHEMA = "trainmark.equivalence/1"
STEPS = 3
OBSERVED = "none"
"""The compiler with which a step can be looked into: no compiler."""


def observe_training(training: Training, settings: Settings) -> dict[str, Any]:
    """Train ``STEPS`` steps on the input of ``settings.equivalence``; return what was seen, ready for JSON.

    Raises OSError or ValueError when the input cannot be read.
    """
    check = training.task.check(settings)
    weights, batch = _given(settings, check)
    training.load_weights(weights)
    training.set_batch(*batch)
    repeated = _repeated(training, weights) if settings.compiler == OBSERVED else {}
    steps: list[dict[str, Any]] = []
    observer = _Observer(training, settings, check)
    for index in range(STEPS):
        if check.other is not None:
            training.set_batch(*(check.other(batch) if index % 2 else batch))
        steps.append(observer.step(index))
    return {
        "schema": SCHEMA,
        "framework": settings.framework,
        "model": settings.model,
        **check.facts,
        # The framework's own count, not that of the names that it was asked for.
        "parameters": training.describe()["parameters"],
        "steps": steps,
        "step_losses": training.losses()[:STEPS],
        **repeated,
        **observer.layers,
    }


def _repeated(training: Training, weights: Mapping[str, Any]) -> dict[str, float]:
    """Return the loss of a look before the first: another one on the same weights and batch is a random part's work."""
    loss = float(training.observe().loss)
    training.load_weights(weights)
    return {"repeated_loss": loss}


def _given(settings: Settings, check: Check) -> tuple[dict[str, Any], list[Any]]:
    """Return the weights and the batch of the input."""
    import numpy as np

    assert settings.equivalence is not None
    with np.load(settings.equivalence) as given:
        arrays = {name: given[name] for name in given.files}
    missing = [name for name in check.inputs if name not in arrays]
    if missing:
        raise ValueError(f"{settings.equivalence} has no {missing[0]}")
    batch = [arrays.pop(name) for name in check.inputs]
    wrong = [
        name for name, shape in check.shapes.items() if name not in arrays or arrays[name].shape != shape
    ]
    if wrong:
        raise ValueError(f"{settings.equivalence} has no weights of this model for {wrong[0]}")
    return arrays, batch


class _Observer:
    """Looks into one step after the other, and keeps what the next one is compared with."""

    def __init__(self, training: Training, settings: Settings, check: Check) -> None:
        self._training, self._settings, self._check = training, settings, check
        self._names = [name for name in check.shapes if training.task.is_trainable(name)]
        self._rest = [name for name in check.shapes if not training.task.is_trainable(name)]
        self._weights = training.read_weights()
        self._updates: dict[str, Any] = {}
        self._directions = Directions(settings.recipe)
        self.layers: dict[str, Any] = {}

    def step(self, index: int) -> dict[str, Any]:
        """Do a step and return what it did; ``layers`` are told of the first that can be looked into."""
        training, before = self._training, self._weights
        observed = training.observe() if self._settings.compiler == OBSERVED else None
        if observed is not None:
            training.load_weights(before)
        training.step(index)
        training.synchronize()
        after = training.read_weights()
        updates = {name: before[name] - after[name] for name in self._names}
        done: dict[str, Any] = {
            "updates": {name: sketch(name, update) for name, update in updates.items()},
            "statistics": {
                name: sketch(name, self._check.statistic(_double(before[name]), _double(after[name])))
                for name in self._rest
            },
        }
        if observed is not None:
            done.update(_passes(observed, self._check, self._names))
            done["moments"] = self._moments(observed, updates)
            self.layers = self.layers or self._layers(observed)
        self._weights, self._updates = after, updates
        return done

    def _layers(self, observed: Observation) -> dict[str, Any]:
        reach = {} if self._check.reach is None else self._check.reach(observed, self._weights)
        return {**self._check.layers(observed), **reach}

    def _moments(self, observed: Observation, updates: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        factor = clipping(observed.gradients, self._settings.recipe)
        return {
            name: _products(
                {
                    "u": updates[name],
                    "g": observed.gradients[name],
                    "w": self._weights[name],
                    **({"p": self._updates[name]} if self._updates else {}),
                    **self._directions.next(name, observed.gradients[name], factor),
                }
            )
            for name in self._names
        }


def _passes(observed: Observation, check: Check, names: list[str]) -> dict[str, Any]:
    """Return what a forward and a backward pass gave."""
    return {
        "loss": float(observed.loss),
        **check.outputs(observed),
        "gradients": {name: sketch(name, observed.gradients[name]) for name in names},
    }


def _double(array: Any) -> Any:
    import numpy as np

    return np.asarray(array, np.float64)


def sketch(name: str, array: Any) -> dict[str, float]:
    """Return the norm of an array and its sum with pseudo-random signs, which tells arrays of one norm apart."""
    import numpy as np

    values = _double(array).ravel()
    signs = np.random.RandomState(zlib.crc32(name.encode())).randint(0, 2, values.size) * 2 - 1
    return {"norm": float(np.sqrt(values @ values)), "signed_sum": float(values @ signs)}


def _products(vectors: Mapping[str, Any]) -> dict[str, float]:
    """Return the inner products from which learning rate, decay and momentum are solved, of one parameter.

    u: this step's update; p: that of the step before (none for the first); g: gradient; w: weights before; a: the
    direction of an adaptive optimizer.
    """
    doubles = {key: _double(vectors[key]).ravel() for key in sorted(vectors)}
    keys = list(doubles)
    return {a + b: float(doubles[a] @ doubles[b]) for i, a in enumerate(keys) for b in keys[i:]}
