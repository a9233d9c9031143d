"""Verification of losses, weight decay and learning rates against the recipe.

The formula of the loss is the task's (``Task.plain_loss``): in numpy and float64, from the outputs of this rank's own
pass at the weights before the step, and without a line that the verified loss has. Where a parameter's gradient follows
from the outputs alone, as that of the classifier's bias does, it verifies the own pass too. The schedule is written
here once more. For dropout and for documents the timed function trains some more steps, at a rate of 0.
``docs/explanation/verification.md`` describes what each of them shows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .settings import AdamRecipe, Recipe, Settings
from .task import PlainLoss, Verified
from .training import DROPOUT_STEPS, ISOLATION_STEPS, WITNESS_STEPS, Training, steps_after_window
from .update_checks import Unexplained

# The allowed deviations in FP32, and with products of fewer bits: of a loss, relative to it; of a loss that a known
# mistake explains; and of a gradient that follows from the outputs, relative to its norm.
EXACT, ROUNDED = (5e-4, 5e-5, 0.02), (0.03, 3e-3, 0.4)
NOTICED = 0.1  # a known mistake explains a deviation if it leaves less than this part of it
LOSS_TYPE = "float32"  # of every built-in model's loss, and of its logits, in every precision
# The largest relative difference of losses that rounding explains, and so many times that of two equal steps is noise.
# Dropout changes a sample's loss by some percent, and so the mean of 65 536 samples by some 1e-4: that four such losses
# lie within the last bits of a number of FP32 has a chance below 1e-7.
SAME, NOISE = 2.0**-22, 4.0
# A deviation of fewer standard errors, or of a smaller part of the recipe's decay, is no doubt; a decay must be known
# within that part to be checked.
STANDARD_ERRORS, PART = 6.0, 0.5
OWN_GROUPS = {"classifier": "the classifier", "embedding": "the embedding"}
DECAYED, UNDECAYED = "the other parameters that decay", "the parameters that do not decay"
OFF = 1e-6  # the allowed deviation of a rate, relative to the recipe's


def check_loss(training: Training, settings: Settings, batch: Sequence[Any] | None, alone: Any) -> Verified:
    """Check the loss of the last step that moved the weights by its own pass (``alone``). All ranks must call it."""
    types = getattr(alone, "loss_types", None)
    found = Verified({"loss_types": None if types is None else dict(types)})
    if types is None:
        found.not_checked.append("types of logits and loss")
    elif other := next((name for name, kind in types.items() if kind != LOSS_TYPE), None):
        found.doubt("loss-type-differs", f"The {other} is computed in {types[other]}, not in {LOSS_TYPE}.")
    plain = None if batch is None or alone is None else training.task.plain_loss(settings, batch, alone)
    taken = training.losses()[settings.steps + WITNESS_STEPS - 1]
    if plain is not None:
        means = training.mean_over_ranks([plain.loss, *plain.mistakes.values()])
        # Gradients stay this rank's.
        plain = plain._replace(loss=means[0], mistakes=dict(zip(plain.mistakes, means[1:])))
    # A loss that is not finite has a doubt already (``loss-not-finite``).
    if plain is None or not (math.isfinite(taken) and math.isfinite(plain.loss)):
        found.not_checked.append("loss")
        found.data.update(loss=None, loss_asked=None, targets_in_loss=None)
        return found
    allowed, noticed, allowed_of_gradient = EXACT if training.expected().full_fp32 else ROUNDED
    off, scale = abs(taken - plain.loss), max(abs(plain.loss), 1e-3)
    reason = f"it is off by {off / scale:.2g}" if off > scale * allowed else None
    explaining = [mistake for mistake, loss in plain.mistakes.items() if abs(taken - loss) < NOTICED * off]
    if explaining and off > scale * noticed:
        reason = explaining[0]
    if reason is not None:
        found.doubt(
            "loss-differs",
            f"The loss of a step after the window is {taken:.6g}, but the recipe's formula gives {plain.loss:.6g} "
            f"for its batch: {reason}.",
        )
    found.data.update(loss=taken, loss_asked=plain.loss, targets_in_loss=None if reason else plain.targets)
    for name in [] if reason else [name for name in plain.gradients if name in alone.gradients]:
        gradient = plain.gradients[name]
        rest = np.asarray(alone.gradients[name], np.float64).reshape(gradient.shape) - gradient
        part = float(np.linalg.norm(rest) / (np.linalg.norm(gradient) or 1.0))
        if part > allowed_of_gradient:
            of = "from that of the recipe's loss on the same batch"
            found.doubt("loss-differs", f"The gradient of {name} is off by {part:.0%} {of}.")
    return found


def check_dropout(training: Training, settings: Settings) -> Verified:
    """Check that dropout drops other values in each step, if the recipe has it. All ranks must call it.

    The losses of steps on one batch, which change no weight, differ by the dropped values alone. They are equal if
    nothing is dropped, or the same in each step, as by a mask that was drawn once while the step was compiled.
    """
    share, batch = settings.dropout, training.batch
    if not share:
        return Verified()
    losses = _still_losses(training, settings.steps + WITNESS_STEPS, [batch] * DROPOUT_STEPS)
    found, largest = Verified({"dropout_losses": losses}), max(map(abs, losses))
    if not all(map(math.isfinite, losses)) or not largest:
        found.not_checked.append("dropout")
    elif max(losses) - min(losses) <= SAME * largest:
        found.doubt(
            "dropout-not-random",
            f"{DROPOUT_STEPS} steps on one batch and with the same weights have the same loss, {losses[0]:.6g}: "
            f"nothing is dropped, or always the same, but a dropout of {share:g} was requested.",
        )
    return found


def check_isolation(training: Training, settings: Settings) -> Verified:
    """Check that parts of a sample do not see each other, if it has such parts. All ranks must call it."""
    pair = training.task.unrelated(settings, training.ranks.place.rank) if settings.isolated else None
    if pair is None:
        return Verified()
    batches = [training.to_batch(*arrays) for arrays in (pair[0], *pair)]
    first_step = settings.steps + steps_after_window(settings) - ISOLATION_STEPS
    losses = _still_losses(training, first_step, batches)
    if not all(map(math.isfinite, losses)):
        return Verified({"isolation_losses": None}, not_checked=["isolation of documents"])
    first, again, other = losses
    found = Verified({"isolation_losses": losses})
    if abs(other - first) > SAME * abs(first) + NOISE * abs(again - first):
        found.doubt(
            "documents-not-isolated",
            f"The loss of a step is {first:.9g}, and {other:.9g} if only padding before its documents changes: "
            "attention crosses the borders of documents, or the loss counts padding.",
        )
    return found


def _still_losses(training: Training, first: int, batches: Sequence[Any]) -> list[float]:
    """Train steps from ``first`` on, at a rate of 0, and return the ranks' mean loss of each."""
    for index, batch in enumerate(batches, start=first):
        training.batch = batch
        training.train(index)
    training.synchronize()
    return training.losses()[first : first + len(batches)]


