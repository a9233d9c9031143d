"""Numpy as a backend: what every model of it shares."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from trainmark_worker.core.choices import one_of, refuse_gaps
from trainmark_worker.core.facts import Facts, cpu_name
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.peers import Peers
from trainmark_worker.core.place import Place
from trainmark_worker.core.precision import Precision
from trainmark_worker.core.settings import Settings
from trainmark_worker.core.training import Training


class ToyTraining(Training):
    """Weights, their velocities, and SGD with momentum; a model has ``observe``, the pass forward and backward."""

    def __init__(self, settings: Settings, place: Place) -> None:
        """Check the settings, meet the other ranks, and make the weights, zero."""
        one_of("toy", "precision", settings.precision, ("fp32",))
        one_of("toy", "compiler", settings.compiler, ("none",))
        one_of("toy", "device", settings.device, ("auto", "cpu"))
        refuse_gaps(settings, place, "cpu")
        super().__init__(settings, Peers(place, _end))
        shapes = self.task.check(settings).shapes
        self.weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self.velocities = {name: np.zeros_like(weight) for name, weight in self.weights.items()}
        self._losses: list[float] = []

    def train(self, index: int) -> None:
        """Train on the current batch; the ranks exchange their gradients as lists."""
        found, recipe = self.observe(), self.settings.recipe
        for name, gradient in found.gradients.items():
            mean = np.mean(self.ranks.gather(gradient.tolist()), axis=0, dtype=np.float32)
            velocity = recipe.momentum * self.velocities[name] + mean
            self.velocities[name] = velocity + recipe.weight_decay * self.weights[name]
            step = self.rates[index] * self.velocities[name]
            self.weights[name] = (self.weights[name] - step).astype(np.float32)
        self._losses.append(found.loss)

    def synchronize(self) -> None:
        """Return at once: numpy is never behind."""

    def facts(self) -> Facts:
        """Return the facts of the run."""
        parameters = sum(weight.size for weight in self.weights.values())
        return Facts(np.__version__, "cpu", cpu_name(), parameters, None, "numpy")

    def expected(self) -> Precision:
        """Return the types of FP32."""
        return Precision("float32")

    def compilations(self) -> int:
        """Return 0: nothing is compiled."""
        return 0

    def own_losses(self) -> list[float]:
        """Return the losses of this rank."""
        return self._losses

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load the parameters."""
        self.weights = {name: np.array(weights[name], np.float32) for name in self.weights}

    def read_weights(self) -> dict[str, Any]:
        """Return copies of the parameters."""
        return {name: weight.copy() for name, weight in self.weights.items()}


def _end(lost: RunError) -> None:
    """End this rank, whose main thread waits for the lost one."""
    raise lost
