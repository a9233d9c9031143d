"""Making, describing and verifying the data sets that runs train on: a folder a kind, and what all kinds share.

The names are loaded when they are first asked for: numpy, pydantic and Pillow are slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.dataset.form import Form
    from trainmark.dataset.images.conversion import Conversion, convert
    from trainmark.dataset.images.converted import Converted, ConvertedManifest, describe_converted
    from trainmark.dataset.images.folder import ImageFolder, describe
    from trainmark.dataset.images.indexing import Indexed, index
    from trainmark.dataset.images.make import FolderState, folder_state, make_image_folder
    from trainmark.dataset.images.ofrecord import require_ofrecord
    from trainmark.dataset.images.shards import recognise
    from trainmark.dataset.images.spec import ImageFolderSpec, Sizes, spec_from
    from trainmark.dataset.images.verification import verify, verify_image_folder
    from trainmark.dataset.kind import Kind
    from trainmark.dataset.manifest import SUMS_NAME
    from trainmark.dataset.problems import Depth, Problem, ProblemKind, VerifyReport
    from trainmark.dataset.processes import Progress, available_cores

__all__ = [
    "SUMS_NAME",
    "Conversion",
    "Converted",
    "ConvertedManifest",
    "Depth",
    "FolderState",
    "Form",
    "ImageFolder",
    "ImageFolderSpec",
    "Indexed",
    "Kind",
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
    "kind_of",
    "make_image_folder",
    "recognise",
    "require_ofrecord",
    "spec_from",
    "verify",
    "verify_image_folder",
]

_HOMES = {
    "form": ("Form",),
    "kind": ("Kind",),
    "manifest": ("SUMS_NAME",),
    "problems": ("Depth", "Problem", "ProblemKind", "VerifyReport"),
    "processes": ("Progress", "available_cores"),
    "images.conversion": ("Conversion", "convert"),
    "images.converted": ("Converted", "ConvertedManifest", "describe_converted"),
    "images.folder": ("ImageFolder", "describe"),
    "images.indexing": ("Indexed", "index"),
    "images.make": ("FolderState", "folder_state", "make_image_folder"),
    "images.ofrecord": ("require_ofrecord",),
    "images.shards": ("recognise",),
    "images.spec": ("ImageFolderSpec", "Sizes", "spec_from"),
    "images.verification": ("verify", "verify_image_folder"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def kind_of(name: str) -> "Kind":
    """Return a kind of data set by the name of its folder."""
    found: Kind = import_module(f"{__name__}.{name}.kind").KIND
    return found
