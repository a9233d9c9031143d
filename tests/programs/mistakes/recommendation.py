"""Those by which recommenders of the same name, and their optimizers, really differ."""

import importlib
from collections.abc import Callable
from typing import Any


def _model() -> Any:
    return importlib.import_module("trainmark_worker.models.pytorch_recommendation")


def _fields(change: Callable[..., tuple[Any, ...]]) -> None:
    """Let the model get other fields than the batch has."""
    model = _model().WideDeepModel
    whole = model.logits
    model.logits = lambda self, *fields: whole(self, *change(*fields))


def gelu() -> None:
    """As newer recommenders have it."""
    functional = _model().functional
    functional.relu = functional.gelu


def relu6() -> None:
    """An activation with a bound."""
    functional = _model().functional
    functional.relu = functional.relu6


def without_wide() -> None:
    """Deep alone: the crosses are looked up, and count nothing."""
    model = _model()
    whole = model.WideDeepModel.__init__

    class Nothing(model.nn.Embedding):  # type: ignore[misc,name-defined]
        def forward(self, given: Any) -> Any:
            return super().forward(given) * 0

    def init(self: Any, *given: Any) -> None:
        whole(self, *given)
        self.wide.__class__ = Nothing

    model.WideDeepModel.__init__ = init


def swapped() -> None:
    """Two columns of the log in the other order."""

    def change(dense: Any, categories: Any, crossed: Any) -> tuple[Any, ...]:
        order = list(range(categories.shape[1]))
        order[4], order[5] = order[5], order[4]
        return dense, categories[:, order], crossed

    _fields(change)


def left_out() -> None:
    """The last column's values never reach the layers: they are zeros."""
    model = _model().WideDeepModel

    def logits(self: Any, dense: Any, categories: Any, crossed: Any) -> Any:
        embedded = self.deep(categories).clone()
        embedded[:, -1] = 0
        x = _model().torch.cat([embedded.flatten(1), dense], dim=1)
        *hidden, last = self.products.values()
        for product in hidden:
            x = _model().functional.relu(product(x))
        return (last(x) + self.wide(crossed).sum(1)).squeeze(1)

    model.logits = logits


def dropout() -> None:
    """That of the recipe, whatever the flag says."""
    model: Any = _model()
    whole = model.WideDeepModel.__init__
    model.WideDeepModel.__init__ = lambda self, description, _share, *more: whole(
        self, description, 0.5, *more
    )


def batch_norm() -> None:
    """A batch norm behind each hidden product, with parameters of its own."""
    model: Any = _model()
    whole, relu = model.WideDeepModel.__init__, model.functional.relu
    norms: list[Any] = []

    def init(self: Any, description: Any, share: float, *more: Any) -> None:
        counted = type(description).parameters
        added = 2 * description.layers * description.width
        # The worker asserts the number when it builds the model; here the check itself must find it.
        type(description).parameters = lambda one: counted(one) + added
        model.count_parameters = lambda leaves: sum(leaf.numel() for leaf in leaves) + added
        whole(self, description, share, *more)
        norms.extend(model.nn.BatchNorm1d(description.width) for _ in range(description.layers))
        self.norms = model.nn.ModuleList(norms)

    turn = iter(range(1 << 30))
    model.functional.relu = lambda x: relu(norms[next(turn) % len(norms)](x))
    model.WideDeepModel.__init__ = init


def unbiased() -> None:
    """A product whose bias is not added, as where a norm is meant to follow."""
    model: Any = _model()
    whole = model.WideDeepModel.__init__

    def init(self: Any, *given: Any) -> None:
        whole(self, *given)
        product = self.products["fc2"]
        product.forward = lambda x: model.functional.linear(x, product.weight, 0 * product.bias)

    model.WideDeepModel.__init__ = init


def decay() -> None:
    """Adam with an L2 penalty, as recommenders often have it."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch_fast.optimizers")
    whole = optimizer.torch.optim.Adam

    def made(groups: Any, **named: Any) -> Any:
        return whole([{**group, "weight_decay": 0.1} for group in groups], **named)

    made.__name__ = "Adam"
    optimizer.torch.optim.Adam = made


def decoupled_decay() -> None:
    """AdamW where Adam was asked for, with its usual decay or more."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch_fast.optimizers")
    whole = optimizer.torch.optim.AdamW

    def made(groups: Any, **named: Any) -> Any:
        return whole([{**group, "weight_decay": 0.1} for group in groups], **named)

    optimizer.torch.optim.Adam = made


