"""Verification of the update of the weights after the window, by the formulas of SGD and of adaptive optimizers.

Of SGD the velocity before the step, v = (w_0 - w_1) / l, follows from the weights around the step before. With each
rank's own gradient g, computed without any exchange and averaged here and not by the framework, the step must be

    w_1 - w_2 = l (m v + g + d w_1)        with l, m, d the requested rate, momentum and decay

on elements sampled from every parameter. The best-fitting rate and momentum are reported.

Of an adaptive optimizer the gradient that went into an update, and its rate, are solved. The optimizer's own moments
are read before the step and after it. The first moment must have moved by (1 - b1) g: a sum in the place of the mean
shows there, which the update itself would not show, since an adaptive optimizer divides it away. Where the recipe clips
gradients, g is clipped. From the moments before and that g follows the direction a, and the weights must have moved by
l (a + d w). Of LAMB each parameter that decays must have moved by norm(w) / norm(a + d w) of that. Those norms are of
the whole parameter, with a of the moments after the step: they need no gradient, and are checked with dropout too.
"""

import math
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .optimizers import Moments, adam, clipping, direction_of
from .precision import FP32
from .settings import LAMB, AdamRecipe, Settings
from .task import Arrays, Verified
from .training import Training

SAMPLED, ELEMENTS = 32, 4096  # elements of each parameter, if gradients must be exchanged, and if not
ROUNDING = 2.0**-24  # of FP32, relative to the value
EXACT, ROUNDED = (0.02, 0.1), (0.25, 0.6)  # how far factors and residual may be off, in FP32 and if rounded
# A rate or momentum that deviates by NOTICEABLE explains the update if it leaves less than this part of the rest:
# two computations of a gradient in 16 bits differ by noise, which makes the fitted rate too small.
EXPLAINED, NOTICEABLE = 0.5, 0.01
FINEST = 1e-4  # the part of an update that two gradients in 16 bits leave at least
FEWEST = 16  # elements: two factors fit fewer by chance
# Allowed deviations of a decay, and of a trust ratio: weights and moments are of FP32, whatever the products.
UNSEEN_DECAY, TRUST_OFF = 0.005, 0.02
OBSERVABLE = 100 * ROUNDING  # a smaller update, in parts of the weights, is too near to rounding


def sampled(arrays: Arrays, name: str, elements: int = SAMPLED) -> Any:
    """Return elements of a parameter, the same of every array of its name, in float64."""
    values = np.asarray(arrays[name]).reshape(-1)
    return values[_drawn(name, values.size, elements)].astype(np.float64)


@cache
def _drawn(name: str, size: int, elements: int) -> Any:
    return np.random.RandomState(zlib.crc32(name.encode())).randint(0, size, elements)


class Unexplained(NamedTuple):
    """Elements of one parameter: its weights, and the update by the rate less what all but the decay explains."""

    weights: Any
    rest: Any


class WitnessedStep(NamedTuple):
    """A step after the window, and all that was read around it; values that could not be read are None."""

    training: Training
    settings: Settings  # the request, whatever the training has made of it
    rate: float
    weights: tuple[Arrays, Arrays, Arrays]  # before the step before, between both, and after this one
    moments: tuple[Moments | None, Moments | None]  # before and after this one
    alone: Any  # this rank's own pass of the step's batch
    mean: Arrays | None  # the sampled elements of the mean of all ranks' gradients
    moves: bool  # the step changes weights of FP32
    batches: tuple[Any, Any] = (None, None)  # of the step before and of this one, in numpy
    observed: Any = None  # the layers' observations

    @property
    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return [name for name in self.weights[1] if self.training.task.is_trainable(name)]

    @property
    def exact(self) -> bool:
        """Return whether products are computed in FP32."""
        return self.training.expected().compute == FP32

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.training.ranks.place.world_size

    def decay(self, name: str) -> float:
        """Return the requested decay of a parameter."""
        return self.training.task.decay(self.settings, name)


def averaged(training: Training, gradients: Arrays, names: Sequence[str]) -> dict[str, Any]:
    """Return the sampled elements of the gradients' mean over the ranks. All ranks call it."""
    own = np.concatenate([sampled(gradients, name) for name in names])
    mean = np.array(training.mean_over_ranks(own.tolist()))
    return dict(zip(names, np.split(mean, len(names))))


