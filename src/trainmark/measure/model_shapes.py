"""Shapes of known language models, and the operations of a token by the convention 6N + attention.

N are the active parameters in matrices: those that a token passes, with the output matrix and without the lookup of the
embedding. Forward and backward pass take 6 operations for each (Kaplan et al., "Scaling Laws for Neural Language
Models", 2020, section 2.1). Full attention takes ``6 L H (Q + V) T`` (with equal sizes of queries and values the
``12 L H Q T`` of PaLM's appendix B), causal attention half of it. A window limits T in its layers.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trainmark.documents import parse_yaml

_DATA = Path(__file__).parent / "data" / "model_shapes.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Ranks and head sizes of latent attention (DeepSeek-V2, 2024, section 2.1)."""

    heads: int
    query_rank: int
    kv_rank: int
    plain_size: int
    rotary_size: int
    value_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The experts of a layer: a token passes ``active`` ``of`` them and all ``shared`` ones; each is ``size`` wide."""

    active: int
    of: int
    size: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The layers whose attention sees only so many tokens."""

    layers: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """The shape of one model; see the comment in ``data/model_shapes.yaml``."""

    model: str
    layers: int
    hidden_size: int
    vocabulary: int
    source: str
    aliases: tuple[str, ...] = ()
    query_size: int = 0
    kv_size: int = 0
    ffn_size: int = 0
    gated: bool = True
    latent: LatentAttention | None = None
    experts: Experts | None = None
    window: Window | None = None
    extra_layers: int = 0

    @property
    def active_parameters(self) -> int:
        """The parameters in matrices that a token passes, with the output matrix and without the embedding."""
        dense = self.layers if self.experts is None else self.experts.dense_layers
        routed = self.layers - dense
        total = self.layers * self._attention_parameters + dense * self._dense_parameters
        total += routed * self._expert_parameters + self.hidden_size * self.vocabulary
        # A layer that predicts a further token joins two hidden states, and has an output of its own.
        extra = self._attention_parameters + (self._expert_parameters if routed else self._dense_parameters)
        return total + self.extra_layers * (
            extra + 2 * self.hidden_size**2 + self.hidden_size * self.vocabulary
        )

    @property
    def _matrices(self) -> int:
        return 3 if self.gated else 2

    @property
    def _dense_parameters(self) -> int:
        return self._matrices * self.hidden_size * self.ffn_size

    @property
    def _expert_parameters(self) -> int:
        if self.experts is None:
            return 0
        experts = self.experts
        one = self._matrices * self.hidden_size * experts.size
        return (experts.active + experts.shared) * one + self.hidden_size * experts.of

    @property
    def _attention_parameters(self) -> int:
        if self.latent is None:
            return 2 * self.hidden_size * (self.query_size + self.kv_size)
        latent = self.latent
        query = latent.plain_size + latent.rotary_size
        return (
            self.hidden_size * latent.query_rank
            + latent.query_rank * latent.heads * query
            + self.hidden_size * (latent.kv_rank + latent.rotary_size)
            + latent.kv_rank * latent.heads * (latent.plain_size + latent.value_size)
            + latent.heads * latent.value_size * self.hidden_size
        )

    def full_attention(self, tokens: int) -> float:
        """Return the operations of full attention for one token of a sequence of so many tokens."""
        if self.latent is None:
            sizes = 2 * self.query_size
        else:
            latent = self.latent
            sizes = latent.heads * (latent.plain_size + latent.rotary_size + latent.value_size)
        layers = self.layers + self.extra_layers
        narrow = self.window.layers if self.window else 0
        attended = (layers - narrow) * tokens
        # Causal attention halves the sequence, but a window counts whole.
        attended += narrow * min(tokens, 2 * self.window.tokens) if self.window else 0
        return 6.0 * sizes * attended

    def operations(self, tokens: int, *, causal: bool) -> float:
        """Return the operations of one token, forward and backward, in a sequence of so many tokens."""
        return 6.0 * self.active_parameters + self.full_attention(tokens) / (2 if causal else 1)


@cache
def load_models() -> tuple[LanguageModel, ...]:
    """Return the shapes of all known models."""
    return tuple(_model(entry) for entry in parse_yaml(_DATA.read_text(encoding="utf-8"))["models"])


def _model(entry: dict[str, Any]) -> LanguageModel:
    types = {"latent": LatentAttention, "experts": Experts, "window": Window}
    parts = {key: kind(**entry[key]) for key, kind in types.items() if key in entry}
    return LanguageModel(**{**entry, **parts, "aliases": tuple(entry.get("aliases", ()))})


def find_model(name: str) -> LanguageModel | None:
    """Return the shape of a model by its name in published tables and recipes; None if it is unknown."""
    wanted = name.replace("-", "_").lower()
    return next((one for one in load_models() if wanted in (one.model, *one.aliases)), None)
