"""Wide & Deep as a Paddle layer; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import paddle
from paddle import ParamAttr, nn
from paddle.nn import functional
from paddle.nn.initializer import Uniform, XavierUniform

from ...tasks.recommendation.architectures import TABLE_LIMIT, WideDeep


class WideDeepModel(nn.Layer):
    """Both sides with the loss behind them, so that a compiled program holds all."""

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

    def forward(self, dense: Any, categories: Any, crossed: Any, labels: Any) -> Tuple[Any, Any]:
        """Return the mean binary cross entropy twice: as output, and as what is differentiated."""
        logits = self.logits(dense, categories, crossed).astype("float32")
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        return loss, loss

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by the shared names."""
        tables = {"wide.table": self.wide.weight, "deep.table": self.deep.weight}
        return {**tables, **dict(self.products.named_parameters())}