def another_second_moment() -> None:
    """The default of most libraries, whatever the flag says."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch_fast.optimizers")
    whole = optimizer.torch.optim.Adam
    optimizer.torch.optim.Adam = lambda groups, **named: whole(groups, **{**named, "betas": (0.9, 0.999)})


def table_stands_still() -> None:
    """The wide table gets gradients, and no update."""
    training: Any = importlib.import_module("trainmark_worker.models.pytorch_recommendation")
    whole = training.adaptive

    def without(groups: Any, recipe: Any) -> Any:
        return whole([(tensors[1:], decays) for tensors, decays in groups], recipe)

    training.adaptive = without


def lazy() -> None:
    """Rows that the batch does not look up keep weights and moments, as with a list of rows for a gradient."""
    optim: Any = importlib.import_module("trainmark_worker.pytorch_fast.optimizers").torch.optim
    whole = optim.Adam

    class Adam(whole):  # type: ignore[misc,valid-type]
        def step(self, closure: Any = None) -> Any:
            tables = self.param_groups[0]["params"][:2]
            before = [
                (kept, kept.detach().clone(), table.grad.abs().sum(1) == 0)
                for table in tables
                for kept in (table, *(self.state[table].get(name) for name in ("exp_avg", "exp_avg_sq")))
                if kept is not None
            ]
            found = super().step(closure)
            for kept, values, left_alone in before:
                kept.data[left_alone] = values[left_alone]
            return found

    optim.Adam = Adam


def summed() -> None:
    """The sum of the losses in the place of their mean: an adaptive optimizer hides it in the update."""
    functional = _model().functional
    whole = functional.binary_cross_entropy_with_logits
    functional.binary_cross_entropy_with_logits = lambda *given: whole(*given, reduction="sum")


def _interaction(change: Callable[..., Any]) -> None:
    """Let DLRM's interaction be another function of the bottom's vectors and the rows."""
    _model().DlrmModel._interaction = lambda _self, bottom, rows: change(_model().torch, bottom, rows)


def _pairs(torch: Any, *vectors: Any, transposed: bool = False) -> Any:
    together = torch.cat(vectors, dim=1)
    products = together @ together.transpose(1, 2)
    if transposed:
        first, second = torch.triu_indices(27, 27, 1)
    else:
        first, second = torch.tril_indices(27, 27, -1)
    return products[:, first, second]


def pairs_first() -> None:
    """As in programs that put the dense vector behind the interaction."""
    _interaction(lambda torch, bottom, rows: torch.cat([_pairs(torch, bottom[:, None], rows), bottom], dim=1))


def transposed() -> None:
    """The upper half of the products, and not the lower one."""
    _interaction(
        lambda torch, bottom, rows: torch.cat(
            [bottom, _pairs(torch, bottom[:, None], rows, transposed=True)], dim=1
        )
    )


def bottom_last() -> None:
    """The rows first."""
    _interaction(lambda torch, bottom, rows: torch.cat([bottom, _pairs(torch, rows, bottom[:, None])], dim=1))


def straight() -> None:
    """No activation behind the bottom's last layer."""
    model: Any = _model()

    def logits(self: Any, dense: Any, categories: Any, _crossed: Any) -> Any:
        x, relu = dense, model.functional.relu
        for name, product in self.products.items():
            if name == "top1":
                x = self._interaction(x, self.table(categories))
            x = product(x)
            if name not in ("bottom3", "top3"):
                x = relu(x)
        return x.squeeze(1)

    model.DlrmModel.logits = logits


def swapped_tables() -> None:
    """Two columns of the log in the other order."""
    model: Any = _model().DlrmModel
    whole = model._interaction

    def interaction(self: Any, bottom: Any, rows: Any) -> Any:
        order = [0, 1, 2, 3, 5, 4, *range(6, rows.shape[1])]
        return whole(self, bottom, rows[:, order])

    model._interaction = interaction


MISTAKES: dict[str, Callable[[], None]] = {
    "gelu": gelu,
    "relu6": relu6,
    "without-wide": without_wide,
    "swapped": swapped,
    "left-out": left_out,
    "dropout": dropout,
    "batch-norm": batch_norm,
    "unbiased": unbiased,
    "decay": decay,
    "decoupled-decay": decoupled_decay,
    "second-moment": another_second_moment,
    "table-stands-still": table_stands_still,
    "lazy": lazy,
    "summed": summed,
    "pairs-first": pairs_first,
    "transposed": transposed,
    "bottom-last": bottom_last,
    "straight": straight,
    "swapped-tables": swapped_tables,
}
