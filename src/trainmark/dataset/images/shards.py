"""The names of TFRecord shards and RecordIO files, and the detection of a folder's form from its file names."""

import re
from dataclasses import dataclass
from pathlib import Path

from trainmark.dataset.images.spec import Split
from trainmark.errors import InputError
from trainmark.tasks.image_classification.axes import Form

INDEX_FOLDER = "idx"
"""The folder of DALI's index files, next to their TFRecord shards."""

_SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5,})-of-(?P<count>\d{5,})")


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """The name of a TFRecord shard in ImageNet's style: ``train-00003-of-01024``."""

    split: str
    number: int
    count: int

    @property
    def name(self) -> str:
        """Return the file's name."""
        return f"{self.split}-{self.number:05d}-of-{self.count:05d}"


def tfrecord_split(split: Split) -> str:
    """Return the prefix of a split's shard names in ImageNet's style."""
    return "validation" if split is Split.VAL else split.value


def shard_of(name: str) -> Shard | None:
    """Parse a shard's file name; return None for any other name."""
    match = _SHARD.fullmatch(name)
    return Shard(match["split"], int(match["number"]), int(match["count"])) if match else None


def find_shards(directory: Path) -> list[Shard]:
    """Return the sorted shards directly in ``directory``; raise ``InputError`` if it is unreadable."""
    return sorted(shard for name in _names(directory) if (shard := shard_of(name)))


def find_records(directory: Path) -> list[str]:
    """Return the names of the RecordIO files in ``directory``; raise ``InputError`` if it is unreadable."""
    return sorted(name for name in _names(directory) if name.endswith(".rec"))


def recognise(directory: Path) -> Form:
    """Return the form of the data set in ``directory``, from its file names.

    Raises ``InputError`` if there is no such folder.
    """
    if not directory.is_dir():
        what = "is a file, not a folder with a data set" if directory.exists() else "no such folder"
        raise InputError(f"{directory}: {what}")
    if find_shards(directory):
        return Form.TFRECORD
    return Form.RECORDIO if find_records(directory) else Form.IMAGE_FOLDER


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir() if not path.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{directory}: cannot be read ({error.strerror})") from None
