"""Wide & Deep as a torch module; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Dict

import torch
from torch import nn
from torch.nn import functional

from ...tasks.recommendation.architectures import TABLE_LIMIT, WideDeep
from ..weights import count_parameters


class WideDeepModel(nn.Module):
    """Both sides with the loss behind them: what a compiler should see in one piece."""

    def __init__(self, model: WideDeep, dropout: float) -> None:
        """Draw the weights from torch's generator; their number is asserted."""
        super().__init__()
        self.wide = nn.Embedding(model.vocabulary, 1)
        self.deep = nn.Embedding(model.vocabulary, model.embedding_width)
        for table in (self.wide, self.deep):
            nn.init.uniform_(table.weight, -TABLE_LIMIT, TABLE_LIMIT)
        self.products = nn.ModuleDict(
            {name: nn.Linear(inputs, outputs) for name, (outputs, inputs) in model.products().items()}
        )
        for product in self.products.values():
            nn.init.xavier_uniform_(product.weight)
            nn.init.zeros_(product.bias)
        self._dropout = dropout
        found, expected = count_parameters(self), model.parameters()
        assert found == expected, f"the model has {found} parameters instead of {expected}"

    def logits(self, dense: Any, categories: Any, crossed: Any) -> Any:
        """Return the logits (batch,) of fields (batch, 13), (batch, 26) and (batch, 2)."""
        x = torch.cat([self.deep(categories).flatten(1), dense], dim=1)
        *hidden, last = self.products.values()
        for product in hidden:
            x = functional.dropout(functional.relu(product(x)), self._dropout, self.training)
        return (last(x) + self.wide(crossed).sum(1)).squeeze(1)

    def forward(self, dense: Any, categories: Any, crossed: Any, labels: Any) -> Any:
        """Return the mean binary cross entropy."""
        logits = self.logits(dense, categories, crossed)
        # In FP32: a logarithm of 16 bits is what loss scaling cannot mend.
        return functional.binary_cross_entropy_with_logits(logits.float(), labels)

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by the shared names."""
        tables = {"wide.table": self.wide.weight, "deep.table": self.deep.weight}
        return {**tables, **dict(self.products.named_parameters())}
