"""Fitting a plane to points: the smallest task; its work is counted in values, and in samples beside them."""

from typing import Annotated

from pydantic import Field

from trainmark.tasks.declaration import AxisLabel, Model, Task, TaskAxes

__all__ = ["TASK", "ToyAxes"]


class ToyAxes(TaskAxes):
    """``features`` are the numbers that a sample has."""

    features: Annotated[int, Field(strict=True, gt=0)] = 8


TASK = Task(
    name="toy-regression",
    en="toy regression",
    zh="玩具回归",
    axes=ToyAxes,
    counters=("values", "samples"),
    models={"linear": Model(short="linear", published="Linear")},
    labels={"features": AxisLabel("features", "特征数")},
)