def check_update(step: WitnessedStep) -> tuple[Verified, dict[str, Unexplained]]:
    """Solve rate and momentum of the update and doubt others; return also, by parameter, what only decay explains."""
    recipe = step.settings.recipe
    found = Verified({"learning_rate_asked": step.rate, "momentum_asked": recipe.momentum})
    found.data.update(learning_rate=None, momentum=None, residual=None)
    unexplained: dict[str, Unexplained] = {}
    if isinstance(recipe, AdamRecipe):
        reason = _solve_adaptive(step, recipe, found.data, unexplained)
    else:
        reason = _solve_descent(step, found, unexplained)
    if reason is not None:
        sentence = f"The update after the window does not match the recipe and all ranks' batches: {reason}."
        found.doubt("update-differs", sentence)
    return found, unexplained


def _summed(step: WitnessedStep, times: float) -> str | None:
    """Return the reason for a doubt if gradients count ``times`` as a sum over the ranks does."""
    if step.ranks > 1 and abs(times / step.ranks - 1) <= (EXACT if step.exact else ROUNDED)[0]:
        return f"the gradients of the {step.ranks} ranks are summed instead of averaged"
    return None


def _solve_descent(step: WitnessedStep, found: Verified, unexplained: dict[str, Unexplained]) -> str | None:
    """Add what a step of SGD, with or without momentum, shows to ``found``; return why it differs, or None."""
    if step.mean is None:
        return None
    requested = step.settings.recipe.momentum
    for name in step.names:
        before, between, after, gradients = _elements(step, name, ELEMENTS)
        rest = (between - after - requested * (before - between)) / step.rate - gradients
        unexplained[name] = Unexplained(between, rest)
    equations = _equations(step)
    if not equations:
        return None
    terms, decays, update, accuracy = (np.concatenate(column) for column in zip(*equations))
    (of_velocity, rate), *_ = np.linalg.lstsq(terms * accuracy[:, None], update * accuracy, rcond=None)

    def left(*factors: float, weight: Any = accuracy) -> float:
        return _part_left(update * weight, terms @ factors * weight)

    as_requested = requested * step.rate, step.rate
    residual = left(*as_requested, weight=1.0)
    momentum = float(of_velocity / rate) if rate else None
    times = rate / step.rate
    off, most_left = EXACT if step.exact else ROUNDED
    decay = _more_decay(terms, decays, update, residual)
    differs = abs(times - 1) > NOTICEABLE or (momentum is not None and abs(momentum - requested) > NOTICEABLE)
    if decay is not None:
        reason: str | None = f"parameters decay by {decay:.2g} more than was requested"
    elif differs and left(of_velocity, rate) < EXPLAINED * left(*as_requested):
        reason = _descent_differs(step, times, momentum, residual, NOTICEABLE)
    elif step.exact and not (residual <= most_left and abs(times - 1) <= off):
        reason = _descent_differs(step, times, momentum, residual, off)
    else:
        reason = None
    # A vague fit neither confirms the recipe nor explains the update by another one: its noise is too large.
    vague = bool(differs and reason is None)
    found.data.update(learning_rate=float(rate), momentum=momentum, residual=residual, fit_is_vague=vague)
    return reason


def _elements(step: WitnessedStep, name: str, most: int) -> tuple[Any, Any, Any, Any]:
    """Return elements of a parameter's weights, before, between and after the steps, and of its gradient.

    A single rank's gradients are those of its own pass, of which all elements are known, and ``most`` are returned.
    """
    assert step.mean is not None
    elements = most if step.ranks == 1 else SAMPLED
    before, between, after = (sampled(weights, name, elements) for weights in step.weights)
    gradients = sampled(step.alone.gradients, name, elements) if elements > SAMPLED else step.mean[name]
    return before, between, after, gradients


def _equations(step: WitnessedStep) -> list[tuple[Any, Any, Any, Any]]:
    """Return the equations of each parameter, divided by the size of its update.

    They are the terms of the update, velocity and gradient (n, 2), ``_more_decay``'s columns (n, 2), the update (n,),
    and the accuracy (n,), 1 in FP32: a gradient in 16 bits is noise in some layers and nearly exact in the
    classifier's bias.
    """
    found = []
    for name in step.names:
        before, weights, after, gradients = _elements(step, name, SAMPLED if step.exact else ELEMENTS)
        size = _size(weights - after)
        # An update that FP32 rounds away does not show the added value.
        if size < 1e3 * ROUNDING * _size(weights) or size == 0:
            continue
        decay, none, update = step.decay(name), np.zeros_like(weights), (weights - after) / size
        terms = np.stack([(before - weights) / step.rate, gradients + decay * weights], axis=1) / size
        decays = np.stack([weights, none] if decay > 0 else [none, weights], axis=1) / size
        accuracy = 1.0
        if not step.exact and np.asarray(step.weights[1][name]).size >= FEWEST:
            # The inverse of what the parameter's own best factors leave of its update.
            factors, *_ = np.linalg.lstsq(terms, update, rcond=None)
            accuracy = 1 / max(_part_left(update, terms @ factors), FINEST)
        found.append((terms, decays, update, np.full(len(update), accuracy)))
    return found


