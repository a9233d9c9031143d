"""Changes of the PyTorch worker."""

import importlib
from types import MethodType
from typing import Any

import torch
from torch import nn


def batch_norm_evaluates(training: Any) -> None:
    """As after a validation that nobody ended."""
    training.model.eval()


def forward_only(training: Any) -> None:
    """A loss, and nothing else."""

    def train(index: int) -> None:
        training._loss_of[index].copy_(training._forward()[1].detach())

    training.train = train


def frozen_stem(training: Any) -> None:
    """As in fine-tuning."""
    next(iter(training.model.parameters())).requires_grad_(False)


def frozen_scale(training: Any) -> None:
    """Of a batch norm, which no decay moves."""
    training.named_tensors()["block10.pointwise.bn.weight"].requires_grad_(False)


def sixteen_bits(training: Any) -> None:
    """BF16, whatever was asked for."""
    training.autocast = torch.autocast("cpu", dtype=torch.bfloat16)


def middle_convolution(training: Any) -> Any:
    """Return a depthwise convolution at a third of the network."""
    layers = [module for module in training.model.modules() if isinstance(module, nn.Conv2d)]
    return layers[len(layers) // 3]


def one_layer(training: Any) -> None:
    """One convolution, in the middle, in BF16."""
    layer = middle_convolution(training)
    forward = layer.forward

    def rounded(inputs: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return forward(inputs)

    layer.forward = rounded


def one_layer_within(training: Any) -> None:
    """The same, with its output turned back into the type of all others."""
    one_layer(training)
    layer = middle_convolution(training)
    forward = layer.forward
    layer.forward = lambda inputs: forward(inputs).to(inputs.dtype)


def gradients_summed(training: Any) -> None:
    """The all-reduce's sum, which nobody divided."""
    average, ranks = training.exchange.average, training.ranks.place.world_size

    def summed() -> None:
        average()
        for parameter in training.model.parameters():
            parameter.grad.mul_(ranks)

    training.exchange.average = summed


def no_all_reduce(training: Any) -> None:
    """Each rank on its own."""
    training.network, training.exchange.average = training.model, lambda: None


def momentum(training: Any) -> None:
    """That of another recipe."""
    for group in training.optimizer.param_groups:
        group["momentum"] = 0.5


def decay(training: Any) -> None:
    """A lot of it, of everything."""
    for group in training.optimizer.param_groups:
        group["weight_decay"] = 0.1


def no_smoothing(training: Any) -> None:
    """The default of the loss."""
    training.loss = nn.CrossEntropyLoss()


def half_the_batch(training: Any) -> None:
    """The rest is passed forward for nothing."""
    loss = training.loss
    training.loss = lambda logits, labels: loss(logits[: len(logits) // 2], labels[: len(labels) // 2])


def logits_in_bf16(training: Any) -> None:
    """Rounded before the loss, and the loss as well."""
    loss = training.loss
    training.loss = lambda logits, labels: loss(logits.bfloat16(), labels)


def some_updates_left_out(training: Any) -> None:
    """Every fifth step passes its batch and updates nothing."""
    train, step = training.train, training.optimizer.step

    def most(index: int) -> None:
        training.optimizer.step = (lambda: None) if index % 5 == 4 else step
        train(index)

    training.train = most


def constant_rate(training: Any) -> None:
    """The recipe's, without a warm-up."""
    training.rates = [training.settings.recipe.learning_rate] * len(training.rates)


def rate_ignored(training: Any) -> None:
    """The recipe's rate is set in the step, whatever the schedule says."""
    rate = training.settings.recipe.learning_rate
    whole = training._whole_step

    def at_full_rate(batch: Any) -> Any:
        for group in training.optimizer.param_groups:
            group["lr"] = rate
        return whole(batch)

    training._whole_step = at_full_rate


def no_decay(training: Any) -> None:
    """As with an optimizer's default."""
    for group in training.optimizer.param_groups:
        group["weight_decay"] = 0.0


def norms_decay(training: Any) -> None:
    """One group of parameters."""
    decay = max(group["weight_decay"] for group in training.optimizer.param_groups)
    for group in training.optimizer.param_groups:
        group["weight_decay"] = decay


def classifier_not_decayed(training: Any) -> None:
    """It is in the other group."""
    first, second = training.optimizer.param_groups
    own = {id(weight) for weight in classifier_of(training)}
    moved = [weight for weight in first["params"] if id(weight) in own]
    first["params"] = [weight for weight in first["params"] if id(weight) not in own]
    second["params"] = [*second["params"], *moved]


def classifier_of(training: Any) -> list[Any]:
    (classifier,) = (module for module in training.model.modules() if isinstance(module, nn.Linear))
    return list(classifier.parameters())


def _with_loss(training: Any, loss: Any) -> None:
    """Let a language model compute its loss by ``loss(logits, targets)``."""
    model = training.model
    model.forward = lambda tokens: loss(model.logits(tokens[:, :-1]), tokens[:, 1:])


def half_the_tokens(training: Any) -> None:
    """The second half of each sequence alone, as for an answer behind its question."""

    def loss(logits: Any, targets: Any) -> Any:
        half = targets.shape[1] // 2
        return nn.functional.cross_entropy(
            logits[:, half:].flatten(0, 1).float(), targets[:, half:].flatten()
        )

    _with_loss(training, loss)


def tokens_in_bf16(training: Any) -> None:
    """Logits and loss."""
    _with_loss(
        training,
        lambda logits, targets: nn.functional.cross_entropy(
            logits.flatten(0, 1).bfloat16(), targets.flatten()
        ).float(),
    )


def nesterov(training: Any) -> None:
    """Another momentum of the same name."""
    for group in training.optimizer.param_groups:
        group["nesterov"] = True


def half_the_rate(training: Any) -> None:
    """Divided where it is set."""
    whole = training._whole_step

    def at_half(batch: Any) -> Any:
        for group in training.optimizer.param_groups:
            group["lr"] = group["lr"] / 2
        return whole(batch)

    training._whole_step = at_half


def rate_a_fifth_higher(training: Any) -> None:
    """Multiplied where it is set."""
    whole = training._whole_step

    def at_more(batch: Any) -> Any:
        for group in training.optimizer.param_groups:
            group["lr"] = group["lr"] * 1.2
        return whole(batch)

    training._whole_step = at_more


def momentum_of_another_recipe(training: Any) -> None:
    """The usual 0.9 in place of 0.875."""
    for group in training.optimizer.param_groups:
        group["momentum"] = 0.9


def gradients_clipped(training: Any) -> None:
    """To a norm of 0.1, as for a language model."""
    training.clip = lambda: nn.utils.clip_grad_norm_(training.model.parameters(), 0.1)


def relu6() -> None:
    """An activation with a bound."""
    nn.ReLU = nn.ReLU6


# Those of the network and the step: the equivalence check trains with them too.


def gradient_stops(training: Any) -> None:
    """The first block is passed without a graph, as a frozen backbone is; its weights only decay."""
    norms = [module for module in training.model.modules() if isinstance(module, nn.BatchNorm2d)]
    norms[2].register_forward_hook(lambda _module, _given, output: output.detach() + 0 * output)


def block_left_out(training: Any) -> None:
    """The eighth block hands its input on: its parameters are there, and no part of the network."""
    convolutions = [module for module in training.model.modules() if isinstance(module, nn.Conv2d)]
    norms = [module for module in training.model.modules() if isinstance(module, nn.BatchNorm2d)]
    for layers in (convolutions, norms):
        for layer in layers[15:17]:
            layer.forward = lambda given, layer=layer: given + 0 * sum(p.sum() for p in layer.parameters())


def scale_too_large(training: Any) -> None:
    """No mistake: the batch after the window has gradients that overflow at the scale of the window's steps."""
    own_pass = training.own_pass

    def enlarged() -> Any:
        training.own_pass = own_pass
        training.scaler._scale.fill_(2.0**18)
        return own_pass()

    training.own_pass = enlarged


def dropout(training: Any) -> None:
    """Half of the features before the classifier."""
    (classifier,) = (module for module in training.model.modules() if isinstance(module, nn.Linear))
    forward = classifier.forward
    classifier.forward = lambda features: forward(nn.functional.dropout(features, 0.5))


def accumulated(training: Any) -> None:
    """Every second step updates, by the sum of two steps' gradients."""
    train, optimizer = training.train, training.optimizer
    step, zero = optimizer.step, optimizer.zero_grad

    def every_second(index: int) -> None:
        updates = index % 2 == 1
        optimizer.step = step if updates else lambda *_: None
        optimizer.zero_grad = zero if updates else lambda **_: None
        train(index)

    training.train = every_second


def half_the_gradient(training: Any) -> None:
    """The reported loss is the recipe's, and half of it is passed backward."""
    loss = training.loss

    def halved(*given: Any) -> Any:
        whole = loss(*given)
        return whole / 2 + (whole / 2).detach()

    training.loss = halved


def half_the_sequence(training: Any) -> None:
    """The second half of each sequence is cut off, and counted."""
    model = training.model
    forward = model.forward
    model.forward = lambda tokens: forward(tokens[:, : tokens.shape[1] // 2 + 1])


def half_the_vocabulary(training: Any) -> None:
    """The softmax of half of the words."""

    def loss(logits: Any, targets: Any) -> Any:
        words = logits.shape[-1] // 2
        cut = logits[..., :words].flatten(0, 1).float()
        return nn.functional.cross_entropy(cut, targets.flatten() % words)

    _with_loss(training, loss)


def half_the_predictions(training: Any) -> None:
    """The first half of the hidden words of each sequence."""
    model = training.model
    forward = model.forward

    def halved(*given: Any) -> Any:
        tokens, segments, lengths, places, words, weights, follows = given
        half = places.shape[1] // 2
        places, words, weights = places[:, :half], words[:, :half], 2 * weights[:, :half]
        return forward(tokens, segments, lengths, places, words, weights, follows)

    model.forward = halved


def shared_rows(training: Any) -> None:
    """Each column's categories are looked up modulo ten."""
    forward = training.model.table.forward
    training.model.table.forward = lambda categories: forward(categories % 10)


def accumulated_in_bf16(_training: Any) -> None:
    """Each product adds its terms one after another in BF16, as a kernel without a wider accumulator does."""

    def linear(given: Any, weight: Any, bias: Any = None) -> Any:
        given, weight = given.bfloat16(), weight.bfloat16()
        total = given[..., :1] * weight[:, 0]
        for column in range(1, weight.shape[1]):
            total = total + given[..., column : column + 1] * weight[:, column]
        return total if bias is None else total + bias.bfloat16()

    nn.functional.linear = linear


def products_in_bf16(_training: Any) -> None:
    """Products of FP32 matrices on hardware for BF16, which adds in FP32, as a switch of PyTorch's allows."""
    plain = nn.functional.linear

    def linear(given: Any, weight: Any, bias: Any = None) -> Any:
        return plain(given.bfloat16().float(), weight.bfloat16().float(), bias)

    nn.functional.linear = linear


# Equal work: changes that no witness may refuse.


def other_convolutions(_training: Any) -> None:
    """PyTorch's own kernels instead of oneDNN's."""
    torch.backends.mkldnn.enabled = False


def deterministic(_training: Any) -> None:
    """Deterministic algorithms only."""
    torch.use_deterministic_algorithms(True)


def update_by_hand(training: Any) -> None:
    """SGD's step as its formula, a parameter at a time."""

    def step(optimizer: Any, *_: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for weight in group["params"]:
                    gradient = weight.grad + group["weight_decay"] * weight
                    state = optimizer.state[weight]
                    velocity = state.get("momentum_buffer")
                    velocity = gradient if velocity is None else group["momentum"] * velocity + gradient
                    state["momentum_buffer"] = velocity
                    weight.sub_(group["lr"] * velocity)

    # With the hooks of an optimizer's step, as a class of its own has them.
    hooked = torch.optim.Optimizer.profile_hook_step(step)
    training.optimizer.step = MethodType(hooked, training.optimizer)


def loss_by_hand(training: Any) -> None:
    """Smoothed cross entropy written out."""
    smoothing = training.settings.recipe.label_smoothing

    def loss(logits: Any, labels: Any) -> Any:
        log = logits.float().log_softmax(1)
        own = log.gather(1, labels[:, None]).squeeze(1)
        return -((1 - smoothing) * own + smoothing * log.mean(1)).mean()

    training.loss = loss


def attention_by_hand(_training: Any) -> None:
    """Attention as products and a softmax, with a causal mask."""

    def attention(query: Any, key: Any, value: Any, *_: Any, is_causal: bool = False, **__: Any) -> Any:
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if is_causal:
            ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(ahead, float("-inf"))
        return scores.softmax(-1) @ value

    nn.functional.scaled_dot_product_attention = attention


def gelu_by_hand(_training: Any) -> None:
    """GELU as its formula."""
    nn.functional.gelu = lambda x, *_, **__: x * (1 + torch.erf(x / 2**0.5)) / 2


LATER = {
    "batch-norm-evaluates": batch_norm_evaluates,
    "forward-only": forward_only,
    "frozen-stem": frozen_stem,
    "frozen-scale": frozen_scale,
    "another-type": sixteen_bits,
    "one-layer": one_layer,
    "one-layer-within": one_layer_within,
    "gradients-summed": gradients_summed,
    "no-all-reduce": no_all_reduce,
    "momentum": momentum,
    "decay": decay,
    "no-smoothing": no_smoothing,
    "half-the-batch": half_the_batch,
    "logits-in-bf16": logits_in_bf16,
    "updates-left-out": some_updates_left_out,
    "constant-rate": constant_rate,
    "rate-ignored": rate_ignored,
    "no-decay": no_decay,
    "half-the-tokens": half_the_tokens,
    "nesterov": nesterov,
    "half-the-rate": half_the_rate,
    "rate-a-fifth-higher": rate_a_fifth_higher,
    "momentum-of-another-recipe": momentum_of_another_recipe,
    "gradients-clipped": gradients_clipped,
    "tokens-in-bf16": tokens_in_bf16,
    "norms-decay": norms_decay,
    "classifier-not-decayed": classifier_not_decayed,
}
OPENED = {
    "accumulated-in-bf16": accumulated_in_bf16,
    "products-in-bf16": products_in_bf16,
    "gradient-stops": gradient_stops,
    "block-left-out": block_left_out,
    "scale-too-large": scale_too_large,
    "dropout": dropout,
    "accumulated": accumulated,
    "half-the-gradient": half_the_gradient,
    "half-the-sequence": half_the_sequence,
    "half-the-vocabulary": half_the_vocabulary,
    "half-the-predictions": half_the_predictions,
    "shared-rows": shared_rows,
    "other-convolutions": other_convolutions,
    "deterministic": deterministic,
    "update-by-hand": update_by_hand,
    "loss-by-hand": loss_by_hand,
    "attention-by-hand": attention_by_hand,
    "gelu-by-hand": gelu_by_hand,
}


def half_copied() -> None:
    """Half of each part of a batch is decoded, and copied into the other half."""
    loading: Any = importlib.import_module("trainmark_worker.backends.pytorch.loading")
    whole = loading.PhotoBatches.__getitems__

    def halved(self: Any, draws: Any) -> Any:
        pixels, labels = whole(self, draws[: len(draws) // 2])
        return torch.cat([pixels, pixels]), torch.cat([labels, labels])

    loading.PhotoBatches.__getitems__ = halved


BEFORE = {"relu6": relu6, "half-copied": half_copied}
