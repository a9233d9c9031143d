"""Wide & Deep as a Paddle layer; ``architectures.py`` describes the layers."""

from typing import Any

import paddle
from paddle import ParamAttr, nn
from paddle.nn import functional
from paddle.nn.initializer import Uniform, XavierUniform

from ..backends.paddle import backend
from ..backends.paddle.backend import ProductModel, ProductTraining
from ..core.facts import ObservedConfig, assert_parameters, count_parameters
from ..core.settings import AdamRecipe
from ..tasks.recommendation.architectures import TABLE_LIMIT, WideDeep
from ..tasks.recommendation.settings import DENSE_GRADIENTS, SPARSE_GRADIENTS, ClickSettings
from ..tasks.recommendation.training import ClickTraining


class WideDeepModel(ProductModel):
    """Wide & Deep, with both sides."""

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
        assert_parameters(count_parameters(self.parameters()), model.parameters())

    def batch_logits(self, dense: Any, categories: Any, crossed: Any, _labels: Any) -> Any:
        """Return the logits (batch,) of fields (batch, 13), (batch, 26) and (batch, 2)."""
        x = paddle.concat([self.deep(categories).flatten(1), dense], axis=1)
        *hidden, last = self.products.values()
        for product in hidden:
            x = functional.dropout(functional.relu(product(x)), self._dropout, training=self.training)
        return (last(x) + self.wide(crossed).sum(axis=1)).squeeze(1)

    def forward(self, dense: Any, categories: Any, crossed: Any, labels: Any) -> tuple[Any, Any]:
        """Return the mean binary cross entropy, twice."""
        logits = self.batch_logits(dense, categories, crossed, labels).astype("float32")
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        return loss, loss

    def named_products(self) -> dict[str, nn.Linear]:
        return dict(self.products.items())

    def named_tensors(self) -> dict[str, Any]:
        tables = {"wide.table": self.wide.weight, "deep.table": self.deep.weight}
        return {**tables, **dict(self.products.named_parameters())}


class PaddleClickTraining(ClickTraining, ProductTraining):
    """A recommender, and hooks in it."""

    settings: ClickSettings
    model: WideDeepModel

    def build(self) -> None:
        description = self.settings.description
        assert isinstance(description, WideDeep)
        model = WideDeepModel(description, self.settings.recipe.dropout)
        self._gradient: Any = None
        self.train_model(model)
        self._hooks.append(model.deep.weight.register_hook(self._note_gradient))

    def make_optimizer(self, parameters: list[Any], schedule: Any) -> Any:
        assert isinstance(self.settings.recipe, AdamRecipe)
        return backend.adaptive(parameters, schedule, self.settings.recipe, ())

    def _note_gradient(self, gradient: Any) -> None:
        self._gradient = gradient.is_dense()

    def observed_config(self) -> ObservedConfig:
        (_, shape), table = self.first_product(), self.model.deep.weight
        gradients = DENSE_GRADIENTS if self._gradient else SPARSE_GRADIENTS
        return self.config_of(table, shape[0], self.axes(table.shape, gradients))


open_training = PaddleClickTraining
