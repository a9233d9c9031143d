"""The language worker with one mistake in it, for tests that must see it: ``mutated_language.py MISTAKE FLAG…``.

The mistakes are those by which language models of the same name, and optimizers, really differ.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"))
start = importlib.import_module("start")


def _model() -> Any:
    return importlib.import_module("trainmark_worker.pytorch.causal_lm.model")


def _training() -> Any:
    return importlib.import_module("trainmark_worker.pytorch.causal_lm.train").PyTorchLanguageTraining


def gelu_by_tanh() -> None:
    """As OpenAI's GPT-2 and most published copies have it."""
    functional = _model().functional
    whole = functional.gelu
    functional.gelu = lambda x: whole(x, approximate="tanh")


def no_mask() -> None:
    """As BERT attends."""
    functional = _model().functional
    whole = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = lambda *heads, **_: whole(*heads)


def dropout() -> None:
    """As GPT-2 was trained at first, behind each perceptron."""
    mlp, functional = _model().Mlp, _model().functional
    whole = mlp.forward
    mlp.forward = lambda self, x: functional.dropout(whole(self, x), 0.1)


def untied() -> None:
    """A classifier of its own, which begins as the embedding is."""
    model: Any = _model()
    whole, forward = model.GptModel.__init__, model.functional.linear

    def init(self: Any, description: Any) -> None:
        whole(self, description)
        self.classifier = model.nn.Parameter(self.tokens.weight.detach().clone())

    def logits(self: Any, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return forward(self.norm(x), self.classifier)

    model.GptModel.__init__, model.GptModel.logits = init, logits
    shared = model.GptModel.named_tensors
    model.GptModel.named_tensors = lambda self: {
        name: tensor for name, tensor in shared(self).items() if name != "classifier"
    }
    # The worker asserts the number when it builds the model; here the check itself must find it.
    architectures: Any = importlib.import_module("trainmark_worker.tasks.causal_lm.architectures")
    counted = architectures.Gpt.parameters
    architectures.Gpt.parameters = lambda self: counted(self) + self.vocabulary * self.width


def norms_decay() -> None:
    """One group of parameters, as an optimizer has them when nobody divides them."""
    training: Any = importlib.import_module("trainmark_worker.pytorch.causal_lm.train")
    training.is_norm = lambda _name: False


def decay_in_the_gradient() -> None:
    """Adam with an L2 penalty, as torch's Adam has it, and not AdamW."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch.optimizer")
    optimizer.torch.optim.AdamW = optimizer.torch.optim.Adam


def another_second_moment() -> None:
    """The default of most libraries, whatever the flag says."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch.optimizer")
    whole = optimizer.torch.optim.AdamW

    def made(groups: Any, **named: Any) -> Any:
        return whole(groups, **{**named, "betas": (named["betas"][0], 0.999)})

    made.__name__ = "AdamW"
    optimizer.torch.optim.AdamW = made


def parts_are_summed() -> None:
    """Each part's loss as if it were the whole batch's: the gradients of the parts are added and not averaged."""
    training = _training()

    def passed(self: Any) -> Any:
        total = 0.0
        parts = self.batch[0].split(self.settings.part)
        self._passed = [part.shape for part in parts]
        for part in parts:
            loss = self.network(part)
            loss.backward()
            total = total + loss.detach() / self.parts
        return total

    training._pass = passed


def a_part_is_left_out() -> None:
    """The gradients of the first part are cleared before the second is passed."""
    training = _training()

    def passed(self: Any) -> Any:
        parts = self.batch[0].split(self.settings.part)
        self._passed = [part.shape for part in parts]
        for part in parts:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.network(part)
            loss.backward()
        return loss.detach()

    training._pass = passed


def ranks_are_summed() -> None:
    """The gradients of all ranks added up, as an all-reduce without its division does."""
    distributed: Any = importlib.import_module("torch.distributed")
    gradients: Any = importlib.import_module("trainmark_worker.pytorch.gradients")

    def all_reduce(_self: Any, buffer: Any) -> None:
        distributed.all_reduce(buffer)

    gradients.InOnePiece._all_reduce = all_reduce


