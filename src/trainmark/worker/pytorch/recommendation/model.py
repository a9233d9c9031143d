"""Wide & Deep and DLRM as torch modules; ``architectures.py`` describes their layers."""

from __future__ import annotations

import math
from typing import Any, Dict

import torch
from torch import nn
from torch.nn import functional

from ...tasks.recommendation.architectures import (
    DEEP,
    TABLE_LIMIT,
    TABLES,
    VECTORS,
    WIDE,
    Dlrm,
    Recommender,
    WideDeep,
    pairs,
)
from ...tasks.recommendation.clicks import column_sizes
from ..products import NamedModel
from ..weights import count_parameters


def build(model: Recommender, dropout: float, sparse: bool) -> ClickModel:
    """Return the module of a model description; with ``sparse`` the tables' gradients are lists of rows."""
    if isinstance(model, Dlrm):
        return DlrmModel(model, sparse)
    return WideDeepModel(model, dropout, sparse)


class ClickModel(NamedModel):
    """A recommender with its loss, so that a compiler gets both in one piece."""

    table: nn.Embedding
    """The deep table, or all tables in one."""

    products: nn.ModuleDict

    def tables(self) -> Dict[str, Any]:
        """Return the tables' weights by the shared names."""
        raise NotImplementedError

    def logits(self, dense: Any, categories: Any, crossed: Any) -> Any:
        """Return the logits (batch,) of fields (batch, 13), (batch, 26) and (batch, 2)."""
        raise NotImplementedError

    def forward(self, dense: Any, categories: Any, crossed: Any, labels: Any) -> Any:
        """Return the mean binary cross entropy."""
        logits = self.logits(dense, categories, crossed)
        # In FP32, because loss scaling cannot correct a logarithm in 16 bits.
        return functional.binary_cross_entropy_with_logits(logits.float(), labels)

    def named_products(self) -> Dict[str, Any]:
        """Return the products by the shared names."""
        return dict(self.products.items())

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by the shared names."""
        return {**self.tables(), **dict(self.products.named_parameters())}

    def _count(self, model: Recommender) -> None:
        found, expected = count_parameters(self), model.parameters()
        assert found == expected, f"the model has {found} parameters instead of {expected}"


def _products(model: Recommender) -> nn.ModuleDict:
    return nn.ModuleDict(
        {name: nn.Linear(inputs, outputs) for name, (outputs, inputs) in model.products().items()}
    )


class WideDeepModel(ClickModel):
    """Wide & Deep, with both sides."""

    def __init__(self, model: WideDeep, dropout: float, sparse: bool = False) -> None:
        """Initialise the weights with torch's generator; their number is asserted."""
        super().__init__()
        self.wide = nn.Embedding(model.vocabulary, 1, sparse=sparse)
        self.deep = self.table = nn.Embedding(model.vocabulary, model.embedding_width, sparse=sparse)
        for table in (self.wide, self.deep):
            nn.init.uniform_(table.weight, -TABLE_LIMIT, TABLE_LIMIT)
        self.products = _products(model)
        for product in self.products.values():
            nn.init.xavier_uniform_(product.weight)
            nn.init.zeros_(product.bias)
        self._dropout = dropout
        self._count(model)

    def tables(self) -> Dict[str, Any]:
        """Return the weights of both tables."""
        return {WIDE: self.wide.weight, DEEP: self.deep.weight}

    def logits(self, dense: Any, categories: Any, crossed: Any) -> Any:
        """Return the sum of both sides."""
        x = torch.cat([self.deep(categories).flatten(1), dense], dim=1)
        *hidden, last = self.products.values()
        for product in hidden:
            x = functional.dropout(functional.relu(product(x)), self._dropout, self.training)
        return (last(x) + self.wide(crossed).sum(1)).squeeze(1)


class DlrmModel(ClickModel):
    """DLRM: the 26 tables in one array, the interaction as one batched product, of which one half is used."""

    def __init__(self, model: Dlrm, sparse: bool) -> None:
        """Initialise the weights with torch's generator like the authors' program; their number is asserted."""
        super().__init__()
        self.table = nn.Embedding(model.vocabulary, model.embedding_width, sparse=sparse)
        with torch.no_grad():
            for rows in self.table.weight.split(column_sizes(model.vocabulary)):
                rows.uniform_(-math.sqrt(1 / len(rows)), math.sqrt(1 / len(rows)))
        self.products = _products(model)
        for product in self.products.values():
            outputs, inputs = product.weight.shape
            nn.init.normal_(product.weight, std=math.sqrt(2 / (outputs + inputs)))
            nn.init.normal_(product.bias, std=math.sqrt(1 / outputs))
        first, second = map(torch.tensor, pairs())
        # Indices into the flat products: selecting with one index needs no accumulation in the backward pass.
        self.register_buffer("places", first * VECTORS + second, persistent=False)
        self._count(model)

    def tables(self) -> Dict[str, Any]:
        """Return the weights of all tables as one array."""
        return {TABLES: self.table.weight}

    def logits(self, dense: Any, categories: Any, _crossed: Any) -> Any:
        """Return the logits of the last layer; DLRM has no crossed fields."""
        x = dense.to(self.table.weight.dtype)
        for name, product in self.products.items():
            if name == "top1":
                x = self._interaction(x, self.table(categories))
            x = product(x)
            if product.out_features > 1:
                x = functional.relu(x)
        return x.squeeze(1)

    def _interaction(self, bottom: Any, rows: Any) -> Any:
        """Return the bottom's vectors (batch, width), followed by the products of all pairs with ``rows``."""
        vectors = torch.cat([bottom[:, None], rows.to(bottom.dtype)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return torch.cat([bottom, products.flatten(1).index_select(1, self.places).to(bottom.dtype)], dim=1)
