"""Wide & Deep as a Paddle layer; ``architectures.py`` describes the layers."""

from typing import Any

import paddle
from paddle import ParamAttr, nn
from paddle.nn import functional
from paddle.nn.initializer import Uniform, XavierUniform
from paddle.static import InputSpec

from ..backends.paddle.backend import (
    PaddleTraining,
    adaptive,
    auto_cast,
    observe_products,
    tf32_switches,
    type_name,
)
from ..core.settings import AdamRecipe
from ..tasks.products import Observation
from ..tasks.recommendation.architectures import TABLE_LIMIT, WideDeep
from ..tasks.recommendation.settings import DENSE_GRADIENTS, ClickSettings
from ..tasks.recommendation.training import ClickTraining, ObservedConfig


class WideDeepModel(nn.Layer):
    """Both sides and the loss, so that a compiled program contains all of it."""

    def __init__(self, model: WideDeep, dropout: float) -> None:
        """Draw the weights from Paddle's generator; their number is asserted."""
        super().__init__()
        drawn = ParamAttr(initializer=Uniform(-TABLE_LIMIT, TABLE_LIMIT))
        self.wide = nn.Embedding(model.vocabulary, 1, weight_attr=drawn)
        self.deep = nn.Embedding(model.vocabulary, model.embedding_width, weight_attr=drawn)
        self.products = nn.LayerDict(
            {
                name: nn.Linear(inputs, outputs, weight_attr=ParamAttr(initializer=XavierUniform()))
                for name, (outputs, inputs) in model.products().items()
            }
        )
        self._dropout = dropout
        found, expected = sum(int(parameter.size) for parameter in self.parameters()), model.parameters()
        assert found == expected, f"the model has {found} parameters instead of {expected}"

    def logits(self, dense: Any, categories: Any, crossed: Any) -> Any:
        """Return the logits (batch,) of fields (batch, 13), (batch, 26) and (batch, 2)."""
        x = paddle.concat([self.deep(categories).flatten(1), dense], axis=1)
        *hidden, last = self.products.values()
        for product in hidden:
            x = functional.dropout(functional.relu(product(x)), self._dropout, training=self.training)
        return (last(x) + self.wide(crossed).sum(axis=1)).squeeze(1)

    def forward(self, dense: Any, categories: Any, crossed: Any, labels: Any) -> tuple[Any, Any]:
        """Return the mean binary cross entropy twice: as output, and as what is differentiated."""
        logits = self.logits(dense, categories, crossed).astype("float32")
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        return loss, loss

    def named_tensors(self) -> dict[str, Any]:
        """Return the parameters by the shared names."""
        tables = {"wide.table": self.wide.weight, "deep.table": self.deep.weight}
        return {**tables, **dict(self.products.named_parameters())}


class PaddleClickTraining(ClickTraining, PaddleTraining):
    """A recommender, which returns its own loss, and hooks in it."""

    settings: ClickSettings

    def build(self) -> None:
        settings = self.settings
        assert isinstance(settings.description, WideDeep)
        self.recommender = WideDeepModel(settings.description, settings.recipe.dropout)
        # Ranks drop different places: only dropout draws from here on.
        paddle.seed(settings.seed + 1 + self.ranks.place.rank)
        self._first: tuple[Any, tuple[int, ...]] | None = None
        self._gradient: Any = None
        self._hooks = [
            self.recommender.products["fc1"].register_forward_post_hook(self._note),
            self.recommender.deep.weight.register_hook(self._note_gradient),
        ]
        specification = [InputSpec(list(array.shape), array.dtype) for array in self.batch]
        self.take_over(self.recommender, list(self.recommender.parameters()), specification)

    def make_optimizer(self, parameters: list[Any], schedule: Any) -> Any:
        assert isinstance(self.settings.recipe, AdamRecipe)
        return adaptive(parameters, schedule, self.settings.recipe, ())

    def _note(self, _layer: Any, _given: Any, output: Any) -> None:
        self._first = (output.dtype, tuple(output.shape))

    def _note_gradient(self, gradient: Any) -> None:
        self._gradient = gradient.is_dense()

    def observed_config(self) -> ObservedConfig:
        """Return the observations of the hooks; a compiled program called the first one once, while it was made."""
        for hook in self._hooks:
            hook.remove()
        assert self._first is not None
        dtype, shape = self._first
        table = self.recommender.deep.weight
        return ObservedConfig(
            compute_dtype=type_name(dtype),
            weight_dtype=type_name(table.dtype),
            batch_per_device=shape[0],
            **tf32_switches(),
            vocabulary=table.shape[0],
            embedding_width=table.shape[1],
            table_gradients=DENSE_GRADIENTS if self._gradient else "sparse",
            others={"compiled_programs": self.compiled_programs()},
        )

    def named_tensors(self) -> dict[str, Any]:
        return self.recommender.named_tensors()

    def observe(self) -> Observation:
        products = dict(self.recommender.products.items())
        return observe_products(products, self.named_tensors(), self._logits, lambda: self._forward()[1])

    def _logits(self) -> Any:
        with paddle.no_grad(), auto_cast(self.precision):
            return self.recommender.logits(*self.batch[:3])


open_training = PaddleClickTraining
