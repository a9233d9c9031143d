"""The training of language models in PyTorch, with FSDP2, activation checkpointing and FP8."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from ..backends.pytorch import backend
from ..backends.pytorch.backend import ProductTraining
from ..backends.pytorch.collectives import Exchange
from ..core.backend import Observation
from ..core.facts import ObservedConfig, assert_parameters, count_parameters
from ..core.outcomes import INVALID, RunError
from ..core.settings import LAMB
from ..pytorch_fast import attention, packed_attention
from ..pytorch_fast.compilers import COMPILED_FUSED, captures
from ..pytorch_fast.optimizers import adaptive
from ..pytorch_fast.scaled_linear import scale_products, set_plain
from ..pytorch_fast.sharding import Sharded, check_sharding, compile_blocks, shard, unshard
from ..tasks.causal_lm.architectures import ARCHITECTURES, Llama
from ..tasks.causal_lm.packing import predicted
from ..tasks.causal_lm.settings import FSDP2, FULL, NO_CHECKPOINTING, CausalSettings, LanguageSettings
from ..tasks.causal_lm.training import LanguageTraining
from ..tasks.products import STREAM
from .pytorch_decoders import Decoder, GptModel, LanguageModel, LlamaModel


def build_model(name: str, length: int) -> Decoder:
    """Return the model for sequences of ``length``, with fresh weights in FP32; its parameters are counted."""
    description = ARCHITECTURES[name]
    model: Decoder
    model = LlamaModel(description, length) if isinstance(description, Llama) else GptModel(description)
    assert_parameters(count_parameters(model.parameters()), description.parameters())
    return model


# Models with more parameters than the first number are verified by rows, about the second number of elements each.
WHOLE, FEW = 1 << 26, 1 << 18


def rows_of(model: LanguageModel) -> dict[str, Any]:
    """Return the verified rows of a large model's large parameters, sampled by the parameters' names.

    The verification reads weights and moments several times, which takes 3 s for 100 million parameters (H200).
    """
    named = model.named_tensors()
    if sum(tensor.numel() for tensor in named.values()) <= WHOLE:
        return {}
    rows: dict[str, Any] = {}
    for name, tensor in named.items():
        if tensor.numel() > FEW:
            random = np.random.RandomState(zlib.crc32(name.encode()))
            count = max(1, FEW // tensor[0].numel())
            drawn = np.unique(random.randint(0, len(tensor), count))
            rows[name] = torch.from_numpy(drawn).to(tensor.device)
    return rows


class PyTorchLanguageTraining(ProductTraining, LanguageTraining):
    """The training of a language model that computes its own loss, with the hooks that observe it."""

    settings: LanguageSettings
    model: LanguageModel

    def build(self) -> None:
        settings, device = self.settings, self._device
        with device:
            model = self.make_model()
        model.to(getattr(torch, self.precision.weights))
        self.parts = settings.accumulation
        self.choose_attention(model)
        if settings.compiler == COMPILED_FUSED:
            from ..pytorch_fast.kernels.cross_entropy import cross_entropy

            model.cross_entropy = cross_entropy
        self.distribute(model)
        self._watching, self._passed = True, cast("list[tuple[int, ...]]", [])
        products = model.named_products()
        watched = {name: products[name] for name in self.watched_products}
        self.observe_first(model, {STREAM: model.blocks[0], **watched})
        named, recipe = model.named_tensors().items(), settings.recipe
        decaying = [tensor for name, tensor in named if self.decays(name)]
        others = [tensor for name, tensor in named if not self.decays(name)]
        self._rows = {} if recipe.optimizer == LAMB else rows_of(model)
        self.take_over(model, adaptive([(decaying, recipe.weight_decay), (others, 0.0)], recipe))

    def choose_attention(self, model: LanguageModel) -> None:
        """Measure the kernels of attention, and let the model use the faster one."""
        shape = model.attention(self.settings.part, self.settings.sequence_length)
        self._attention_ms = attention.measured(shape, self._compute, self._device)
        self._attention = "torch's choice"
        if attention.is_faster(self._attention_ms):
            self._attention = attention.CUDNN
            model.attend_by_cudnn()

    def distribute(self, model: LanguageModel) -> None:
        """Share the model between the ranks if the run does; its hooks exist already."""

    def make_model(self) -> LanguageModel:
        """Return the model with fresh weights in FP32."""
        raise NotImplementedError

    def _pass(self) -> Any:
        """Pass the parts of the batch in order; their gradients accumulate and are exchanged with the last part."""
        total, last = None, self.parts - 1
        parts = list(zip(*(array.split(self.settings.part) for array in self.prepared(self.parts))))
        if self._watching:
            self._passed = [part[0].shape for part in parts]
        for index, part in enumerate(parts):
            with self.exchange.withheld() if index < last else nullcontext():
                with self.autocast:
                    loss = self.network(*part) / self.parts
                self.scaler.scale(loss).backward()
            total = loss.detach() if total is None else total + loss.detach()
        return total

    def clip(self) -> None:
        """Clip the norm of all gradients, without copying anything to the host."""
        longest = self.settings.recipe.clip_norm
        if longest is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), longest, foreach=True)

    def observed_config(self) -> ObservedConfig:
        axes = {"sequence_length": self.first_product()[1][1], "accumulation": len(self._passed)}
        self._watching = False
        kernel = {"attention": self._attention, "attention_ms": self._attention_ms}
        others = {STREAM: self.first[STREAM][0], **kernel}
        return self.config_of(self.model.tokens.weight, sum(part[0] for part in self._passed), axes, **others)

    def own_pass(self) -> Any:
        """Pass the batch with torch's plain loss, regardless of the step's loss."""
        kernel, self.model.cross_entropy = self.model.cross_entropy, None
        try:
            alone = super().own_pass()
            # What the step's own kernel computes in does not show in a pass without it.
            return alone if kernel is None or alone is None else alone._replace(loss_types=None)
        finally:
            self.model.cross_entropy = kernel

    def first_part(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(array[: self.settings.part] for array in batch)

    def sampled_weights(self) -> dict[str, Any]:
        return self.sample_rows(self.named_tensors())

    def sampled_share(self) -> float:
        tensors, count = self.named_tensors(), count_parameters(self.model.parameters())
        large = ((tensors[name], rows) for name, rows in self._rows.items())
        left_out = sum((len(tensor) - len(rows)) * tensor[0].numel() for tensor, rows in large)
        return (count - left_out) / count

    def sample_rows(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return numpy arrays of the tensors, or of the sampled rows of large ones."""
        large = {name: rows for name, rows in self._rows.items() if name in tensors}
        drawn = {name: backend.whole(tensors[name].detach())[rows] for name, rows in large.items()}
        return backend.read({**tensors, **drawn})

    def observe(self) -> Observation:
        with self.autocast:
            return super().observe()


