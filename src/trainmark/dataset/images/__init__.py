"""Image data sets: folders of pictures, and their conversions to TFRecord or RecordIO files."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.dataset.images.conversion import Conversion, convert
    from trainmark.dataset.images.converted import Converted, ConvertedManifest, describe_converted
    from trainmark.dataset.images.folder import ImageFolder, describe
    from trainmark.dataset.images.indexing import Indexed, index
    from trainmark.dataset.images.make import FolderState, folder_state, make_image_folder
    from trainmark.dataset.images.ofrecord import require_ofrecord
    from trainmark.dataset.images.shards import recognise
    from trainmark.dataset.images.spec import ImageFolderSpec, Sizes, spec_from
    from trainmark.dataset.images.verification import verify, verify_image_folder
    from trainmark.tasks.image_classification.axes import Form

__all__ = [
    "Conversion",
    "Converted",
    "ConvertedManifest",
    "FolderState",
    "Form",
    "ImageFolder",
    "ImageFolderSpec",
    "Indexed",
    "Sizes",
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

__getattr__ = attach(
    __name__,
    {
        ".conversion": ("Conversion", "convert"),
        ".converted": ("Converted", "ConvertedManifest", "describe_converted"),
        ".folder": ("ImageFolder", "describe"),
        ".indexing": ("Indexed", "index"),
        ".make": ("FolderState", "folder_state", "make_image_folder"),
        ".ofrecord": ("require_ofrecord",),
        ".shards": ("recognise",),
        ".spec": ("ImageFolderSpec", "Sizes", "spec_from"),
        ".verification": ("verify", "verify_image_folder"),
        "trainmark.tasks.image_classification.axes": ("Form",),
    },
)
