"""A rank's training of a decoder, with the axes that only decoders have: FSDP2, activation checkpointing and FP8."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Any, Callable, Iterator, Mapping, Optional, Tuple

import torch
import torch.distributed as dist
from torch import nn

from ...core.place import Place
from ...tasks.causal_lm.observing import LayersSeen
from ...tasks.causal_lm.settings import FSDP2, NO_CHECKPOINTING, CausalSettings
from ...tasks.causal_lm.tokens import token_file
from ..compilers import NONE, captures
from ..gradients import Exchange
from ..loading import open_native
from ..scaled_linear import scale_products, set_plain
from ..training import OutputsAlone, batches_of, choose_machine, moved
from .model import LanguageModel
from .observing import watched
from .sharding import Sharded, check_sharding, compile_blocks, shard, unshard
from .train import PyTorchLanguageTraining

LOGITS = 1 << 28
"""The logits that the verification computes at once."""


def open_training(settings: CausalSettings, place: Place) -> PyTorchDecoderTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    if settings.parallel == FSDP2:
        check_sharding(settings.gradients)
    device = machine.device
    feed = None
    if not settings.synthetic:
        file = token_file(settings)
        feed = open_native(
            file.sequences, file.batch, settings, place, device, lambda tensors: moved(tensors, device)
        )
    return PyTorchDecoderTraining(settings, place, machine, batches_of(device), feed)


class PyTorchDecoderTraining(PyTorchLanguageTraining):
    """The training of a decoder, whose weights the ranks may share."""

    settings: CausalSettings

    @property
    def is_sharded(self) -> bool:
        """Whether the ranks share the weights."""
        return self.settings.parallel == FSDP2

    def prepare(self, model: LanguageModel) -> None:
        """Make the products of the blocks FP8, and choose the activations that are recomputed."""
        for block in model.blocks:
            if self._precision.fp8:
                scale_products(block)
            block.checkpointing = self.settings.activation_checkpointing
        if self.settings.activation_checkpointing != NO_CHECKPOINTING:
            # The hook that observes the first product runs in the forward pass, and not again in the backward pass.
            torch._dynamo.config.skip_fwd_side_effects_in_bwd_under_checkpoint = True

    def distribute(self, model: LanguageModel) -> None:
        """Share the model between the ranks, compiled block by block."""
        if self.is_sharded:
            compile_blocks(model, self.settings.compiler)
            shard(model, self._precision, self._device)

    def is_recorded(self) -> bool:
        """Return whether the step is one CUDA graph; FSDP2's exchanges cannot be recorded."""
        return not self.is_sharded and captures(self.settings.compiler)

    def choose_exchange(self, static_graph: bool) -> Exchange:
        """Return the exchange of gradients."""
        return Sharded(self.model) if self.is_sharded else super().choose_exchange(static_graph)

    def compile(self, network: nn.Module, inductor: Mapping[str, Any]) -> Any:
        """Return the compiled network; the blocks of a sharded one are compiled already."""
        return network if self.is_sharded else super().compile(network, inductor)

    def take_over(self, *arguments: Any) -> None:
        """Train a model; the gathered weights of a sharded one have the type of the products, without autocast."""
        super().take_over(*arguments)
        if self.is_sharded:
            self.autocast = nullcontext()

    def clip(self) -> None:
        """Clip the norm of all gradients, those of other ranks' shards included."""
        longest = self.settings.recipe.clip_norm
        if not self.is_sharded or longest is None:
            super().clip()
            return
        parameters = list(self.model.parameters())
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm: Any = torch.nn.utils.get_total_norm(gradients, foreach=True)
        torch.nn.utils.clip_grads_with_norm_(parameters, longest, norm.full_tensor(), foreach=True)

    def own_pass(self) -> Any:
        """Pass this rank's batch through whole weights, without FSDP2, recomputation or FP8's kernels."""
        with self._plain():
            return super().own_pass()

    def plain_pass(self) -> OutputsAlone:
        """Pass few sequences at a time, forward and backward, with the loss of each token by its formula."""
        (tokens,) = self.batch
        losses, count = [], tokens.numel() - len(tokens)
        for some in tokens.split(self._few()):
            with self.autocast:
                logits = self.model.look(some).float()
            targets = some[:, 1:, None]
            each = logits.logsumexp(-1) - logits.gather(-1, targets).squeeze(-1)
            self.scaler.scale(each.sum() / count).backward()
            losses.append(each.detach())
        every = torch.cat(losses)
        return OutputsAlone(float(every.mean()), target_losses=every.double().cpu().numpy())

    def first_part(self, batch: Tuple[Any, ...]) -> Tuple[Any, ...]:
        """Return the sequences that are passed at once after the window."""
        return tuple(array[: self._few()] for array in batch)

    def _few(self) -> int:
        """Return the sequences whose logits in FP32 take about a gigabyte; no more than the step passes at once."""
        of_sequence = self.settings.sequence_length * self.model.tokens.num_embeddings
        return max(1, min(self.settings.part, LOGITS // of_sequence))

    def watched_step(self, index: int) -> LayersSeen:
        """Run the step and observe its products, without the blocks' compiled forms if it has them."""
        if not self.is_sharded or self.settings.compiler == NONE:
            return super().watched_step(index)
        compiled = [block.compiled for block in self.model.blocks]
        for block in self.model.blocks:
            block.compiled = None
        try:
            seen = watched(self.model, self._logits)
        finally:
            for block, call in zip(self.model.blocks, compiled):
                block.compiled = call
        self.step(index)
        return seen

    def _logits(self) -> Any:
        (tokens,) = self.first_part(self.batch)
        with torch.no_grad(), self.autocast:
            return self.model.look(tokens)

    @contextmanager
    def _plain(self) -> Iterator[None]:
        """Let ``self.model`` be the same model without FSDP2, recomputation and FP8's kernels."""
        model = self.model
        if self.is_sharded:
            self.model = self._unsharded(model)
        blocks = self.model.blocks
        try:
            for block in blocks:
                block.checkpointing = NO_CHECKPOINTING
            set_plain(self.model, plain=True)
            yield
        finally:
            self.model = model
            for block in model.blocks:
                block.checkpointing = self.settings.activation_checkpointing
            set_plain(model, plain=False)

    def _unsharded(self, model: LanguageModel) -> LanguageModel:
        """Return a copy of the sharded model with whole weights, in the type in which the step gathers them."""
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices), self._device:
            copy = self.build()
        if self._precision.fp8:
            for block in copy.blocks:
                scale_products(block)
        copy.cross_entropy = model.cross_entropy
        precision = self._precision
        return unshard(model, copy, precision.compute if precision.autocast else precision.weights)

    def alone(self) -> Optional[Callable[[], None]]:
        """Return None for a sharded model, whose passes exchange weights."""
        return None if self.is_sharded else super().alone()

    def all_reduce(self) -> Optional[Tuple[int, Callable[[], None]]]:
        """Return None for a sharded model, which has no all-reduce of its gradients."""
        return None if self.is_sharded else super().all_reduce()

    def close(self) -> None:
        """End the loader and the process group."""
        super().close()
        if self.is_sharded and dist.is_initialized():
            dist.destroy_process_group()
