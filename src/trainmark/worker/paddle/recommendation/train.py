"""A rank's training of a recommender in PaddlePaddle: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import paddle
from paddle.static import InputSpec

from ...core.arguments import NATIVE
from ...core.feed import Feed
from ...core.optimizers import Moments
from ...core.place import Place
from ...core.settings import AdamRecipe
from ...tasks.recommendation.architectures import WideDeep
from ...tasks.recommendation.facts import DENSE_GRADIENTS, Seen
from ...tasks.recommendation.observing import LayerSeen, Observation, layer_seen
from ...tasks.recommendation.records import open_feed
from ...tasks.recommendation.settings import ClickSettings
from ...tasks.recommendation.training import ClickTraining
from ..device import limit_threads
from ..distributed import Group
from ..optimizer import adaptive, steps_taken
from ..precision import Precision, auto_cast
from ..training import PaddleTraining, choose_machine
from .loading import DataLoaderFeed
from .model import WideDeepModel, load, read


def open_training(settings: ClickSettings, place: Place) -> PaddleClickTraining:
    """Return the training, ready for its first step."""
    device, precision = choose_machine(settings, place)
    group = Group(place, device)
    if settings.threads:
        limit_threads(settings.threads, device)
    if settings.synthetic or settings.loader != NATIVE:
        feed: Optional[Feed] = open_feed(settings, place, to_batch)
    else:
        feed = DataLoaderFeed(settings, place)
    return PaddleClickTraining(settings, group, device, precision, feed)


def to_batch(*arrays: Any) -> Tuple[Any, ...]:
    """Return numpy's arrays on the device."""
    return tuple(map(paddle.to_tensor, arrays))


class PaddleClickTraining(PaddleTraining, ClickTraining):
    """A recommender, which gives its own loss, and the witnesses in it."""

    settings: ClickSettings

    def __init__(
        self,
        settings: ClickSettings,
        group: Group,
        device: str,
        precision: Precision,
        feed: Optional[Feed],
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        super().__init__(settings, group, device, precision, to_batch, feed)
        assert isinstance(settings.description, WideDeep)
        self.recommender = WideDeepModel(settings.description, settings.recipe.dropout)
        # Ranks drop different places: what is drawn from here on is dropout's alone.
        paddle.seed(settings.seed + 1 + group.place.rank)
        self._first: Optional[Tuple[Any, Tuple[int, ...]]] = None
        self._gradient: Any = None
        self._hooks = [
            self.recommender.products["fc1"].register_forward_post_hook(self._see),
            self.recommender.deep.weight.register_hook(self._see_gradient),
        ]
        specification = [InputSpec(list(array.shape), array.dtype) for array in self.batch]
        self.take_over(self.recommender, list(self.recommender.parameters()), specification)

    def make_optimizer(self, parameters: List[Any], schedule: Any) -> Any:
        """Return the recipe's optimizer."""
        assert isinstance(self.settings.recipe, AdamRecipe)
        return adaptive(parameters, schedule, self.settings.recipe, ())

    def _see(self, _layer: Any, _given: Any, output: Any) -> None:
        self._first = (output.dtype, tuple(output.shape))

    def _see_gradient(self, gradient: Any) -> None:
        self._gradient = gradient.is_dense()

    def seen(self) -> Seen:
        """Return what the hooks saw; a compiled program called the first one once, while it was made."""
        for hook in self._hooks:
            hook.remove()
        assert self._first is not None
        dtype, shape = self._first
        table = self.recommender.deep.weight
        cuda, core = paddle.device.is_compiled_with_cuda(), paddle.base.core
        return Seen(
            compute_dtype=_name(dtype),
            weight_dtype=_name(table.dtype),
            batch_per_device=shape[0],
            tf32_matmul=bool(core.get_cublas_switch()) if cuda else None,
            tf32_convolution=bool(core.get_cudnn_switch()) if cuda else None,
            vocabulary=table.shape[0],
            embedding_width=table.shape[1],
            table_gradients=DENSE_GRADIENTS if self._gradient else "sparse",
            others={"compiled_programs": self.compiled_programs()},
        )

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over the parameters."""
        load(self.recommender.named_tensors(), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return the parameters."""
        return read(self.recommender.named_tensors())

    def read_moments(self) -> Optional[Moments]:
        """Return what the optimizer keeps."""
        if not self._losses:
            return None
        tensors = self.recommender.named_tensors()
        first, second = (
            read({name: self.optimizer._get_accumulator(kind, tensor) for name, tensor in tensors.items()})
            for kind in ("moment1", "moment2")
        )
        taken = self.steps_taken()
        return Moments(len(self._losses) if taken is None else taken, first, second)

    def steps_taken(self) -> Optional[int]:
        """Return how many steps the optimizer has counted: those that overflowed are not among them."""
        if not self._losses:
            return 0
        assert isinstance(self.settings.recipe, AdamRecipe)
        parameter = next(iter(self.recommender.named_tensors().values()))
        return steps_taken(self.optimizer, parameter, self.settings.recipe)

    def own_pass(self) -> Any:
        """Return nothing with dropout: another pass drops other values."""
        return None if self.settings.recipe.dropout else super().own_pass()

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward with the step's own model and loss."""
        seen: List[LayerSeen] = []

        def noting(name: str) -> Callable[[Any, Any, Any], None]:
            def note(layer: Any, _given: Any, output: Any) -> None:
                inputs, outputs = layer.weight.shape
                values = output.astype("float32").numpy()
                seen.append(layer_seen(name, inputs, outputs, layer.bias is not None, values))

            return note

        products = self.recommender.products.items()
        hooks = [layer.register_forward_post_hook(noting(name)) for name, layer in products]
        with paddle.no_grad(), auto_cast(self._precision):
            logits = self.recommender.logits(*self.batch[:3]).astype("float32").numpy()
        for hook in hooks:
            hook.remove()
        _, loss = self._forward()
        loss.backward()
        tensors = self.recommender.named_tensors()
        gradients = read({name: tensor.grad for name, tensor in tensors.items()})
        for tensor in tensors.values():
            tensor.clear_gradient(set_to_zero=False)
        return Observation(logits, float(loss), gradients, seen)


def _name(dtype: Any) -> str:
    """Return the name of a type of a tensor (``paddle.float32``) or of a program's value (``DataType.FLOAT32``)."""
    return str(dtype).rpartition(".")[2].lower()
