"""What a look into a step of a language model sees after the window."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...core.facts import Expected
from ..language import LanguageSettings
from ..products import Observation, types_told


class LayersSeen(NamedTuple):
    """A step's products: the type of each one's result by name, and how many tokens of a sequence the first one got."""

    types: Mapping[str, str]
    sequence_length: int | None


def looked(
    settings: LanguageSettings, expected: Expected, seen: LayersSeen | None, alone: Any
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what the events say of the step after the window, and the doubts."""
    if seen is not None:
        length = seen.sequence_length
    else:
        length = alone.products[0].output[1] if isinstance(alone, Observation) and alone.products else None
    told, doubts = types_told(expected, None if seen is None else seen.types)
    if length not in (None, settings.sequence_length):
        sentence = f"The model got sequences of {length} tokens, not {settings.sequence_length}."
        doubts.append(("sequence-length-differs", sentence))
    return {**told, "seen_sequence_length": length}, doubts