def cross_entropy(logits: Any, labels: Any, smoothing: float) -> PlainLoss:
    """Return the mean cross entropy of logits (batch, classes) with smoothed labels, and its mistakes.

    The gradient with respect to the classifier's bias is the mean of ``softmax(logits) - targets``.
    """
    values = np.asarray(logits, np.float64)
    batch, classes = values.shape
    values = values - values.max(axis=1, keepdims=True)
    sums = np.log(np.exp(values).sum(axis=1, keepdims=True))
    own = np.zeros_like(values)
    own[np.arange(batch), np.asarray(labels, np.int64)] = 1.0
    targets = (1 - smoothing) * own + smoothing / classes
    plain = -((values - sums) * own).sum(axis=1)
    smoothed = -((values - sums) * targets).sum(axis=1)
    mistakes = halves(smoothed)
    if smoothing:
        mistakes["it has no label smoothing"] = float(plain.mean())
    bias = (np.exp(values - sums) - targets).mean(axis=0)
    return PlainLoss(float(smoothed.mean()), batch, mistakes, {"classifier.bias": bias})


def binary_cross_entropy(logits: Any, labels: Any) -> PlainLoss:
    """Return the mean binary cross entropy of logits (batch,) with labels of 0 and 1, and its mistakes."""
    values, targets = np.asarray(logits, np.float64), np.asarray(labels, np.float64)
    losses = np.maximum(values, 0) - values * targets + np.log1p(np.exp(-np.abs(values)))
    return PlainLoss(float(losses.mean()), len(losses), halves(losses))


def halves(losses: Any) -> dict[str, float]:
    """Return the losses of a batch (batch, …) of which only a half counts."""
    half = len(losses) // 2
    parts = {"first": losses[:half], "second": losses[half:]} if half else {}
    return {
        f"it counts only the {which} half of the batch": float(part.mean()) for which, part in parts.items()
    }