LOGITS = 1 << 28  # the logits that the verification computes at once
# Models with more parameters than this recompute whole blocks in the verification, whatever the step recomputes.
RECOMPUTED = 1 << 31


class PyTorchDecoderTraining(PyTorchLanguageTraining):
    """The training of a decoder, whose weights the ranks may share."""

    settings: CausalSettings

    _most_documents: int | None = None

    @property
    def is_sharded(self) -> bool:
        """Return whether the ranks share the weights."""
        return self.settings.parallel == FSDP2

    def check(self, settings: CausalSettings) -> None:
        """Raise ``RunError`` where this PyTorch has no FSDP2 for the run."""
        if settings.parallel == FSDP2:
            check_sharding(settings.gradients)

    def to_batch(self, *arrays: Any) -> tuple[Any, ...]:
        most = self._most_documents
        if most is not None and packed_attention.most_of(arrays[1]) > most:
            less = f"attention is prepared for less than {most} documents of a sequence"
            raise RunError(INVALID, f"{less}, not {int(arrays[1].max())}")
        return super().to_batch(*arrays)

    def choose_attention(self, model: LanguageModel) -> None:
        """Measure the kernels of attention, within documents if the sequences are packed, and choose the faster one."""
        if not self.settings.packed:
            super().choose_attention(model)
            return
        assert isinstance(model, Decoder)
        settings, documents = self.settings, self.batch[1]
        shape = model.attention(settings.part, settings.sequence_length)
        self._attention = packed_attention.MASK
        self._attention_ms = packed_attention.measured(shape, documents, self._compute, self._device)
        if packed_attention.is_faster(self._attention_ms):
            self._attention = packed_attention.VARLEN
            self._most_documents = packed_attention.most_of(documents)
            model.attend_documents(self._most_documents)

    def prepared(self, parts: int) -> tuple[Any, ...]:
        """Return the batch; a packed one with weights, so that the parts' and ranks' mean is that of all that count.

        All ranks have equally many tokens that count.
        """
        if len(self.batch) == 1:
            return self.batch
        tokens, documents = self.batch
        weights = predicted(documents).float()
        return tokens, documents, weights * (parts / weights.sum())

    def make_model(self) -> Decoder:
        """Return the model, with the products of its blocks in FP8 and the activations that are recomputed."""
        model = build_model(self.settings.model, self.settings.sequence_length)
        for block in model.blocks:
            if self.precision.fp8:
                scale_products(block)
            block.checkpointing = self.settings.activation_checkpointing
        if self.settings.activation_checkpointing != NO_CHECKPOINTING:
            # The hook that observes the first product runs in the forward pass, and not again in the backward pass.
            torch._dynamo.config.skip_fwd_side_effects_in_bwd_under_checkpoint = True
        return model

    def distribute(self, model: LanguageModel) -> None:
        if self.is_sharded:
            compile_blocks(model, self.settings.compiler)
            shard(model, self._compute if self.precision.mixed else None, self._device)

    def is_recorded(self) -> bool:
        """Return whether the step is one CUDA graph; FSDP2's exchanges cannot be recorded."""
        return not self.is_sharded and captures(self.settings.compiler)

    def choose_exchange(self, static_graph: bool) -> Exchange:
        return Sharded(self.model) if self.is_sharded else super().choose_exchange(static_graph)

    def compile(self, network: nn.Module) -> Any:
        """Return the compiled network; the blocks of a sharded one are compiled already."""
        return network if self.is_sharded else super().compile(network)

    def take_over(self, *arguments: Any) -> None:
        """Train a model; the gathered weights of a sharded one have the type of the products, without autocast."""
        super().take_over(*arguments)
        if self.is_sharded:
            self.autocast = nullcontext()

    def clip(self) -> None:
        longest = self.settings.recipe.clip_norm
        if not self.is_sharded or longest is None:
            super().clip()
            return
        parameters = list(self.model.parameters())
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm: Any = torch.nn.utils.get_total_norm(gradients, foreach=True)
        torch.nn.utils.clip_grads_with_norm_(parameters, longest, norm.full_tensor(), foreach=True)

    def own_pass(self) -> Any:
        """Pass this rank's batch through whole weights, without FSDP2, FP8's kernels or the step's recomputation.

        Attention within documents has a mask.
        """
        with self._plain():
            return super().own_pass()

    def plain_pass(self) -> tuple[float, dict[str, Any]]:
        """Pass few sequences at a time, forward and backward, with the loss of each token by its formula."""
        losses, counts = [], self._counts()
        count = counts.sum()
        for which, *some in zip(*(array.split(self._few()) for array in (counts, *self.batch))):
            with self.autocast:
                logits = self.model.batch_logits(*some).float()
            targets = some[0][:, 1:, None]
            each = logits.logsumexp(-1) - logits.gather(-1, targets).squeeze(-1)
            self.scaler.scale(each[which].sum() / count).backward()
            losses.append(each.detach())
        every = torch.cat(losses)
        return float(every[counts].mean()), {"target_losses": every.double().cpu().numpy()}

    def _counts(self) -> Any:
        """Return which tokens (batch, length) count in the loss."""
        if self.settings.packed:
            return predicted(self.batch[1])
        return torch.ones_like(self.batch[0][:, 1:], dtype=torch.bool)

    def first_part(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(array[: self._few()] for array in batch)

    def _few(self) -> int:
        """Return the sequences whose logits in FP32 take about a gigabyte; no more than the step passes at once."""
        of_sequence = self.settings.sequence_length * self.model.tokens.num_embeddings
        return max(1, min(self.settings.part, LOGITS // of_sequence))

    def watched_pass(self) -> Any:
        blocks = self.model.blocks
        compiled = [block.compiled for block in blocks]
        for block in blocks:
            block.compiled = None
        try:
            with torch.no_grad(), self.autocast:
                return self.model.batch_logits(*self.first_part(self.batch))
        finally:
            for block, call in zip(blocks, compiled):
                block.compiled = call

    @contextmanager
    def _plain(self) -> Iterator[None]:
        """Let ``self.model`` be the same model without FSDP2, FP8's kernels and the step's recomputation."""

        def switch(model: LanguageModel, checkpointing: str, most: int | None, plain: bool) -> None:
            for block in model.blocks:
                block.checkpointing = checkpointing
            if self._most_documents is not None:
                assert isinstance(model, Decoder)
                model.attend_documents(most)
            set_plain(model, plain)

        model, own = self.model, self.settings.activation_checkpointing
        if self.is_sharded:
            self.model = self._unsharded(model)
        recomputed = FULL if count_parameters(model.parameters()) > RECOMPUTED else NO_CHECKPOINTING
        try:
            switch(self.model, recomputed, None, plain=True)
            yield
        finally:
            self.model = model
            switch(model, own, self._most_documents, plain=False)

    def _unsharded(self, model: LanguageModel) -> LanguageModel:
        """Return a copy of the sharded model with whole weights, in the type in which the step gathers them."""
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices), self._device:
            copy = self.make_model()
        copy.cross_entropy = model.cross_entropy
        # Without casts the weights are of the type that products compute in.
        return unshard(model, copy, self._compute)

    def alone(self) -> Callable[[], None] | None:
        """Return None for a sharded model, whose passes exchange weights."""
        return None if self.is_sharded else super().alone()

    def all_reduce(self) -> tuple[int, Callable[[], None]] | None:
        """Return None for a sharded model, which has no all-reduce of its gradients."""
        return None if self.is_sharded else super().all_reduce()

    def close(self) -> None:
        super().close()
        if self.is_sharded and dist.is_initialized():
            dist.destroy_process_group()


open_training = PyTorchDecoderTraining
