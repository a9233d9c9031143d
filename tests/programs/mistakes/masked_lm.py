"""Those by which BERTs and their pre-training really differ."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from mistakes.causal_lm import gelu_by_tanh


def _bert() -> Any:
    return importlib.import_module("trainmark_worker.models.pytorch_masked_lm")


def _train() -> Any:
    return importlib.import_module("trainmark_worker.models.pytorch_masked_lm")


def causal() -> None:
    """As GPT attends."""
    functional = _bert().functional
    whole = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = lambda *heads, **named: whole(*heads, **named, is_causal=True)


def words_alone() -> None:
    """As RoBERTa is trained: no next sentence."""
    bert = _bert()

    def forward(self: Any, *batch: Any) -> Any:
        found, told = self.heads(*batch[:4])
        words, weights = batch[4].flatten(), batch[5].flatten()
        losses = bert.functional.cross_entropy(found.flatten(0, 1), words, reduction="none")
        return (losses * weights).sum() + 0 * told.sum()

    bert.BertModel.forward = forward


def all_words() -> None:
    """The loss of every position, hidden or not: those that were not hidden are to be what they are."""
    bert = _bert()
    torch: Any = importlib.import_module("torch")
    whole = bert.BertModel.forward

    def forward(self: Any, *batch: Any) -> Any:
        tokens, segments, lengths, places, words, _, follows = batch
        everywhere = torch.arange(tokens.shape[1]).expand_as(tokens)
        alike = torch.full(tokens.shape, 1 / tokens.numel())
        given = (everywhere, tokens.scatter(1, places, words), alike)
        return whole(self, tokens, segments, lengths, *given, follows)

    bert.BertModel.forward = forward


def biases_decay() -> None:
    """One group of parameters."""
    _train().MaskedTraining.decays = lambda _self, _name: True


def untied() -> None:
    """A matrix of its own for the words."""
    bert = _bert()
    init = bert.Words.__init__

    def made(self: Any, model: Any) -> None:
        init(self, model)
        self.matrix = bert.nn.Parameter(bert.torch.zeros(model.vocabulary, model.width))

    bert.Words.__init__ = made
    shared = bert.BertModel.named_tensors
    bert.BertModel.named_tensors = lambda self: {
        name: tensor for name, tensor in shared(self).items() if name != "words.matrix"
    }
    architectures: Any = importlib.import_module("trainmark_worker.tasks.masked_lm.architectures")
    counted = architectures.Bert.parameters
    architectures.Bert.parameters = lambda self: counted(self) + self.vocabulary * self.width


def eighty() -> None:
    """Eighty words of a sequence are classified, whatever was asked for: those asked for, four times."""
    bert = _bert()
    whole = bert.BertModel.forward

    def forward(self: Any, *batch: Any) -> Any:
        *sequences, places, words, weights, follows = batch
        more = (given.repeat(1, 4) for given in (places, words, weights / 4))
        return whole(self, *sequences, *more, follows)

    bert.BertModel.forward = forward


def no_mask() -> None:
    """Padding is attended to, as where a mask is built and not handed on."""
    functional = _bert().functional
    whole = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = lambda *heads, **named: whole(
        *heads, **{**named, "attn_mask": None}
    )


def unweighted() -> None:
    """The mean over all places, also over those that hold no word."""
    training = _train().PyTorchMaskedTraining
    whole = training.prepared

    def prepared(self: Any, parts: int) -> Any:
        batch = list(self.batch)
        batch[5] = batch[5] * 0 + 1
        self.batch = tuple(batch)
        return whole(self, parts)

    training.prepared = prepared


def mean_of_means() -> None:
    """Each part's mean over its own words, as most programs have it: words of short sequences count for more."""

    def prepared(self: Any, parts: int) -> Any:
        batch = list(self.batch)
        weights = batch[5].unflatten(0, (parts, -1))
        batch[5] = (weights / weights.sum((1, 2), keepdim=True)).flatten(0, 1)
        return tuple(batch)

    _train().PyTorchMaskedTraining.prepared = prepared


def mean_of_ranks() -> None:
    """Each rank's mean over its own words, as where nobody asks the others how many they have."""

    def prepared(self: Any, parts: int) -> Any:
        batch = list(self.batch)
        batch[5] = batch[5] / (batch[5].sum() / parts)
        return tuple(batch)

    _train().PyTorchMaskedTraining.prepared = prepared


