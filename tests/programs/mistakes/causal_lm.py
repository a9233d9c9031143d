"""Those by which language models of the same name, and their optimizers, really differ."""

import importlib
import sys
from collections.abc import Callable
from typing import Any


def _model() -> Any:
    return importlib.import_module("trainmark_worker.models.pytorch_decoders")


def _training() -> Any:
    return importlib.import_module("trainmark_worker.models.pytorch_causal_lm").PyTorchLanguageTraining


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
    mlp, functional = _model().GptMlp, _model().functional
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
    training: Any = importlib.import_module("trainmark_worker.tasks.causal_lm.training")
    training.LanguageTraining.decays = lambda _self, _name: True


def decay_in_the_gradient() -> None:
    """Adam with an L2 penalty, as torch's Adam has it, and not AdamW."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch_fast.optimizers")
    optimizer.torch.optim.AdamW = optimizer.torch.optim.Adam


def another_second_moment() -> None:
    """The default of most libraries, whatever the flag says."""
    optimizer: Any = importlib.import_module("trainmark_worker.pytorch_fast.optimizers")
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


def scale_too_large() -> None:
    """No mistake: the loss scale begins so high that the first steps overflow, and are left out as they should be."""
    training: Any = importlib.import_module("trainmark_worker.backends.pytorch.backend")
    amp: Any = importlib.import_module("torch.amp")
    training.PyTorchTraining.scaler_kind = lambda *_, **__: amp.GradScaler("cpu", init_scale=2.0**40)


def _llama() -> Any:
    return importlib.import_module("trainmark_worker.models.pytorch_decoders")


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


def _to_bf16(values: Any) -> Any:
    """Return values of FP32 with the digits of BF16."""
    return values.bfloat16().float()


def moment_in_bf16() -> None:
    """Adam's first moment in half the memory, as optimizers of 16 bits have it."""
    (framework,) = (word.partition("=")[2] for word in sys.argv if word.startswith("--framework="))
    backend: Any = importlib.import_module(f"trainmark_worker.backends.{framework}.backend")
    if framework == "jax":
        optax = backend.optax
        whole = optax.scale_by_adam
        optax.scale_by_adam = lambda *betas: whole(*betas, mu_dtype=backend.jnp.bfloat16)
    elif framework == "tensorflow":
        apply = backend.AdamW.apply
        tf = backend.tf

        def applied(self: Any, *given: Any) -> None:
            apply(self, *given)
            for first in self.first:
                first.assign(tf.cast(tf.cast(first, tf.bfloat16), tf.float32))

        backend.AdamW.apply = applied
    else:
        training = _training()
        whole_step = training._whole_step

        def step(self: Any, batch: Any) -> Any:
            loss = whole_step(self, batch)
            for state in self.optimizer.state.values():
                state["exp_avg"].copy_(_to_bf16(state["exp_avg"]))
            return loss

        training._whole_step = step


def weights_in_bf16() -> None:
    """Each update is stored in BF16, where FP32 is asked for."""
    training = _training()
    whole_step = training._whole_step

    def step(self: Any, batch: Any) -> Any:
        loss = whole_step(self, batch)
        for weight in self.model.parameters():
            weight.data.copy_(_to_bf16(weight.data))
        return loss

    training._whole_step = step


def gradients_in_bf16() -> None:
    """A block's backward pass computes the gradients of its products' weights in BF16, in a run of FP32."""
    init = _model().GptMlp.__init__

    def made(self: Any, model: Any) -> None:
        init(self, model)
        self.up.weight.register_hook(_to_bf16)

    _model().GptMlp.__init__ = made


def packed_crossing() -> None:
    """Plain causal attention, as a program attends that concatenates documents and masks nothing."""
    decoders = _model()
    torch = decoders.torch

    def mask_of(documents: Any) -> Any:
        length = documents.shape[1]
        return torch.ones(length, length, dtype=torch.bool).tril().expand(len(documents), 1, -1, -1)

    decoders.mask_of = mask_of


def packed_positions() -> None:
    """Positions of the sequence, and not of its documents."""
    decoders = _model()
    whole = decoders.starts_of

    def starts_of(documents: Any) -> tuple[Any, Any]:
        begins, positions = whole(documents)
        return begins, decoders.torch.arange(positions.shape[1]).expand_as(positions)

    decoders.starts_of = starts_of


def packed_counted() -> None:
    """A loss that counts every token, with those of padding."""
    training: Any = importlib.import_module("trainmark_worker.models.pytorch_causal_lm")
    training.predicted = lambda documents: documents[:, 1:] >= 0


MISTAKES: dict[str, Callable[[], None]] = {
    "packed-crossing": packed_crossing,
    "packed-positions": packed_positions,
    "packed-counted": packed_counted,
    "tanh": gelu_by_tanh,
    "no-mask": no_mask,
    "dropout": dropout,
    "untied": untied,
    "norms-decay": norms_decay,
    "decay-in-the-gradient": decay_in_the_gradient,
    "second-moment": another_second_moment,
    "parts-summed": parts_are_summed,
    "part-left-out": a_part_is_left_out,
    "scale-too-large": scale_too_large,
    "llama-neighbours": llama_neighbours,
    "llama-unscaled": llama_unscaled,
    "llama-heads-in-turn": llama_heads_in_turn,
    "llama-gelu": llama_gelu,
    "llama-layer-norm": llama_layer_norm,
    "moment-in-bf16": moment_in_bf16,
    "weights-in-bf16": weights_in_bf16,
    "gradients-in-bf16": gradients_in_bf16,
}
