"""The linear model in numpy: one matrix product forward, one backward."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from trainmark_worker.backends.toy.backend import ToyTraining
from trainmark_worker.core.facts import ObservedConfig
from trainmark_worker.tasks.toy_regression import TASK, ToySettings


class Observation(NamedTuple):
    """One pass forward and backward."""

    predictions: Any
    loss: float
    gradients: Mapping[str, Any]


class ToyRegressionTraining(ToyTraining):
    """The linear model and its loss."""

    task = TASK
    settings: ToySettings

    def observe(self) -> Observation:
        """Pass the current batch forward and backward."""
        points, values = self.batch
        predictions = points @ self.weights["weight"]
        error = predictions - values
        return Observation(
            predictions, float(error @ error) / len(error) / 2, {"weight": error @ points / len(error)}
        )

    def observed_config(self) -> ObservedConfig:
        """Return the types of predictions and weights."""
        predictions = self.observe().predictions
        return ObservedConfig(str(predictions.dtype), str(self.weights["weight"].dtype), len(self.batch[0]))


open_training = ToyRegressionTraining
