"""Create, describe and verify the data sets that runs train on: one folder per kind, and the modules that all share.

Names are imported lazily, because numpy, pydantic and Pillow are slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.dataset.kind import DatasetKind
    from trainmark.dataset.manifest import SUMS_NAME
    from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind, VerifyReport
    from trainmark.dataset.processes import ProgressListener, available_cores

__all__ = [
    "SUMS_NAME",
    "DatasetKind",
    "DatasetProblem",
    "Depth",
    "ProblemKind",
    "ProgressListener",
    "VerifyReport",
    "available_cores",
    "kind_of",
]

__getattr__ = attach(
    __name__,
    {
        ".kind": ("DatasetKind",),
        ".manifest": ("SUMS_NAME",),
        ".problems": ("DatasetProblem", "Depth", "ProblemKind", "VerifyReport"),
        ".processes": ("ProgressListener", "available_cores"),
    },
)


def kind_of(name: str) -> "DatasetKind":
    """Return the kind of data set with this folder name."""
    found: DatasetKind = import_module(f"{__name__}.{name}.kind").KIND
    return found
