"""Wide & Deep and DLRM as torch modules, and their training; ``architectures.py`` describes the layers."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..backends.pytorch.backend import NamedModel, ProductTraining
from ..backends.pytorch.collectives import DDP
from ..core.facts import ObservedConfig, assert_parameters, count_parameters
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.settings import NATIVE, AdamRecipe
from ..pytorch_fast.optimizers import LazyAdam, adaptive, sgd
from ..tasks.recommendation.architectures import (
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
from ..tasks.recommendation.records import column_sizes
from ..tasks.recommendation.settings import DENSE_GRADIENTS, SPARSE_GRADIENTS, ClickSettings
from ..tasks.recommendation.training import ClickTraining


def build(model: Recommender, dropout: float, sparse: bool) -> "ClickModel":
    """Return the module of a model description; with ``sparse`` the tables' gradients are lists of rows."""
    if isinstance(model, Dlrm):
        return DlrmModel(model, sparse)
    assert isinstance(model, WideDeep)
    return WideDeepModel(model, dropout, sparse)


class ClickModel(NamedModel):
    """A recommender with its loss, so that a compiler gets both in one piece."""

    table: nn.Embedding  # the deep table, or all tables in one

    products: nn.ModuleDict

    def tables(self) -> dict[str, Any]:
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

    def batch_logits(self, *batch: Any) -> Any:
        return self.logits(*batch[:3])

    def named_products(self) -> dict[str, Any]:
        return dict(self.products.items())

    def named_tensors(self) -> dict[str, Any]:
        return {**self.tables(), **dict(self.products.named_parameters())}


def _products(model: Recommender) -> nn.ModuleDict:
    shapes = model.products().items()
    return nn.ModuleDict({name: nn.Linear(inputs, outputs) for name, (outputs, inputs) in shapes})


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
        assert_parameters(count_parameters(self.parameters()), model.parameters())

    def tables(self) -> dict[str, Any]:
        return {WIDE: self.wide.weight, DEEP: self.deep.weight}

    def logits(self, dense: Any, categories: Any, crossed: Any) -> Any:
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
        assert_parameters(count_parameters(self.parameters()), model.parameters())

    def tables(self) -> dict[str, Any]:
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


class PyTorchClickTraining(ClickTraining, ProductTraining):
    """A recommender, which gives its own loss, and the witnesses in it."""

    settings: ClickSettings
    model: ClickModel
    REPEATS_DROPOUT = True

    def check(self, settings: ClickSettings) -> None:
        """Raise ``RunError`` for an exchange that has no sparse gradients."""
        if settings.table_gradients == SPARSE_GRADIENTS and settings.gradients not in (NATIVE, DDP):
            reason = f"gradients {settings.gradients} has no sparse ones; take {DDP}"
            raise RunError(UNSUPPORTED, reason)

    def build(self) -> None:
        settings, sparse = self.settings, self.settings.table_gradients == SPARSE_GRADIENTS
        with self._device:
            model = build(settings.description, settings.recipe.dropout, sparse)
        model.to(getattr(torch, self.precision.weights))
        self._gradient: Any = None
        self.observe_first(model, {}, model.table.weight.register_hook(self._see_gradient))
        recipe, tensors = settings.recipe, list(model.named_tensors().values())
        if not isinstance(recipe, AdamRecipe):
            optimizer = sgd([(tensors, recipe.weight_decay)], recipe, fused=not sparse)
        elif sparse:
            optimizer = LazyAdam(list(model.tables().values()), list(model.products.parameters()), recipe)
        else:
            optimizer = adaptive([(tensors, recipe.weight_decay)], recipe)
        self.take_over(model, optimizer)

    def _see_gradient(self, gradient: Any) -> None:
        self._gradient = gradient.is_sparse

    def observed_config(self) -> ObservedConfig:
        (_, shape), table = self.first_product(), self.model.table.weight
        gradients = SPARSE_GRADIENTS if self._gradient else DENSE_GRADIENTS
        return self.config_of(table, shape[0], self.axes(table.shape, gradients))

    def read_batch(self) -> tuple[Any, ...]:
        """Return the batch at hand in its own types: FP32 has no room for the numbers of all rows."""
        return tuple(tensor.cpu().numpy().copy() for tensor in self.batch)


open_training = PyTorchClickTraining
