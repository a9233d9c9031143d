"""FSDP2: the ranks share weights, gradients and optimizer state, and gather each block's weights when it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from ..backends.pytorch.collectives import Exchange
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.settings import NATIVE
from ..models.pytorch_decoders import LanguageModel, weighted_loss
from ..tasks.causal_lm.settings import FSDP2
from .compilers import MODES


def check_sharding(gradients: str) -> None:
    """Raise ``RunError`` (unsupported) if this PyTorch has no FSDP2, or another exchange of gradients is requested."""
    if gradients != NATIVE:
        reason = f"fsdp2 has its own exchange of gradients; leave out --gradients {gradients}"
        raise RunError(UNSUPPORTED, reason)
    # Imported where it is used: it takes half a second.
    if not hasattr(import_module("torch.distributed.fsdp"), "fully_shard"):
        raise RunError(UNSUPPORTED, f"fsdp2 needs PyTorch 2.6 or later; this is {torch.__version__}")


class Sharded(Exchange):
    """FSDP2: each block gathers its weights before it runs, and averages its gradients into shards afterwards."""

    name: str | None = FSDP2

    def __init__(self, model: nn.Module) -> None:
        self._model: Any = model

    @contextmanager
    def withheld(self) -> Iterator[None]:
        """Accumulate whole gradients on each rank, without a reduce-scatter."""
        self._model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self._model.set_requires_gradient_sync(True)


def shard(model: LanguageModel, narrow: Any | None, device: Any) -> None:
    """Share the parameters of each block, and those outside the blocks, between all ranks.

    Gathered weights have the type ``narrow``, so that the whole pass is in BF16, as in torchtitan; None: their own.
    Gradients are averaged in FP32. A lone rank gets a process group of its own.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    if not dist.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    # The angles of the positions stay in FP32.
    policy = MixedPrecisionPolicy(param_dtype=narrow, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    register_fsdp_forward_method(model, "batch_logits")


def compile_blocks(model: LanguageModel, compiler: str) -> None:
    """Compile each block, and the classifier with its loss, so that FSDP2's hooks run between them."""
    mode = MODES[compiler]
    if mode is None:
        return
    for block in model.blocks:
        block.compiled = torch.compile(block.run, mode=mode, dynamic=False, fullgraph=True)
    if model.cross_entropy is None:
        model.cross_entropy = torch.compile(_classified, mode=mode, dynamic=False, fullgraph=True)


def _classified(x: Any, weight: Any, targets: Any, weights: Any = None) -> Any:
    """Return the cross entropy of the classes' logits of ``x`` (rows, width): the mean, or the weighted sum."""
    return weighted_loss(functional.linear(x, weight), targets, weights)


def unshard(source: LanguageModel, model: LanguageModel, kind: Any) -> LanguageModel:
    """Return ``model`` with the whole weights of the sharded ``source``, in the type ``kind``. All ranks call it."""
    model.to(kind)
    tensors = model.named_tensors()
    with torch.no_grad():
        for name, tensor in source.named_tensors().items():
            tensors[name].copy_(tensor.full_tensor())
    return model