def scale_too_large() -> None:
    """No mistake: the loss scale begins so high that the first steps overflow, and are left out as they should be."""
    training: Any = importlib.import_module("trainmark_worker.pytorch.training")
    amp: Any = importlib.import_module("torch.amp")
    training.loss_scaler = lambda *_: amp.GradScaler("cpu", init_scale=2.0**40)


def _bert() -> Any:
    return importlib.import_module("trainmark_worker.pytorch.masked_lm.model")


def bert_causal() -> None:
    """As GPT attends."""
    functional = _bert().functional
    whole = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = lambda *heads, **named: whole(*heads, **named, is_causal=True)


def bert_words_alone() -> None:
    """As RoBERTa is trained: no next sentence."""
    bert = _bert()

    def forward(self: Any, *batch: Any) -> Any:
        found, told = self.heads(*batch[:4])
        words, weights = batch[4].flatten(), batch[5].flatten()
        losses = bert.functional.cross_entropy(found.flatten(0, 1), words, reduction="none")
        return (losses * weights).sum() + 0 * told.sum()

    bert.BertModel.forward = forward


def bert_all_words() -> None:
    """The loss of every position, hidden or not: those that were not hidden are to be what they are."""
    bert = _bert()
    torch: Any = importlib.import_module("torch")
    whole = bert.BertModel.forward

    def forward(
        self: Any,
        tokens: Any,
        segments: Any,
        lengths: Any,
        places: Any,
        words: Any,
        weights: Any,
        follows: Any,
    ) -> Any:
        everywhere = torch.arange(tokens.shape[1]).expand_as(tokens)
        alike = torch.full(tokens.shape, 1 / tokens.numel())
        given = (everywhere, tokens.scatter(1, places, words), alike)
        return whole(self, tokens, segments, lengths, *given, follows)

    bert.BertModel.forward = forward


def bert_biases_decay() -> None:
    """One group of parameters."""
    training: Any = importlib.import_module("trainmark_worker.pytorch.masked_lm.train")
    training.decays = lambda _name: True


def bert_untied() -> None:
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


def bert_eighty() -> None:
    """Eighty words of a sequence are classified, whatever was asked for: those asked for, four times."""
    bert = _bert()
    whole = bert.BertModel.forward

    def forward(
        self: Any,
        tokens: Any,
        segments: Any,
        lengths: Any,
        places: Any,
        words: Any,
        weights: Any,
        follows: Any,
    ) -> Any:
        more = (given.repeat(1, 4) for given in (places, words, weights / 4))
        return whole(self, tokens, segments, lengths, *more, follows)

    bert.BertModel.forward = forward


def bert_no_mask() -> None:
    """Padding is attended to, as where a mask is built and not handed on."""
    functional = _bert().functional
    whole = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = lambda *heads, **named: whole(
        *heads, **{**named, "attn_mask": None}
    )


def bert_unweighted() -> None:
    """The mean over all places, also over those that hold no word."""
    training: Any = importlib.import_module("trainmark_worker.pytorch.masked_lm.train")
    whole = training.PyTorchMaskedTraining.prepared

    def prepared(self: Any, parts: int) -> Any:
        batch = list(self.batch)
        batch[5] = batch[5] * 0 + 1
        self.batch = tuple(batch)
        return whole(self, parts)

    training.PyTorchMaskedTraining.prepared = prepared


def bert_mean_of_means() -> None:
    """Each part's mean over its own words, as most programs have it: words of short sequences count for more."""
    training: Any = importlib.import_module("trainmark_worker.pytorch.masked_lm.train")

    def prepared(self: Any, parts: int) -> Any:
        batch = list(self.batch)
        weights = batch[5].unflatten(0, (parts, -1))
        batch[5] = (weights / weights.sum((1, 2), keepdim=True)).flatten(0, 1)
        return tuple(batch)

    training.PyTorchMaskedTraining.prepared = prepared


def bert_unclipped() -> None:
    """The gradients as they are, whatever the recipe says."""
    _training().clip = lambda _self: None