def _descent_differs(
    step: WitnessedStep, times: float, momentum: float | None, residual: float, least: float
) -> str:
    """Return why the update differs; its rate is ``times`` the requested one, another one from ``least`` on."""
    requested = step.settings.recipe.momentum
    if (summed := _summed(step, times)) is not None:
        return summed
    if momentum is not None and abs(times - 1) <= least < abs(momentum - requested):
        return f"the momentum is {momentum:.3g} instead of {requested:.3g}"
    if abs(times - 1) > least:
        return f"the gradients count {times:.3g} times as much as with the learning rate"
    return f"{residual:.0%} of it is unexplained"


def _more_decay(terms: Any, decays: Any, update: Any, residual: float) -> float | None:
    """Return the excess of the decay over the requested one, if it explains the rest of the update.

    ``decays`` are the weights: one column for parameters with weight decay, one for those without.
    """
    whole = np.concatenate([terms, decays], axis=1)
    factors, *_ = np.linalg.lstsq(whole, update, rcond=None)
    if not factors[1] or _part_left(update, whole @ factors) >= EXPLAINED * residual:
        return None
    more = max(factors[2:] / factors[1], key=abs)
    return float(more) if abs(more) >= UNSEEN_DECAY else None


def _solve_adaptive(
    step: WitnessedStep, recipe: AdamRecipe, found: dict[str, Any], unexplained: dict[str, Unexplained]
) -> str | None:
    """Add what a step of Adam, AdamW or LAMB shows to ``found``; return why it differs, or None."""
    (moments, later), mean = step.moments, step.mean
    ratios: dict[str, float] = {}
    trusted = None
    if step.moves and recipe.optimizer == LAMB and later is not None:
        ratios, found["trust_ratio_off"], trusted = _trusted(step, recipe, later)
    if moments is None or later is None or mean is None:
        return trusted
    # What a lazy optimizer leaves alone has a gradient of 0.
    is_lazy = step.training.task.is_lazy
    requested_of = {
        name: mean[name] != 0 if is_lazy(step.settings, name) else np.ones_like(mean[name], bool)
        for name in step.names
    }
    factor = _gradients_count(recipe.momentum, mean, requested_of, moments, later)
    clipped = recipe.clip_norm is not None
    if factor is None and (clipped or not any(gradients.any() for gradients in mean.values())):
        return None
    clip = _clip(step, recipe, factor or 0.0, moments, later)
    factor = factor / clip if factor is not None and clip > 0 else factor
    terms, updates = [], []
    for name, own in requested_of.items():
        _, weights, after = (sampled(arrays, name) for arrays in step.weights)
        ratio = ratios.get(name, 1.0)
        past = sampled(moments.first, name), sampled(moments.second, name)
        direction, _, _ = adam(mean[name] * clip, *past, moments.steps + 1, recipe)
        term = direction + step.decay(name) * weights
        moved = (weights - after) / (step.rate * ratio)
        unexplained[name] = Unexplained(weights[own], (moved - direction)[own])
        terms.append((term * ratio)[own])
        updates.append((weights - after)[own])
    term, update = np.concatenate(terms), np.concatenate(updates)
    if not term.any() or not update.any():
        return None
    rate = float(update @ term / (term @ term))
    residual = _part_left(update, rate * term)
    explains = residual < EXPLAINED * _part_left(update, step.rate * term)
    found.update(learning_rate=rate, residual=residual, gradient_factor=factor)
    if clipped:
        found["clip_factor"] = clip
    # That a ratio is missing says more than what it makes of rate and residual.
    return trusted or _adaptive_differs(step, 1.0 if factor is None else factor, rate, residual, explains)


