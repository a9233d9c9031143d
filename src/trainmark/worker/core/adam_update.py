"""The update of an adaptive optimizer after the window, solved: the gradient that went into it, and its rate.

The optimizer's own moments are read before the step and after it. The first moment must have moved by (1 - b1) g, with
g the mean of all ranks' own gradients, taken without any exchange: a sum in the place of the mean shows there, which
the update itself would not show, since an adaptive optimizer divides it away. Where the recipe clips gradients, g is
clipped. From the moments before and that g follows the direction a, and the weights must have moved by l (a + d w).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from .drawing import drawn
from .optimizers import Moments, adam
from .settings import LAMB, AdamRecipe
from .training import Training

EXACT, ROUNDED = (0.02, 0.1), (0.25, 0.6)
"""How far the gradients' factor and the rate, and the residual, may be off: in FP32, and where products are rounded."""


class AdamUpdate:
    """One step of an adaptive optimizer, on elements drawn from each parameter."""

    def __init__(
        self,
        training: Training,
        recipe: AdamRecipe,
        rate: float,
        before: Optional[Moments],
        clip: Optional[float],
    ) -> None:
        """Take the moments before the step, if the framework shows them; see ``clipping``.

        ``clip`` is None where it is not known: then the factor that the moments show is believed, up to 1.
        """
        self._clip = clip
        self._training, self._recipe, self._rate, self._moments = training, recipe, rate, before

    def solved(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        mean: Optional[Mapping[str, Any]],
        doubts: List[Tuple[str, str]],
    ) -> Dict[str, Any]:
        """Return the rate as the update shows it and what of it is unexplained; add a doubt where it is another.

        ``mean`` has the drawn elements of the gradients, averaged over the ranks.
        """
        import numpy as np

        moments, later = self._moments, self._training.read_moments()
        asked = {"learning_rate_asked": self._rate, "momentum_asked": self._recipe.momentum}
        unseen = {**asked, "learning_rate": None, "momentum": None, "residual": None}
        if moments is None or later is None or mean is None:
            return unseen
        task, settings, recipe = self._training.task, self._training.settings, self._recipe
        names = [name for name in before if task.is_trainable(name)]
        terms, updates, added, expected = [], [], [], []
        for name in names:
            size = float(np.sqrt(np.mean(mean[name] ** 2)))
            if size:
                gained = drawn(later.first, name) - recipe.momentum * drawn(moments.first, name)
                added.append(gained / (1 - recipe.momentum) / size)
                expected.append(mean[name] / size)
        if not added:
            return unseen
        given, real = np.concatenate(added), np.concatenate(expected)
        factor = float(given @ real / (real @ real))
        clipped = recipe.clip_norm is not None
        clip = 1.0 if not clipped else min(factor, 1.0) if self._clip is None else self._clip
        factor = factor / clip if clip > 0 else factor
        for name in names:
            weights, first = drawn(before, name), drawn(moments.first, name)
            direction, _, _ = adam(
                mean[name] * clip, first, drawn(moments.second, name), moments.steps + 1, recipe
            )
            decay, moved = task.decay(settings, name), weights - drawn(after, name)
            term = direction + decay * weights
            if recipe.optimizer == LAMB and decay and term.any():
                # Its factor is of all elements; here each parameter's own is what fits, and only the rest is a check.
                term = term * (float(moved @ term) / float(term @ term) / self._rate)
            terms.append(term)
            updates.append(moved)
        term, update = np.concatenate(terms), np.concatenate(updates)
        if not term.any() or not update.any():
            return unseen
        rate = float(update @ term / (term @ term))
        left = update - rate * term
        residual = float(np.sqrt((left @ left) / (update @ update)))
        off, most_left = EXACT if self._training.expected().compute_dtype == "float32" else ROUNDED
        ranks = self._training.ranks.place.world_size
        reason = None
        if ranks > 1 and abs(factor / ranks - 1) <= off:
            reason = f"the gradients of the {ranks} ranks are summed and not averaged"
        elif abs(factor - 1) > off:
            reason = f"the gradients count {factor:.3g} times"
        elif abs(rate / self._rate - 1) > off:
            reason = f"the learning rate is {rate:.3g} and not {self._rate:.3g}"
        elif residual > most_left:
            reason = f"{residual:.0%} of it is something else"
        if reason is not None:
            told = (
                f"The update after the window is not that of the recipe and of all ranks' batches: {reason}."
            )
            doubts.append(("update-differs", told))
        found = {**unseen, "learning_rate": rate, "residual": residual, "gradient_factor": factor}
        return {**found, "clip_factor": clip} if clipped else found
