"""Checks of the updates after the window: an adaptive optimizer's update, weight decay, and learning rates.

The learning rates are compared with the recipe's schedule, which is written here once more.

A decay of 3e-5 changes a weight a thousand times less than its gradient does, so that it does not show in the residual
of an update. But it changes all elements by the same share of their value, and the errors of the gradients do not:
over many elements its coefficient can be estimated, with a standard error. If that is too large, as often with
products of 16 bits, the decay is not checked.

Of an adaptive optimizer the gradient that went into an update, and its rate, are solved.
The optimizer's own moments are read before the step and after it. The first moment must have moved by (1 - b1) g, with
g the mean of all ranks' own gradients, taken without any exchange: a sum in the place of the mean shows there, which
the update itself would not show, since an adaptive optimizer divides it away. Where the recipe clips gradients, g is
clipped. From the moments before and that g follows the direction a, and the weights must have moved by l (a + d w).
Of LAMB each parameter that decays must have moved by norm(w) / norm(a + d w) of that. Those norms are of the whole
parameter, with a of the moments after the step: they need no gradient, and are checked with dropout too.
"""

import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .optimizers import Moments, adam
from .settings import LAMB, AdamRecipe, Recipe, Settings
from .training import Training

SAMPLED = 32
"""The number of sampled elements of each parameter."""


def sampled(arrays: Mapping[str, Any], name: str, elements: int = SAMPLED) -> Any:
    """Return elements of a parameter, the same of every array of its name, in float64."""
    import numpy as np

    values = np.asarray(arrays[name]).reshape(-1)
    random = np.random.RandomState(zlib.crc32(name.encode()))
    return values[random.randint(0, values.size, elements)].astype(np.float64)


