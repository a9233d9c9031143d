"""The schemas of all manifests: what a folder with one holds, for whoever wanted another kind of data set."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """What a folder holds, and what converts that: half a sentence, and one."""

    noun: str
    conversion: str


HELD: Mapping[str, Held] = {
    "trainmark.dataset/1": Held("an image folder", "'trainmark data convert' converts it"),
    "trainmark.converted/1": Held("record files of pictures", "nothing converts them again"),
    "trainmark.tokens/1": Held("tokens", "nothing converts them"),
    "trainmark.clicks/1": Held("clicks", "'trainmark data convert-clicks' converts them"),
    "trainmark.masked/1": Held("sequences with hidden words", "nothing converts them"),
}
"""By schema."""
