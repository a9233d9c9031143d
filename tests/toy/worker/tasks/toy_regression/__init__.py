"""Fitting a plane to points: the smallest task, to show that a task needs nothing but its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from trainmark_worker.core.settings import Flag, Settings, positive
from trainmark_worker.core.task import Check, Task

__all__ = ["TASK", "ToySettings"]


@dataclass(frozen=True)
class ToySettings(Settings):
    """``features``: the numbers that a sample has."""

    features: Annotated[int, Flag("numbers in a sample", positive, 8)]


class ToyRegression(Task):
    """``linear``: a weighted sum of a sample's features; the loss is half the mean square of its error."""

    name = "toy-regression"
    models = ("linear",)
    headline = "values"
    settings_type = ToySettings

    def defaults(self, _model: str) -> Mapping[str, Any]:
        return {"learning_rate": 0.05, "epoch_samples": 1000}

    def work(self, settings: ToySettings, samples: int) -> dict[str, int]:
        return {"values": samples * settings.features, "samples": samples}

    def parameters(self, settings: ToySettings, epoch_samples: int) -> dict[str, Any]:
        return {"features": settings.features, "epoch_samples": epoch_samples}

    def synthetic(self, settings: ToySettings, rank: int) -> tuple[Any, Any]:
        """Return points (batch, features) and what the plane with the weights 1, 2, 3, … has there (batch,)."""
        import numpy as np

        random = np.random.default_rng([settings.seed, rank])
        points = random.standard_normal((settings.batch_per_device, settings.features), np.float32)
        return points, points @ np.arange(1, settings.features + 1, dtype=np.float32)

    def check(self, settings: ToySettings) -> Check:
        return Check(
            shapes={"weight": (settings.features,)},
            inputs=("points", "values"),
            facts={"features": settings.features},
            layers=lambda _seen: {},
            outputs=lambda seen: {"predictions": [float(value) for value in seen.predictions]},
        )


TASK = ToyRegression()
