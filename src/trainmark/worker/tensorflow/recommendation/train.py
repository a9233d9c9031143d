"""A rank's training of a recommender in TensorFlow: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import keras
import numpy as np
import tensorflow as tf

from ...core.arguments import NATIVE
from ...core.feed import Feed
from ...core.place import Place
from ...tasks.products import Observation, product_seen
from ...tasks.recommendation.architectures import DEEP, WideDeep
from ...tasks.recommendation.facts import DENSE_GRADIENTS, Seen
from ...tasks.recommendation.records import ClickFile, open_feed
from ...tasks.recommendation.settings import ClickSettings
from ...tasks.recommendation.training import ClickTraining
from ..loading import open_native
from ..ranks import Group
from ..training import Machine, TensorFlowTraining, batches_of, choose_machine
from .model import WideDeepModel
from .records import ALL_READERS


def open_training(settings: ClickSettings, place: Place) -> TensorFlowClickTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = Group(place, machine.device)
    keras.utils.set_random_seed(settings.seed)
    to_batch = batches_of(machine.device)
    if settings.synthetic or settings.loader != NATIVE:
        feed: Optional[Feed] = open_feed(settings, place, to_batch, ALL_READERS)
    else:
        file = ClickFile(settings.data, settings.vocabulary)
        feed = open_native(file.samples, file.batch, settings, place, lambda batch: to_batch(*batch))
    return TensorFlowClickTraining(settings, group, machine, to_batch, feed)


class TensorFlowClickTraining(TensorFlowTraining, ClickTraining):
    """A recommender, its loss, and what was seen of its first product and of the deep table's gradient."""

    settings: ClickSettings

    def __init__(
        self,
        settings: ClickSettings,
        group: Group,
        machine: Machine,
        to_batch: Callable[..., Tuple[Any, ...]],
        feed: Optional[Feed],
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        super().__init__(settings, group, machine, to_batch, feed)
        self._types: Dict[str, str] = {}
        self._first: Optional[Tuple[int, ...]] = None
        self._gradient: Any = None
        with group.scope():
            description, dropout = settings.description, settings.recipe.dropout
            assert isinstance(description, WideDeep)
            self.recommender = WideDeepModel(description, machine.precision.compute, dropout)
            # Ranks drop different places: what is drawn from here on is dropout's alone.
            tf.random.set_seed(settings.seed + 1 + group.place.rank)
            decays = settings.recipe.weight_decay > 0
            self.take_over(self.recommender, self.recommender.tensors, lambda _name: decays)

    def forward(self, *batch: Any) -> Tuple[Any, Any]:
        """Return the loss, and nothing."""
        return self.recommender.loss(batch, self._see), ()

    def _see(self, name: str, result: Any) -> None:
        self._types.setdefault(name, result.dtype.name)
        self._first = self._first or tuple(result.shape)

    def _forward_and_backward(self, *batch: Any) -> Tuple[Any, Any, List[Any]]:
        """Return loss, nothing, and the gradients: of the tables all rows, and not the list of those looked up."""
        loss, outputs, gradients = super()._forward_and_backward(*batch)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        self._gradient = gradients[[*self.recommender.variables].index(DEEP)]
        return loss, outputs, gradients

    def seen(self) -> Seen:
        """Return what was seen of the first product; in a graph, while it was traced."""
        assert self._first is not None
        table = self.recommender.variables[DEEP]
        tf32 = bool(tf.config.experimental.tensor_float_32_execution_enabled())
        return Seen(
            compute_dtype=next(iter(self._types.values())),
            weight_dtype=table.value.dtype.name,
            batch_per_device=self._first[0],
            tf32_matmul=tf32,
            tf32_convolution=tf32,
            vocabulary=table.shape[0],
            embedding_width=table.shape[1],
            table_gradients=DENSE_GRADIENTS
            if tf.is_tensor(self._gradient)
            else type(self._gradient).__name__,
        )

    def own_pass(self) -> Optional[Observation]:
        """Pass the batch forward and backward, by the very function that the step calls; not with dropout."""
        alone = self.ranks.place.world_size == 1 and not self.settings.recipe.dropout
        return self.observe() if alone else None

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward, and look at the products."""
        loss, _, gradients = self._forward_and_backward(*self.batch)
        results: Dict[str, Any] = {}
        logits = self.recommender.logits(self.batch[:3], results.setdefault)
        products = []
        for name, result in results.items():
            inputs, outputs = self.recommender.variables[f"{name}.weight"].shape
            biased = f"{name}.bias" in self.recommender.variables
            values = tf.cast(result, tf.float32).numpy()
            products.append(product_seen(name, inputs, outputs, biased, values))
        by_name = self.by_name(self._scale.unscaled(gradients))
        return Observation(np.asarray(logits), float(loss), by_name, products)
