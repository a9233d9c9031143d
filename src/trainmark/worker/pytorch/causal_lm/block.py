"""A block of a language model that can be compiled by itself, and whose activations can be recomputed."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Optional

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ...tasks.causal_lm.settings import NO_CHECKPOINTING, SELECTIVE

_aten = torch.ops.aten

PRODUCTS = (_aten.mm.default, _aten._scaled_mm.default)
"""The matrix products, of which selective checkpointing saves every second one, as torchtitan does."""

SAVED = (
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
)
"""Attention, whose result selective checkpointing saves."""


class Recomputable(nn.Module):
    """A module whose ``body`` maps its inputs; ``forward`` runs it compiled, or with recomputed activations."""

    checkpointing = NO_CHECKPOINTING
    compiled: Optional[Callable[..., Any]] = None
    """``run``, compiled; None: it runs as it is."""

    def forward(self, *inputs: Any) -> Any:
        """Return the result of ``body``."""
        return (self.compiled or self.run)(*inputs)

    def run(self, *inputs: Any) -> Any:
        """Return the result of ``body``; its activations are recomputed as requested."""
        if self.checkpointing == NO_CHECKPOINTING or not torch.is_grad_enabled():
            return self.body(*inputs)
        contexts = {}
        if self.checkpointing == SELECTIVE:
            contexts = {"context_fn": _selective_contexts}
        # No random numbers are drawn in a block.
        return checkpoint(self.body, *inputs, use_reentrant=False, preserve_rng_state=False, **contexts)

    def body(self, *inputs: Any) -> Any:
        """Map the inputs."""
        raise NotImplementedError


def _selective_contexts() -> Any:
    seen: Dict[bool, int] = {False: 0, True: 0}
    return create_selective_checkpoint_contexts(partial(_policy, seen))


def _policy(seen: Dict[bool, int], context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    """Return whether the result of an operator is saved; ``seen`` counts the products of each of the two passes."""
    if operator in PRODUCTS:
        seen[context.is_recompute] += 1
        save = seen[context.is_recompute] % 2 == 1
    else:
        save = operator in SAVED
    return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE
