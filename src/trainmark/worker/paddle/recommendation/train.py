"""A rank's training of a recommender in PaddlePaddle: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import paddle
from paddle.static import InputSpec

from ...core.arguments import NATIVE
from ...core.feed import Feed
from ...core.place import Place
from ...core.settings import AdamRecipe
from ...tasks.products import Observation
from ...tasks.recommendation.architectures import WideDeep
from ...tasks.recommendation.facts import DENSE_GRADIENTS, Seen
from ...tasks.recommendation.records import ClickFile, open_feed
from ...tasks.recommendation.settings import ClickSettings
from ...tasks.recommendation.training import ClickTraining
from ..distributed import Group
from ..loading import DataLoaderFeed
from ..optimizer import adaptive
from ..precision import Precision, auto_cast, tf32_seen, type_name
from ..products import observe
from ..training import PaddleTraining, choose_machine, meet_ranks, to_batch
from .model import WideDeepModel


def open_training(settings: ClickSettings, place: Place) -> PaddleClickTraining:
    """Return the training, ready for its first step."""
    device, precision = choose_machine(settings, place)
    group = meet_ranks(settings, place, device)
    if settings.synthetic or settings.loader != NATIVE:
        feed: Optional[Feed] = open_feed(settings, place, to_batch)
    else:
        file = ClickFile(settings.data, settings.vocabulary)
        feed = DataLoaderFeed(file.samples, file.batch, settings, place)
    return PaddleClickTraining(settings, group, device, precision, feed)


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
        return Seen(
            compute_dtype=type_name(dtype),
            weight_dtype=type_name(table.dtype),
            batch_per_device=shape[0],
            **tf32_seen(),
            vocabulary=table.shape[0],
            embedding_width=table.shape[1],
            table_gradients=DENSE_GRADIENTS if self._gradient else "sparse",
            others={"compiled_programs": self.compiled_programs()},
        )

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by the shared names."""
        return self.recommender.named_tensors()

    def own_pass(self) -> Any:
        """Return nothing with dropout: another pass drops other values."""
        return None if self.settings.recipe.dropout else super().own_pass()

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward with the step's own model and loss."""
        products = dict(self.recommender.products.items())
        return observe(products, self.named_tensors(), self._logits, lambda: self._forward()[1])

    def _logits(self) -> Any:
        with paddle.no_grad(), auto_cast(self._precision):
            return self.recommender.logits(*self.batch[:3])
