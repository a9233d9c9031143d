"""The forms in which data sets lie on a disk."""

from enum import StrEnum


class Form(StrEnum):
    """How a data set lies on the disk; OFRecord is OneFlow's, which is neither made nor checked."""

    IMAGE_FOLDER = "image-folder"
    TFRECORD = "tfrecord"
    RECORDIO = "recordio"
    OFRECORD = "ofrecord"
