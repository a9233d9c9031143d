"""A rank's training of a recommender in PyTorch: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import torch

from ...core.arguments import NATIVE
from ...core.feed import Feed
from ...core.optimizers import Moments
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.place import Place
from ...core.settings import AdamRecipe
from ...tasks.products import Observation
from ...tasks.recommendation.facts import DENSE_GRADIENTS, SPARSE_GRADIENTS, Seen
from ...tasks.recommendation.records import ClickFile, open_feed
from ...tasks.recommendation.settings import ClickSettings
from ...tasks.recommendation.training import ClickTraining
from ..compilers import NONE, cache_hits
from ..gradients import DDP
from ..loading import open_native
from ..optimizer import LazyAdam, adaptive, moments, sgd, steps_taken
from ..precision import type_name
from ..products import noting, observe
from ..training import Machine, PyTorchTraining, batches_of, choose_machine, moved
from .model import ClickModel, build


def open_training(settings: ClickSettings, place: Place) -> PyTorchClickTraining:
    """Return the training, ready for its first step."""
    if settings.table_gradients == SPARSE_GRADIENTS and settings.gradients not in (NATIVE, DDP):
        reason = f"gradients {settings.gradients} has no sparse ones; take {DDP}"
        raise RunError(UNSUPPORTED, reason)
    machine = choose_machine(settings, place)
    device = machine.device
    to_batch = batches_of(device)
    if settings.synthetic or settings.loader != NATIVE:
        feed: Optional[Feed] = open_feed(settings, place, to_batch)
    else:
        file = ClickFile(settings.data, settings.vocabulary)
        feed = open_native(
            file.samples, file.batch, settings, place, device, lambda tensors: moved(tensors, device)
        )
    return PyTorchClickTraining(settings, place, machine, to_batch, feed)


def _optimizer(model: ClickModel, settings: ClickSettings) -> torch.optim.Optimizer:
    """Return the recipe's."""
    recipe, tensors = settings.recipe, list(model.named_tensors().values())
    sparse = settings.table_gradients == SPARSE_GRADIENTS
    if isinstance(recipe, AdamRecipe):
        if sparse:
            return LazyAdam(list(model.tables().values()), list(model.products.parameters()), recipe)
        return adaptive([(tensors, recipe.weight_decay)], recipe)
    return sgd([(tensors, recipe.weight_decay)], recipe, fused=not sparse)


class PyTorchClickTraining(PyTorchTraining, ClickTraining):
    """A recommender, which gives its own loss, and the witnesses in it."""

    settings: ClickSettings
    model: ClickModel

    def __init__(
        self,
        settings: ClickSettings,
        place: Place,
        machine: Machine,
        to_batch: Callable[..., Tuple[Any, ...]],
        feed: Optional[Feed],
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        device, precision = machine
        super().__init__(settings, place, machine, to_batch, feed)
        with device:
            sparse = settings.table_gradients == SPARSE_GRADIENTS
            model = build(settings.description, settings.recipe.dropout, sparse)
        model.to(precision.weights)
        # Ranks drop different places: what is drawn from here on is dropout's alone.
        torch.manual_seed(settings.seed + 1 + place.rank)
        self._first: Any = None
        self._gradient: Any = None
        self._hooks = [
            next(iter(model.products.values())).register_forward_hook(self._see),
            model.table.weight.register_hook(self._see_gradient),
        ]
        self.take_over(model, _optimizer(model, settings), {})

    def _see(self, _product: Any, _given: Any, output: Any) -> None:
        self._first = (output.dtype, output.shape)

    def _see_gradient(self, gradient: Any) -> None:
        self._gradient = gradient.is_sparse

    def _forward(self) -> Tuple[Any, Any]:
        """Return nothing and the loss of the batch at hand."""
        with self.autocast:
            return None, self.network(*self.batch)

    def seen(self) -> Seen:
        """Return what the hooks saw; they stay in a compiled model."""
        compiler, (dtype, shape) = self.settings.compiler, self._first
        if compiler == NONE:
            for hook in self._hooks:
                hook.remove()
        table = self.model.table.weight
        return Seen(
            compute_dtype=type_name(dtype),
            weight_dtype=type_name(table.dtype),
            batch_per_device=shape[0],
            tf32_matmul=bool(torch.backends.cuda.matmul.allow_tf32),
            tf32_convolution=bool(torch.backends.cudnn.allow_tf32),
            vocabulary=table.shape[0],
            embedding_width=table.shape[1],
            table_gradients=SPARSE_GRADIENTS if self._gradient else DENSE_GRADIENTS,
            others={"compile_cache_hits": cache_hits(compiler)},
        )

    def steps_taken(self) -> Optional[int]:
        """Return how many steps the optimizer has counted; SGD counts none."""
        return steps_taken(self.optimizer) if isinstance(self.settings.recipe, AdamRecipe) else None

    def read_moments(self) -> Optional[Moments]:
        """Return what the optimizer keeps."""
        return moments(self.optimizer, self.named_tensors())

    def read_batch(self) -> Tuple[Any, ...]:
        """Return the batch at hand in its own types: FP32 has no room for the numbers of all rows."""
        return tuple(tensor.cpu().numpy().copy() for tensor in self.batch)

    def own_pass(self) -> Any:
        """Return nothing of a compiled step with dropout: what a compiler draws, another pass cannot draw again."""
        dropping = bool(self.settings.recipe.dropout) and self.settings.compiler != NONE
        return None if dropping else super().own_pass()

    def watched_step(self, index: int) -> Dict[str, str]:
        """Do the step; return the products' types: in it, or of a compiled one in a pass without the compiler."""
        types: Dict[str, str] = {}

        def note(name: str, _product: Any, _given: Any, output: Any) -> None:
            types[name] = type_name(output.dtype)

        with noting(self.model, note):
            if self.settings.compiler == NONE:
                self.step(index)
            else:
                self._logits()
        if self.settings.compiler != NONE:
            self.step(index)
        return types

    def _logits(self) -> Any:
        with torch.no_grad(), self.autocast:
            return self.model.logits(*self.batch[:3])

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by their names in the description of the models."""
        return self.model.named_tensors()

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward with the step's own model and loss."""
        return observe(self.model, self._logits, lambda: self._forward()[1], self.exchange.average)
