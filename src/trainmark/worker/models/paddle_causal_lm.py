"""GPT-2 as Paddle layers; ``architectures.py`` describes the layers."""

from contextlib import nullcontext
from typing import Any

import paddle
from paddle import ParamAttr, nn
from paddle.nn import functional
from paddle.nn.initializer import Normal

from ..backends.paddle import backend
from ..backends.paddle.backend import ProductModel, ProductTraining, auto_cast
from ..core.facts import ObservedConfig, assert_parameters, count_parameters
from ..tasks.causal_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, Decoder, shared_name
from ..tasks.causal_lm.settings import LanguageSettings
from ..tasks.causal_lm.training import LanguageTraining
from ..tasks.products import STREAM


def drawn(deviation: float) -> ParamAttr:
    """Return the attribute of weights that begin normal, with this deviation."""
    return ParamAttr(initializer=Normal(0.0, deviation))


def product(inputs: int, outputs: int, deviation: float = DEVIATION, bias: bool = False) -> nn.Linear:
    """Return a linear layer whose weights begin normal."""
    return nn.Linear(inputs, outputs, weight_attr=drawn(deviation), bias_attr=None if bias else False)


def _norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, NORM_EPSILON, bias_attr=False)


class Block(nn.Layer):
    """Causal attention by the kernel that Paddle finds best, and a perceptron, each added to what it got."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        width, inner, added = model.width, model.inner, model.added_deviation
        qkv, output = product(width, 3 * width), product(width, width, added)
        self.attention = nn.LayerDict({"norm": _norm(width), "qkv": qkv, "output": output})
        up, down = product(width, inner), product(inner, width, added)
        self.mlp = nn.LayerDict({"norm": _norm(width), "up": up, "down": down})
        self._heads = model.heads

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        attention, mlp = self.attention, self.mlp
        parts = attention["qkv"](attention["norm"](x)).split(3, axis=-1)
        heads = (part.reshape([0, 0, self._heads, -1]) for part in parts)
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + attention["output"](attended.reshape([0, 0, -1]))
        return x + mlp["down"](functional.gelu(mlp["up"](mlp["norm"](x)), approximate=False))


class LanguageModel(ProductModel):
    """A row of ``blocks`` behind the embedding ``tokens``; other layers and parameters have the shared names."""

    tokens: nn.Embedding
    blocks: nn.LayerList

    def named_products(self) -> dict[str, nn.Linear]:
        layers = ((shared_name(name), layer) for name, layer in self.named_sublayers())
        return {name: layer for name, layer in layers if isinstance(layer, nn.Linear)}

    def named_tensors(self) -> dict[str, Any]:
        return {shared_name(name): tensor for name, tensor in self.named_parameters()}


class GptModel(LanguageModel):
    """GPT-2 with its loss."""

    def __init__(self, name: str) -> None:
        """Draw the weights from Paddle's generator; their number is asserted."""
        super().__init__()
        model = ARCHITECTURES[name]
        self.tokens = nn.Embedding(model.vocabulary, model.width, weight_attr=drawn(DEVIATION))
        self.positions = nn.Embedding(model.positions, model.width, weight_attr=drawn(DEVIATION))
        self.blocks = nn.LayerList([Block(model) for _ in range(model.layers)])
        self.norm = _norm(model.width)
        assert_parameters(count_parameters(self.parameters()), model.parameters())

    def batch_logits(self, tokens: Any) -> Any:
        """Return the logits (batch, length, vocabulary) of all tokens but the last, which is only predicted."""
        tokens = tokens[:, :-1]
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        # The classifier is the embedding.
        return paddle.matmul(self.norm(x), self.tokens.weight, transpose_y=True)

    def forward(self, tokens: Any) -> tuple[Any, Any]:
        """Return the loss of tokens (batch, length + 1), twice."""
        logits = self.batch_logits(tokens).astype("float32")
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        return loss, loss


class PaddleLanguageTraining(ProductTraining, LanguageTraining):
    """A language model, and hooks in its first block."""

    settings: LanguageSettings
    model: LanguageModel

    def build(self) -> None:
        self._passed: list[int] = []
        model = self.make_model()
        products = model.named_products()
        watched = {name: products[name] for name in self.watched_products}
        self.train_model(model, {STREAM: model.blocks[0], **watched})

    def make_model(self) -> LanguageModel:
        """Return the model with fresh weights."""
        return GptModel(self.settings.model)

    def make_optimizer(self, parameters: list[Any], schedule: Any) -> Any:
        decaying = {tensor.name for name, tensor in self.named_tensors().items() if self.decays(name)}
        return backend.adaptive(parameters, schedule, self.settings.recipe, decaying)

    def passed_at_once(self) -> tuple[Any, ...]:
        return tuple(array[: self.settings.part] for array in self.batch)

    def _pass(self) -> Any:
        """Pass the parts of the batch one after another; their gradients add up, and are exchanged with the last's."""
        count, total = self.settings.accumulation, None
        parts = list(zip(*(array.split(count) for array in self.prepared(count))))
        self._passed = [part[0].shape[0] for part in parts]
        for index, part in enumerate(parts):
            with self.ranks.withheld(self.learner) if index < count - 1 else nullcontext():
                with auto_cast(self.precision):
                    loss = self.learner(*part)[1] / count
                self._backward(loss)
            total = loss.detach() if total is None else total + loss.detach()
        return total

    def observed_config(self) -> ObservedConfig:
        axes = {"sequence_length": self.first_product()[1][1], "accumulation": len(self._passed)}
        stream = {STREAM: self.first[STREAM][0]}
        return self.config_of(self.model.tokens.weight, sum(self._passed), axes, **stream)


open_training = PaddleLanguageTraining