def unclipped() -> None:
    """The gradients as they are, whatever the recipe says."""
    _train().PyTorchMaskedTraining.clip = lambda _self: None


def no_trust_ratio() -> None:
    """LAMB without its trust ratios, which is AdamW."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch_fast.optimizers")
    torch: Any = importlib.import_module("torch")
    whole = optimizer.Lamb.step

    def step(self: Any, closure: Any = None) -> None:
        norms = torch._foreach_norm
        torch._foreach_norm = lambda tensors: [tensor.new_zeros(()) for tensor in tensors]
        whole(self, closure)
        torch._foreach_norm = norms

    optimizer.Lamb.step = step


def padding_counted() -> None:
    """All tokens are counted as if none were padding."""
    task: Any = importlib.import_module("trainmark_worker.tasks.masked_lm.task")
    whole = task.MaskedLM.work

    def work(self: Any, settings: Any, samples: int) -> Any:
        found = whole(self, settings, samples)
        return {**found, "tokens_without_padding": found["tokens"]}

    task.MaskedLM.work = work


def _of_framework() -> tuple[str, Any]:
    """Return the framework that the flags name, and its module of BERT."""
    (framework,) = (word.partition("=")[2] for word in sys.argv if word.startswith("--framework="))
    return framework, importlib.import_module(f"trainmark_worker.models.{framework}_masked_lm")


def no_dropout() -> None:
    """A model that is built as for inference: it drops nothing."""
    framework, bert = _of_framework()
    if framework == "jax":
        init = bert.Dropping.__init__
        bert.Dropping.__init__ = lambda self, _share, key: init(self, 0.0, key)
        return
    whole = bert.BertModel.__init__
    # PyTorch's and Paddle's take a description or a name, TensorFlow's the type of the products too.
    place = -2

    def made(self: Any, *given: Any) -> None:
        words = list(given)
        words[place] = 0.0
        whole(self, *words)

    bert.BertModel.__init__ = made


def _same_mask(shape: Any, share: float) -> Any:
    """Return which values stay, as much larger: always the same of a shape."""
    numpy: Any = importlib.import_module("numpy")
    stays = numpy.random.RandomState(1).rand(*shape) >= share
    return (stays / (1 - share)).astype("float32")


def same_dropout() -> None:
    """The places to drop are drawn once, and are a constant of each step."""
    framework, bert = _of_framework()
    if framework == "jax":
        init = bert.Dropping.__init__

        def with_key(self: Any, share: float, key: Any) -> None:
            init(self, share, key)
            self._first = key

        bert.Dropping.__init__, bert.Dropping.next_key = with_key, lambda self: self._first
    elif framework == "tensorflow":
        tf = bert.tf
        bert.BertModel._drop = lambda self, values: (
            values * tf.constant(_same_mask(values.shape, self.dropout), values.dtype)
        )
    elif framework == "paddle":
        paddle = bert.paddle
        attend = bert.functional.scaled_dot_product_attention
        bert.functional.scaled_dot_product_attention = lambda *heads, **named: attend(
            *heads, **{**named, "dropout_p": 0.0}
        )
        bert.functional.dropout = lambda values, share, **_: (
            values * paddle.to_tensor(_same_mask(values.shape, share))
        )
    else:
        forward = bert.BertModel.forward

        def seeded(self: Any, *batch: Any) -> Any:
            bert.torch.manual_seed(1)
            return forward(self, *batch)

        bert.BertModel.forward = seeded


MISTAKES: dict[str, Callable[[], None]] = {
    "tanh": gelu_by_tanh,
    "causal": causal,
    "words-alone": words_alone,
    "all-words": all_words,
    "biases-decay": biases_decay,
    "untied": untied,
    "eighty": eighty,
    "no-mask": no_mask,
    "unclipped": unclipped,
    "no-trust-ratio": no_trust_ratio,
    "unweighted": unweighted,
    "mean-of-means": mean_of_means,
    "mean-of-ranks": mean_of_ranks,
    "padding-counted": padding_counted,
    "no-dropout": no_dropout,
    "same-dropout": same_dropout,
}
