"""Image data sets: folders of pictures, and their conversions to TFRecord or RecordIO files."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.dataset.images.conversion import convert
    from trainmark.dataset.images.converted import describe_converted
    from trainmark.dataset.images.folder import describe
    from trainmark.dataset.images.indexing import index
    from trainmark.dataset.images.make import FolderState, folder_state, make_image_folder
    from trainmark.dataset.images.shards import recognise
    from trainmark.dataset.images.spec import ImageFolderSpec, Sizes, spec_from
    from trainmark.dataset.images.verification import verify, verify_image_folder
    from trainmark.tasks.image_classification.axes import Form

__all__ = [
    "FolderState",
    "Form",
    "ImageFolderSpec",
    "Sizes",
    "convert",
    "describe",
    "describe_converted",
    "folder_state",
    "index",
    "make_image_folder",
    "recognise",
    "spec_from",
    "verify",
    "verify_image_folder",
]

__getattr__ = attach(
    __name__,
    {
        ".conversion": ("convert",),
        ".converted": ("describe_converted",),
        ".folder": ("describe",),
        ".indexing": ("index",),
        ".make": ("FolderState", "folder_state", "make_image_folder"),
        ".shards": ("recognise",),
        ".spec": ("ImageFolderSpec", "Sizes", "spec_from"),
        ".verification": ("verify", "verify_image_folder"),
        "trainmark.tasks.image_classification.axes": ("Form",),
    },
)
