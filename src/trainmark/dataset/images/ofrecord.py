"""The check for a data set in OneFlow's OFRecord format, by file names; trainmark neither creates nor reads it.

Source of the names: OneFlow-Benchmark, Classification/cnns/tools/imagenet_ofrecord.py (``train/part-00000``).
"""

import re
from pathlib import Path

from trainmark.dataset.images.spec import Split
from trainmark.errors import InputError

_PART = re.compile(r"part-\d{5}")


def require_ofrecord(directory: Path) -> None:
    """Raise ``InputError`` unless ``directory`` contains parts of the training split (``train/part-00000``, …)."""
    if not directory.is_dir():
        raise InputError(f"{directory}: no such folder")
    training = directory / Split.TRAIN.value
    try:
        found = training.is_dir() and any(_PART.fullmatch(path.name) for path in training.iterdir())
    except OSError as error:
        raise InputError(f"{training}: cannot be read ({error.strerror})") from None
    if not found:
        raise InputError(f"{directory}: holds no OFRecord ({Split.TRAIN.value}/part-00000)")
