"""Making, describing and verifying the data sets that runs train on.

The names are loaded when they are first asked for: numpy, pydantic and Pillow are slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.dataset.conversion import Conversion, convert
    from trainmark.dataset.converted import Converted, ConvertedManifest, describe_converted
    from trainmark.dataset.folder import ImageFolder, describe
    from trainmark.dataset.form import Form, recognise
    from trainmark.dataset.indexing import Indexed, index
    from trainmark.dataset.jpeg import Depth
    from trainmark.dataset.make import FolderState, folder_state, make_image_folder
    from trainmark.dataset.ofrecord import require_ofrecord
    from trainmark.dataset.problems import Problem, ProblemKind, VerifyReport
    from trainmark.dataset.processes import Progress, available_cores
    from trainmark.dataset.spec import ImageFolderSpec, Sizes, spec_from
    from trainmark.dataset.verification import verify, verify_image_folder

__all__ = [
    "Conversion",
    "Converted",
    "ConvertedManifest",
    "Depth",
    "FolderState",
    "Form",
    "ImageFolder",
    "ImageFolderSpec",
    "Indexed",
    "Problem",
    "ProblemKind",
    "Progress",
    "Sizes",
    "VerifyReport",
    "available_cores",
    "convert",
    "describe",
    "describe_converted",
    "folder_state",
    "index",
    "make_image_folder",
    "recognise",
    "require_ofrecord",
    "spec_from",
    "verify",
    "verify_image_folder",
]

_HOMES = {
    "conversion": ("Conversion", "convert"),
    "converted": ("Converted", "ConvertedManifest", "describe_converted"),
    "folder": ("ImageFolder", "describe"),
    "form": ("Form", "recognise"),
    "jpeg": ("Depth",),
    "indexing": ("Indexed", "index"),
    "make": ("FolderState", "folder_state", "make_image_folder"),
    "ofrecord": ("require_ofrecord",),
    "problems": ("Problem", "ProblemKind", "VerifyReport"),
    "processes": ("Progress", "available_cores"),
    "spec": ("ImageFolderSpec", "Sizes", "spec_from"),
    "verification": ("verify", "verify_image_folder"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