def averaged(training: Training, gradients: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the sampled elements of the gradients' mean over the ranks. All ranks call it."""
    import numpy as np

    own = np.concatenate([sampled(gradients, name) for name in names])
    bits = list(struct.unpack(f"<{own.size}q", own.tobytes()))
    ranks = [np.frombuffer(struct.pack(f"<{own.size}q", *part)) for part in training.gather(bits)]
    mean = sum(ranks) / len(ranks)
    return dict(zip(names, np.split(mean, len(names))))


ELEMENTS = 4096
"""Elements that are sampled of each parameter where gradients need not be exchanged."""

STANDARD_ERRORS = 6.0
"""A deviation of fewer standard errors is no doubt."""

PART = 0.5
"""A deviation of a smaller part of the recipe's decay is no doubt; a decay must be known this well to be checked."""

OWN_GROUPS = {"classifier": "the classifier", "embedding": "the embedding"}
DECAYED, UNDECAYED = "the other parameters that decay", "the parameters that do not decay"


class Unexplained(NamedTuple):
    """Elements of one parameter: its weights, and the update by the rate less what all but the decay explains."""

    weights: Any
    rest: Any


class _Estimate(NamedTuple):
    decay: float
    error: float


def check_decay(
    training: Training, parameters: Mapping[str, Unexplained]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the estimated decay of each group of parameters for the events, and doubts; None if it is not known."""
    requested = training.settings.recipe.weight_decay
    groups: dict[str, dict[str, Unexplained]] = {}
    for name, parameter in parameters.items():
        groups.setdefault(_group(training, name), {})[name] = parameter
    found: dict[str, Any] = {}
    doubts: list[tuple[str, str]] = []
    for group, members in sorted(groups.items()):
        estimate = _estimate(members)
        if estimate is None or not requested or STANDARD_ERRORS * estimate.error > PART * requested:
            found[group] = None
            continue
        found[group] = estimate.decay
        expected = training.task.decay(training.settings, next(iter(members)))
        if abs(estimate.decay - expected) > max(PART * requested, STANDARD_ERRORS * estimate.error):
            sentence = f"The weight decay of {group} is {estimate.decay:.2g} instead of {expected:.2g}."
            doubts.append(("decay-differs", sentence))
    return {"decay": found}, doubts


def _group(training: Training, name: str) -> str:
    own = OWN_GROUPS.get(name.partition(".")[0])
    if training.task.decay(training.settings, name) <= 0:
        return UNDECAYED
    return own or DECAYED


def _estimate(members: Mapping[str, Unexplained]) -> "_Estimate | None":
    """Return the decay of a group: the mean of its parameters' estimates, weighted by their certainty.

    If they differ by more than their errors explain, the error of the mean is larger by that factor. An estimate's
    error is at least that by each element's residual without it (HC3: MacKinnon and White, "Some heteroskedasticity-
    consistent covariance matrix estimators", J. Econometrics 29, 1985).
    """
    import numpy as np

    estimates: list[_Estimate] = []
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
            estimates.append(_Estimate(decay, error))
    if not estimates:
        return None
    certainty = sum(one.error**-2 for one in estimates)
    decay = sum(one.decay * one.error**-2 for one in estimates) / certainty
    spread = sum(((one.decay - decay) / one.error) ** 2 for one in estimates)
    factor = math.sqrt(max(1.0, spread / max(1, len(estimates) - 1)))
    return _Estimate(decay, factor / math.sqrt(certainty))


OFF = 1e-6
"""The allowed deviation of a rate, relative to the recipe's."""


def check_rates(training: Training, settings: Settings) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the rates of the first and the last step for the events, and a doubt if a step has another rate."""
    recipe, steps = settings.recipe, settings.steps
    epoch_steps = training.epoch_samples / (settings.batch_per_device * training.ranks.place.world_size)
    rates = training.rates[:steps]
    report = {"first": rates[0], "last": rates[-1]}
    for step, rate in enumerate(rates):
        expected = scheduled_rate(recipe, step, epoch_steps)
        if abs(rate - expected) > OFF * abs(recipe.learning_rate):
            requested = f"but the recipe's schedule gives {expected:.3g}"
            sentence = f"The learning rate of step {step} is {rate:.3g}, {requested}."
            return {"rates": report}, [("rate-differs", sentence)]
    return {"rates": report}, []


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


EXACT, ROUNDED = (0.02, 0.1), (0.25, 0.6)
"""How far the fitted factors, and the residual, may be off: in FP32, and with rounded products."""

EXPLAINED = 0.5
"""Another rate or momentum explains the update if it leaves less than this part of what the requested one leaves.

Two computations of a gradient in 16 bits differ by noise, which makes the fitted rate too small.
"""

NOTICEABLE = 0.01
"""From this deviation on, a rate or momentum that explains the update better than the recipe's is a doubt."""

TRUST_OFF = 0.02
"""How far a trust ratio may be off, whatever the products' type: weights and moments are of FP32."""

OBSERVABLE = 100 * 2.0**-24
"""An update that is smaller, in parts of the weights, is too near to FP32's rounding to tell its factor."""


def _part_left(update: Any, explained: Any) -> float:
    """Return the size of what ``explained`` leaves of the update, as a part of the update's."""
    left = update - explained
    return math.sqrt(float(left @ left) / float(update @ update))


def noticeable(*found_and_requested: tuple[float | None, float]) -> bool:
    """Return whether a fitted factor is off from the requested one by more than ``NOTICEABLE``."""
    return any(
        found is not None and abs(found - wanted) > NOTICEABLE for found, wanted in found_and_requested
    )


class AdamUpdate:
    """One step of an adaptive optimizer, on elements drawn from each parameter."""

    def __init__(
        self,
        training: Training,
        recipe: AdamRecipe,
        rate: float,
        before: Moments | None,
        clip: float | None,
    ) -> None:
        """Take the moments before the step, if the framework shows them; see ``clipping``.

        ``clip`` is None where no rank knows it: then it follows from what went into the moments (``_clip_shown``).
        """
        self._clip = clip
        self._training, self._recipe, self._rate, self._moments = training, recipe, rate, before
        self.unexplained: dict[str, Unexplained] = {}
        """The part of the update that its direction does not explain, by parameter, after ``solved``."""

    def solved(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        mean: Mapping[str, Any] | None,
        moves: bool,
        doubts: list[tuple[str, str]],
    ) -> dict[str, Any]:
        """Return the rate as the update shows it and what of it is unexplained; add a doubt where it is another.

        ``mean`` has the drawn elements of the gradients, averaged over the ranks. ``moves``: the step was to change
        weights of FP32.
        """
        import numpy as np

        moments, later = self._moments, self._training.read_moments()
        requested = {"learning_rate_asked": self._rate, "momentum_asked": self._recipe.momentum}
        unseen = {**requested, "learning_rate": None, "momentum": None, "residual": None}
        task, settings, recipe = self._training.task, self._training.settings, self._recipe
        names = [name for name in before if task.is_trainable(name)]
        ratios: dict[str, float] = {}
        trusted = None
        if moves and recipe.optimizer == LAMB and later is not None:
            ratios, unseen["trust_ratio_off"], trusted = self._trusted(names, before, after, later)
        if moments is None or later is None or mean is None:
            _differs(trusted, doubts)
            return unseen
        # What a lazy optimizer leaves alone has a gradient of 0.
        requested_of = {
            name: mean[name] != 0 if task.is_lazy(settings, name) else np.ones_like(mean[name], bool)
            for name in names
        }
        factor = self._gradients_count(mean, requested_of, moments, later)
        clipped = recipe.clip_norm is not None
        if factor is None and (clipped or not any(gradients.any() for gradients in mean.values())):
            return unseen
        clip = self._clip_shown(factor or 0.0, names, moments, later) if self._clip is None else self._clip
        factor = factor / clip if factor is not None and clip > 0 else factor
        terms, updates = [], []
        self.unexplained.clear()
        for name in names:
            weights, own = sampled(before, name), requested_of[name]
            past = sampled(moments.first, name), sampled(moments.second, name)
            direction, _, _ = adam(mean[name] * clip, *past, moments.steps + 1, recipe)
            term = direction + task.decay(settings, name) * weights
            moved = (weights - sampled(after, name)) / (self._rate * ratios.get(name, 1.0))
            self.unexplained[name] = Unexplained(weights[own], (moved - direction)[own])
            terms.append((term * ratios.get(name, 1.0))[own])
            updates.append((weights - sampled(after, name))[own])
        term, update = np.concatenate(terms), np.concatenate(updates)
        if not term.any() or not update.any():
            return unseen
        rate = float(update @ term / (term @ term))
        residual = _part_left(update, rate * term)
        explains = residual < EXPLAINED * _part_left(update, self._rate * term)
        # That a ratio is missing says more than what it makes of rate and residual.
        _differs(trusted or self._what_is_wrong(factor, rate, residual, explains), doubts)
        found = {**unseen, "learning_rate": rate, "residual": residual, "gradient_factor": factor}
        return {**found, "clip_factor": clip} if clipped else found

    def _clip_shown(self, factor: float, names: Sequence[str], moments: Moments, later: Moments) -> float:
        """Return by what the mean of all ranks' gradients was to be clipped, if it counts ``factor`` times.

        Its norm is then that of what went into the first moment, divided by the factor. Of a model that is looked at by
        rows that norm is not known, and the factor is believed, up to 1.
        """
        import numpy as np

        norm, retained = self._recipe.clip_norm, self._recipe.momentum
        if norm is None:
            return 1.0
        if self._training.sampled_share() < 1:
            return min(factor, 1.0)
        given = [np.ravel(later.first[name] - np.float32(retained) * moments.first[name]) for name in names]
        size = float(np.sqrt(sum(float(values @ values) for values in given))) / (1 - retained)
        return min(1.0, norm * factor / size) if size and factor > 0 else 1.0

    def _gradients_count(
        self, mean: Mapping[str, Any], requested_of: Mapping[str, Any], moments: Moments, later: Moments
    ) -> float | None:
        """Return how many times the gradients went into the first moment; None if all are below its rounding.

        A batch that is learned by heart leaves gradients that are smaller than the rounding of the moments.
        """
        import numpy as np

        added, expected = [], []
        for name, own in requested_of.items():
            size = float(np.sqrt(np.mean(mean[name] ** 2)))
            past = float(np.sqrt(np.mean(sampled(moments.first, name) ** 2)))
            if size * (1 - self._recipe.momentum) > OBSERVABLE * past:
                gained = sampled(later.first, name) - self._recipe.momentum * sampled(moments.first, name)
                added.append(gained[own] / (1 - self._recipe.momentum) / size)
                expected.append(mean[name][own] / size)
        if not added:
            return None
        given, real = np.concatenate(added), np.concatenate(expected)
        return float(given @ real / (real @ real))

    def _what_is_wrong(
        self, counted: float | None, rate: float, residual: float, explains: bool
    ) -> str | None:
        """Return why the update differs; ``counted`` is how many times the gradients count, None if unknown.

        ``explains``: the fitted rate leaves much less unexplained than the requested one.
        """
        factor = 1.0 if counted is None else counted
        off, most_left = EXACT if self._training.expected().compute_dtype == "float32" else ROUNDED
        ranks = self._training.ranks.place.world_size
        if ranks > 1 and abs(factor / ranks - 1) <= off:
            return f"the gradients of the {ranks} ranks are summed instead of averaged"
        if ranks > 1 and abs(factor * ranks - 1) <= off:
            return f"the mean of the {ranks} ranks' gradients is divided by {ranks} once more"
        if abs(factor - 1) > off:
            return f"the gradients count {factor:.3g} times"
        if abs(rate / self._rate - 1) > (NOTICEABLE if explains else off):
            return f"the learning rate is {rate:.3g} and not {self._rate:.3g}"
        return f"{residual:.0%} of it is something else" if residual > most_left else None

    def _trusted(
        self, names: list[str], before: Mapping[str, Any], after: Mapping[str, Any], later: Moments
    ) -> tuple[dict[str, float], float | None, str | None]:
        """Return the trust ratios, how far the worst is off, in parts, and the reason for a doubt, if there is one.

        Of the drawn elements of each parameter, what of the direction it moved by is compared with its ratio.
        """
        import numpy as np

        task, settings = self._training.task, self._training.settings
        decays = {name: task.decay(settings, name) for name in names}
        ratios = {
            name: trust_ratio(before[name], later, name, decay, self._recipe)
            for name, decay in decays.items()
        }
        offs: dict[str, float] = {}
        factors: dict[str, float] = {}
        for name, ratio in ratios.items():
            decay, weights = decays[name], sampled(before, name)
            moved = weights - sampled(after, name)
            small = OBSERVABLE * float(np.sqrt(np.mean(weights**2)))
            if not decay or not float(np.sqrt(np.mean(moved**2))) > small:
                continue
            first, second = sampled(later.first, name), sampled(later.second, name)
            term = _direction(first, second, later.steps, self._recipe) + decay * weights
            factors[name] = float(moved @ term) / float(term @ term) / self._rate if term.any() else 0.0
            offs[name] = abs(factors[name] / ratio - 1)
        if not offs:
            return ratios, None, None
        worst = max(offs, key=lambda name: offs[name])
        wrong = sum(off > TRUST_OFF for off in offs.values())
        reason = (
            f"the trust ratio of {wrong} of {len(offs)} parameters is another than LAMB's, "
            f"{factors[worst]:.3g} and not {ratios[worst]:.3g} in {worst}"
        )
        return ratios, offs[worst], reason if wrong else None


def trust_ratio(weights: Any, moments: Moments, name: str, decay: float, recipe: AdamRecipe) -> float:
    """Return by what LAMB multiplies the direction of a whole parameter, from the ``moments`` after the step.

    You et al., https://arxiv.org/abs/1904.00962; 1 of what does not decay, as in the authors' program.
    """
    import numpy as np

    if not decay:
        return 1.0
    own = np.asarray(weights, np.float32).ravel()
    first, second = (
        np.asarray(retained[name], np.float32).ravel() for retained in (moments.first, moments.second)
    )
    direction = _direction(first, second, moments.steps, recipe) + np.float32(decay) * own
    norms = float(np.linalg.norm(own)), float(np.linalg.norm(direction))
    return norms[0] / norms[1] if all(norms) else 1.0


def _direction(first: Any, second: Any, steps: int, recipe: AdamRecipe) -> Any:
    """Return Adam's direction, from the moments after the step."""
    import numpy as np

    corrected = second / (1 - recipe.second_momentum**steps)
    return first / (1 - recipe.momentum**steps) / (np.sqrt(corrected) + recipe.epsilon)


def _differs(reason: str | None, doubts: list[tuple[str, str]]) -> None:
    if reason is not None:
        described = f"The update after the window does not match the recipe and all ranks' batches: {reason}."
        doubts.append(("update-differs", described))