def bert_no_trust_ratio() -> None:
    """LAMB without its trust ratios, which is AdamW."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch.optimizer")
    torch: Any = importlib.import_module("torch")
    whole = optimizer.Lamb.step

    def step(self: Any, closure: Any = None) -> None:
        norms = torch._foreach_norm
        torch._foreach_norm = lambda tensors: [tensor.new_zeros(()) for tensor in tensors]
        whole(self, closure)
        torch._foreach_norm = norms

    optimizer.Lamb.step = step


def _llama() -> Any:
    return importlib.import_module("trainmark_worker.pytorch.causal_lm.llama")


def llama_neighbours() -> None:
    """As Meta's own program pairs the columns, with weights that are not in its order."""
    llama = _llama()

    def turned(x: Any, angles: Any) -> Any:
        cosines, sines = (table.chunk(2, dim=-1)[0] for table in angles)
        first, second = x[..., ::2], x[..., 1::2]
        pairs = (first * cosines - second * sines, second * cosines + first * sines)
        return llama.torch.stack(pairs, dim=-1).flatten(-2)

    llama.turned = turned


def llama_unscaled() -> None:
    """The rotation of Llama 3.0, before its context was made longer."""
    rotation: Any = importlib.import_module("trainmark_worker.tasks.causal_lm.architectures").Rotation
    rotation.frequencies = lambda self, pairs: [self.base ** (-pair / pairs) for pair in range(pairs)]


def llama_heads_in_turn() -> None:
    """Keys and values are repeated as a whole, and not each of their heads."""
    llama = _llama()
    torch = llama.torch
    torch.Tensor.repeat_interleave = lambda self, group, dim: torch.cat([self] * group, dim=dim)


def llama_gelu() -> None:
    """GEGLU."""
    functional = _llama().functional
    functional.silu = functional.gelu


def llama_layer_norm() -> None:
    """Layer norms, which take the mean away."""
    functional = _llama().functional
    functional.rms_norm = lambda x, shape, weight, epsilon: functional.layer_norm(
        x, shape, weight, None, epsilon
    )


def own_losses() -> None:
    """No mistake: each rank prints the losses of its own batches."""
    training: Any = importlib.import_module("trainmark_worker.core.training").Training
    whole = training.losses

    def losses(self: Any) -> Any:
        sys.stdout.write(f"own losses {self.own_losses()}\n")
        return whole(self)

    training.losses = losses


def bert_padding_counted() -> None:
    """All tokens are counted as if none were padding."""
    task: Any = importlib.import_module("trainmark_worker.tasks.masked_lm.task")
    whole = task.MaskedLM.work

    def work(self: Any, settings: Any, samples: int) -> Any:
        found = whole(self, settings, samples)
        return {**found, "tokens_without_padding": found["tokens"]}

    task.MaskedLM.work = work


MISTAKES: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "tanh": gelu_by_tanh,
    "no-mask": no_mask,
    "dropout": dropout,
    "untied": untied,
    "norms-decay": norms_decay,
    "decay-in-the-gradient": decay_in_the_gradient,
    "second-moment": another_second_moment,
    "parts-summed": parts_are_summed,
    "part-left-out": a_part_is_left_out,
    "ranks-summed": ranks_are_summed,
    "scale-too-large": scale_too_large,
    "bert-tanh": gelu_by_tanh,
    "bert-causal": bert_causal,
    "bert-words-alone": bert_words_alone,
    "bert-all-words": bert_all_words,
    "bert-biases-decay": bert_biases_decay,
    "bert-untied": bert_untied,
    "bert-eighty": bert_eighty,
    "bert-no-mask": bert_no_mask,
    "llama-neighbours": llama_neighbours,
    "llama-unscaled": llama_unscaled,
    "llama-heads-in-turn": llama_heads_in_turn,
    "llama-gelu": llama_gelu,
    "llama-layer-norm": llama_layer_norm,
    "own-losses": own_losses,
    "bert-unclipped": bert_unclipped,
    "bert-no-trust-ratio": bert_no_trust_ratio,
    "bert-unweighted": bert_unweighted,
    "bert-mean-of-means": bert_mean_of_means,
    "bert-padding-counted": bert_padding_counted,
}

if __name__ == "__main__":
    MISTAKES[sys.argv[1]]()
    program: Any = importlib.import_module("trainmark_worker.core.program")
    sys.exit(program.main(sys.argv[2:]))
