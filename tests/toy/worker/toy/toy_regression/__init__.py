"""Trains the linear model: one matrix product forward, one backward, and SGD with momentum."""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import numpy as np
from trainmark_worker.core.choices import one_of
from trainmark_worker.core.facts import Expected, Facts, Seen
from trainmark_worker.core.gaps import refuse_gaps
from trainmark_worker.core.host import cpu_name
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.peers import Peers
from trainmark_worker.core.place import Place
from trainmark_worker.core.training import Training
from trainmark_worker.core.window import HostMarks, slots_for
from trainmark_worker.tasks.toy_regression import TASK, ToySettings


def open_training(settings: ToySettings, place: Place) -> "ToyTraining":
    """Return the training, ready for its first step."""
    one_of("toy", "precision", settings.precision, ("fp32",))
    one_of("toy", "compiler", settings.compiler, ("none",))
    one_of("toy", "device", settings.device, ("auto", "cpu"))
    refuse_gaps(settings, place, "cpu")
    return ToyTraining(settings, place)


class Observation(NamedTuple):
    """One pass forward and backward."""

    predictions: Any
    loss: float
    gradients: Mapping[str, Any]


class ToyTraining(Training):
    """The weight and its velocity."""

    task = TASK

    def __init__(self, settings: ToySettings, place: Place) -> None:
        super().__init__(
            settings, Peers(place, _leave), HostMarks(slots_for(settings.steps)), lambda *arrays: arrays
        )
        self.weight = np.zeros(settings.features, np.float32)
        self._velocity = np.zeros_like(self.weight)
        self._losses: List[float] = []

    def train(self, index: int) -> None:
        """Train on the batch at hand; the ranks exchange their gradients as lists."""
        seen, recipe = self.observe(), self.settings.recipe
        gradient = np.mean(self.ranks.gather(seen.gradients["weight"].tolist()), axis=0, dtype=np.float32)
        self._velocity = recipe.momentum * self._velocity + gradient + recipe.weight_decay * self.weight
        self.weight = (self.weight - self.rates[index] * self._velocity).astype(np.float32)
        self._losses.append(seen.loss)

    def observe(self) -> Observation:
        points, values = self.batch
        predictions = points @ self.weight
        error = predictions - values
        return Observation(
            predictions, float(error @ error) / len(error) / 2, {"weight": error @ points / len(error)}
        )

    def synchronize(self) -> None:
        """Return at once: numpy is never behind."""

    def facts(self) -> Facts:
        return Facts(np.__version__, "cpu", cpu_name(), self.weight.size, None, "numpy")

    def seen(self) -> Seen:
        return Seen(str(self.observe().predictions.dtype), str(self.weight.dtype), len(self.batch[0]))

    def expected(self) -> Expected:
        return Expected("float32")

    def compilations(self) -> int:
        return 0

    def own_losses(self) -> Sequence[float]:
        return self._losses

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        self.weight = np.array(weights["weight"], np.float32)

    def read_weights(self) -> Dict[str, Any]:
        return {"weight": self.weight.copy()}


def _leave(lost: RunError) -> None:
    """End this rank, whose main thread waits for one that is gone."""
    raise lost