def _clip(step: WitnessedStep, recipe: AdamRecipe, factor: float, moments: Moments, later: Moments) -> float:
    """Return by what the mean of all ranks' gradients was to be clipped, if it counts ``factor`` times.

    Of several ranks none knows the norm of the mean. It is then that of what went into the first moment, divided by
    the factor. Of a model that is observed by rows that norm is not known, and the factor is believed, up to 1.
    """
    norm, retained = recipe.clip_norm, recipe.momentum
    if step.ranks == 1:
        return clipping(step.alone.gradients, recipe, getattr(step.alone, "norm", None))
    if norm is None:
        return 1.0
    if step.training.sampled_share() < 1:
        return min(factor, 1.0)
    past = np.float32(retained)
    given = [np.ravel(later.first[name] - past * moments.first[name]) for name in step.names]
    size = float(np.sqrt(sum(float(values @ values) for values in given))) / (1 - retained)
    return min(1.0, norm * factor / size) if size and factor > 0 else 1.0


def _gradients_count(
    retained: float, mean: Arrays, own_of: Arrays, moments: Moments, later: Moments
) -> float | None:
    """Return how many times the gradients went into the first moment; None if all are below its rounding.

    A batch that is learned by heart leaves gradients that are smaller than the rounding of the moments.
    """
    added, expected = [], []
    for name, own in own_of.items():
        size, past = _size(mean[name]), sampled(moments.first, name)
        if size * (1 - retained) > OBSERVABLE * _size(past):
            gained = sampled(later.first, name) - retained * past
            added.append(gained[own] / (1 - retained) / size)
            expected.append(mean[name][own] / size)
    if not added:
        return None
    given, real = np.concatenate(added), np.concatenate(expected)
    return float(given @ real / (real @ real))


def _adaptive_differs(
    step: WitnessedStep, factor: float, rate: float, residual: float, explains: bool
) -> str | None:
    """Return why the update differs; ``explains``: the fitted rate leaves much less of it than the requested one."""
    off, most_left = EXACT if step.exact else ROUNDED
    if (summed := _summed(step, factor)) is not None:
        return summed
    if step.ranks > 1 and abs(factor * step.ranks - 1) <= off:
        return f"the mean of the {step.ranks} ranks' gradients is divided by {step.ranks} once more"
    if abs(factor - 1) > off:
        return f"the gradients count {factor:.3g} times"
    if abs(rate / step.rate - 1) > (NOTICEABLE if explains else off):
        return f"the learning rate is {rate:.3g} and not {step.rate:.3g}"
    return f"{residual:.0%} of it is something else" if residual > most_left else None


def _trusted(
    step: WitnessedStep, recipe: AdamRecipe, later: Moments
) -> tuple[dict[str, float], float | None, str | None]:
    """Return the trust ratios, how far the worst is off, in parts, and the reason for a doubt, if there is one.

    LAMB multiplies the direction of a whole parameter that decays by its ratio: You et al.,
    https://arxiv.org/abs/1904.00962; it is 1 of what does not decay, as in the authors' program. It is compared with
    what of the direction the drawn elements of the parameter moved by.
    """
    _, before, after = step.weights
    ratios: dict[str, float] = {}
    factors: dict[str, float] = {}
    for name in step.names:
        decay, ratios[name] = step.decay(name), 1.0
        if not decay:
            continue
        arrays = (values[name] for values in (before, later.first, later.second))
        own, first, second = (np.asarray(array, np.float32).ravel() for array in arrays)
        direction = direction_of(first, second, later.steps, recipe) + np.float32(decay) * own
        norms = float(np.linalg.norm(own)), float(np.linalg.norm(direction))
        if all(norms):
            ratios[name] = norms[0] / norms[1]
        weights, moments = sampled(before, name), (sampled(later.first, name), sampled(later.second, name))
        moved = weights - sampled(after, name)
        if _size(moved) > OBSERVABLE * _size(weights):
            term = direction_of(*moments, later.steps, recipe) + decay * weights
            factors[name] = float(moved @ term) / float(term @ term) / step.rate if term.any() else 0.0
    if not factors:
        return ratios, None, None
    offs = {name: abs(factor / ratios[name] - 1) for name, factor in factors.items()}
    worst = max(offs, key=lambda name: offs[name])
    wrong = sum(off > TRUST_OFF for off in offs.values())
    reason = (
        f"the trust ratio of {wrong} of {len(offs)} parameters is another than LAMB's, "
        f"{factors[worst]:.3g} and not {ratios[worst]:.3g} in {worst}"
    )
    return ratios, offs[worst], reason if wrong else None


def _size(values: Any) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(values**2)))


def _part_left(update: Any, explained: Any) -> float:
    """Return the size of what ``explained`` leaves of the update, as a part of the update's."""
    left = update - explained
    return math.sqrt(float(left @ left) / float(update @ update))
