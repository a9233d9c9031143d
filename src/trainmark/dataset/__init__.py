"""Making, describing and verifying the data sets that runs train on.

The names are loaded when they are first asked for: numpy, pydantic and Pillow are slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.dataset.folder import ImageFolder, describe
    from trainmark.dataset.jpeg import Depth
    from trainmark.dataset.make import FolderState, folder_state, make_image_folder
    from trainmark.dataset.processes import Progress, available_cores
    from trainmark.dataset.spec import ImageFolderSpec, Sizes, spec_from
    from trainmark.dataset.verify import Problem, ProblemKind, VerifyReport, verify_image_folder

__all__ = [
    "Depth",
    "FolderState",
    "ImageFolder",
    "ImageFolderSpec",
    "Problem",
    "ProblemKind",
    "Progress",
    "Sizes",
    "VerifyReport",
    "available_cores",
    "describe",
    "folder_state",
    "make_image_folder",
    "spec_from",
    "verify_image_folder",
]

_HOMES = {
    "folder": ("ImageFolder", "describe"),
    "jpeg": ("Depth",),
    "make": ("FolderState", "folder_state", "make_image_folder"),
    "processes": ("Progress", "available_cores"),
    "spec": ("ImageFolderSpec", "Sizes", "spec_from"),
    "verify": ("Problem", "ProblemKind", "VerifyReport", "verify_image_folder"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