def check_decay(training: Training, settings: Settings, parameters: Mapping[str, Unexplained]) -> Verified:
    """Estimate the decay of each group of parameters (None: unknown), and doubt another one than the recipe's.

    It does not show in the residual of an update, being a thousandth of it. But it changes all elements by the same
    share of their value, and the errors of the gradients do not. With products of 16 bits it is often not known.
    """
    requested, decay_of = settings.recipe.weight_decay, training.task.decay
    groups: dict[str, dict[str, Unexplained]] = {}
    for name, parameter in parameters.items():
        decays = decay_of(settings, name) > 0
        group = OWN_GROUPS.get(name.partition(".")[0], DECAYED) if decays else UNDECAYED
        groups.setdefault(group, {})[name] = parameter
    found = Verified({"decay": dict.fromkeys(sorted(groups))})
    for group, members in sorted(groups.items()):
        estimate = _estimate(members)
        if estimate is None or not requested or STANDARD_ERRORS * estimate[1] > PART * requested:
            continue
        (decay, error), expected = estimate, decay_of(settings, next(iter(members)))
        found.data["decay"][group] = decay
        if abs(decay - expected) > max(PART * requested, STANDARD_ERRORS * error):
            sentence = f"The weight decay of {group} is {decay:.2g} instead of {expected:.2g}."
            found.doubt("decay-differs", sentence)
    return found


def _estimate(members: Mapping[str, Unexplained]) -> tuple[float, float] | None:
    """Return the decay of a group, the mean of its parameters' weighted by their certainty, and its standard error.

    If they differ by more than their errors explain, the error of the mean is larger by that factor. An estimate's
    error is at least that by each element's residual without it (HC3: MacKinnon and White, "Some heteroskedasticity-
    consistent covariance matrix estimators", J. Econometrics 29, 1985).
    """
    estimates: list[tuple[float, float]] = []
    for weights, rest in members.values():
        square = float(weights @ weights)
        if len(weights) < 4 or not square > 0 or not bool(np.isfinite(rest).all()):
            continue
        decay = float(weights @ rest) / square
        left = rest - decay * weights
        error = math.sqrt(float(left @ left) / (len(weights) - 1) / square)
        # One weight that is far larger than the others decides the decay alone, and then leaves no residual.
        without_it = left / np.maximum(1 - weights**2 / square, 1e-9)
        error = max(error, math.sqrt(float((weights * without_it) @ (weights * without_it))) / square)
        if error > 0:
            estimates.append((decay, error))
    if not estimates:
        return None
    certainty = sum(error**-2 for _, error in estimates)
    mean = sum(decay * error**-2 for decay, error in estimates) / certainty
    spread = sum(((decay - mean) / error) ** 2 for decay, error in estimates)
    factor = math.sqrt(max(1.0, spread / max(1, len(estimates) - 1)))
    return mean, factor / math.sqrt(certainty)


def check_rates(training: Training, settings: Settings) -> Verified:
    """Report the rates of the first and the last measured step, and doubt a step with another rate."""
    recipe, rates = settings.recipe, training.rates[: settings.steps]
    found = Verified({"rates": {"first": rates[0], "last": rates[-1]}})
    epoch_steps = training.epoch_samples / (settings.batch_per_device * training.ranks.place.world_size)
    for step, rate in enumerate(rates):
        expected = scheduled_rate(recipe, step, epoch_steps)
        if abs(rate - expected) > OFF * abs(recipe.learning_rate):
            found.doubt(
                "rate-differs",
                f"The learning rate of step {step} is {rate:.3g}, but the recipe's schedule gives {expected:.3g}.",
            )
            break
    return found


def scheduled_rate(recipe: Recipe, step: int, epoch_steps: float) -> float:
    """Return the rate of a step: rising in the warm-up, then by the recipe's schedule; an epoch has ``epoch_steps``."""
    peak = recipe.learning_rate
    if isinstance(recipe, AdamRecipe) and step < recipe.warmup_updates:
        return peak / recipe.warmup_updates * step
    rising = round(epoch_steps * recipe.warmup_epochs)
    if step < rising:
        return peak / rising * (step + 1)
    epochs_done = step / epoch_steps
    if recipe.schedule == "cosine":
        falling = max(recipe.epochs - recipe.warmup_epochs, 1)
        angle = math.pi * min((epochs_done - recipe.warmup_epochs) / falling, 1.0)
        return peak * math.cos(angle / 2) ** 2
    if recipe.schedule == "linear":
        return peak * max(0.0, 1.0 - epochs_done / recipe.epochs)
    if recipe.schedule == "step":
        for milestone in (30, 60, 80):
            peak = peak / 10 if epochs_done >= milestone else peak
    return peak
