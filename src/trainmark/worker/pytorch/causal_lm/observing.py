"""What the products of a language model computed in, and on how many tokens."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from ...tasks.causal_lm.observing import LayersSeen
from ..precision import type_name
from ..products import noting
from ..scaled_linear import operand_type
from .model import LanguageModel


def watched(model: LanguageModel, step: Callable[[], Any]) -> LayersSeen:
    """Do ``step``, in which the model is called, and return what its products computed in, and on how many tokens."""
    types: Dict[str, str] = {}
    lengths: List[int] = []

    def note(name: str, product: Any, given: Any, output: Any) -> None:
        types[name] = type_name(operand_type(product, output))
        lengths.append(given[0].shape[1])

    with noting(model, note):
        step()
    return LayersSeen(types, lengths[0] if lengths else None)
