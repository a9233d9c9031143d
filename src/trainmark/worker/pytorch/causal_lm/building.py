"""Which module is trained as a model of causal language modelling."""

from __future__ import annotations

from ...tasks.causal_lm.architectures import ARCHITECTURES, Gpt, Llama
from ..weights import count_parameters
from .llama import LlamaModel
from .model import Decoder, GptModel


def build_model(name: str, length: int) -> Decoder:
    """Return the model for sequences of ``length``, with fresh weights in FP32; its parameters are counted."""
    description = ARCHITECTURES[name]
    model: Decoder
    if isinstance(description, Llama):
        model = LlamaModel(description, length)
    else:
        assert isinstance(description, Gpt)
        model = GptModel(description)
    found, expected = count_parameters(model), description.parameters()
    assert found == expected, f"{name} has {found} parameters instead of {expected}"
    return model
