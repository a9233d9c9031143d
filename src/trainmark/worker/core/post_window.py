"""Verification of a run to its end: after the window, steps that are not timed are verified.

The timed function trains two more steps, at a part of the recipe's learning rate (``WITNESS_RATE``), on the run's own
ranks and data. The weights before and after the first give the resulting velocity, v = (w_0 - w_1) / l; then each
rank's own gradient g of the next batch is computed without any exchange, averaged here and not by the framework, and
the second step must be

    w_1 - w_2 = l (m v + g + d w_1)        with l, m, d the requested rate, momentum and decay

on elements sampled from every parameter. The best-fitting rate and momentum are reported. The velocity of an adaptive
optimizer does not follow from the weights: its moments are read before and after the second step instead
(``update_checks.py``). All of this runs after the window, and values that cannot be observed are null.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .dropout_check import check_dropout
from .isolation_check import check_isolation
from .loss_check import check_loss
from .optimizers import clipping
from .outcomes import first_sentence
from .sample_survey import survey_samples
from .settings import AdamRecipe, Settings
from .stored_digits import check_digits
from .training import WITNESS_STEPS, Training
from .update_checks import (
    ELEMENTS,
    EXACT,
    EXPLAINED,
    NOTICEABLE,
    ROUNDED,
    SAMPLED,
    AdamUpdate,
    Unexplained,
    averaged,
    check_decay,
    check_rates,
    noticeable,
    sampled,
)

ROUNDING = 2.0**-24
"""The rounding of FP32, relative to the value."""

UNSEEN_DECAY = 0.005
"""Another decay is reported from this difference on, if it leaves less than ``EXPLAINED`` of the residual."""

SWALLOWED = 4
"""A step of at most this many roundings may not change a parameter, because momentum may oppose the gradient."""

SCALED = ("amp-fp16", "fp16")

TRIED_OUT = (10, 0.05)
"""The steps that a loss scale may skip: a number, or a share of all steps.

Ten halvings reduce the initial scale of 2 ** 16 to 64; about every 2 000 steps a larger scale is tried.
"""

Doubts = list[tuple[str, str]]


class Verified(NamedTuple):
    """The content of ``after_window`` in the last event, and its doubts (codes and sentences)."""

    data: dict[str, Any]
    doubts: Doubts


def verify(training: Training, settings: Settings) -> Verified:
    """Train and verify ``WITNESS_STEPS`` steps after step ``settings.steps - 1``. All ranks must call it.

    Values that cannot be observed are null. A failure of the verification ends a run of several ranks, and is a doubt
    in a run of one rank.
    """
    try:
        return _verify(training, settings)
    except Exception as error:
        if training.ranks.place.world_size > 1:
            raise
        reason = first_sentence(error)
        sentence = f"The steps after the window could not be verified: {reason}"
        return Verified({"failed": reason}, [("not-witnessed", sentence)])


def _verify(training: Training, settings: Settings) -> Verified:
    import numpy as np

    doubts: Doubts = []
    data = _steps_taken(training, settings, doubts)
    first, second = range(settings.steps, settings.steps + WITNESS_STEPS)
    before, batch = training.sampled_weights(), training.read_batch()
    training.step(first)
    training.synchronize()
    between = training.sampled_weights()
    # After the fetch of the observed step's batch, whose pictures are observed too.
    last_batch = training.read_batch()
    changed = _changed(batch, last_batch)
    last_batch = _turned(training, settings, batch) or last_batch
    alone, reason = _own_pass(training)
    # A pass changes only running statistics.
    if (alone is not None or reason is not None) and not all(map(training.task.is_trainable, between)):
        training.load_weights(between)
    if reason is not None:
        data["own_pass_failed"] = reason
    moments = training.read_moments()
    observed = training.observed_step(second)
    training.synchronize()
    after = training.sampled_weights()

    data["batch_changed"] = None if settings.synthetic else changed
    if data["batch_changed"] is False:
        doubts.append(("batch-reused", "Two steps after the window were trained on the same batch."))
    whole = all(np.isfinite(array).all() for array in after.values())
    steps = [(before, between), (between, after)]
    skipped = _scale_may_overflow(settings) and any(_is_without_update(training, *step) for step in steps)
    moves = training.rates[second] > 0 and training.keeps_fp32_weights() and whole and not skipped
    names = [name for name in between if training.task.is_trainable(name)]
    mean = averaged(training, alone.gradients, names) if moves and alone is not None else None
    rate = training.rates[second]
    if moves:
        data.update(_stood_still(training, steps, rate, mean, doubts))
    else:
        data.update({"still": None, "statistics_move": None})
    solved, unexplained = _solve_update(
        training, settings, (before, between, after), mean, _BeforeStep(rate, moments, alone, moves), doubts
    )
    data.update(solved)
    if not any(code == "update-differs" for code, _ in doubts):
        _merge(data, doubts, check_decay(training, unexplained))
    if moves and batch is not None and last_batch is not None:
        _merge(data, doubts, training.task.rows(settings, (batch, last_batch), (before, between, after)))
    _merge(data, doubts, check_digits(training, settings, (between, after), moments, alone))
    _merge(data, doubts, _agreement(training))
    observed = observed or getattr(alone, "layers", None)
    _merge(data, doubts, training.task.verify_layers(settings, training.expected(), observed, alone))
    work = _check_work(training, settings, data, (batch, last_batch), alone)
    _merge(data, doubts, (work.data, work.doubts))
    path = _loader_path(training, settings)
    known = {code for code, _ in doubts}
    _merge(data, doubts, (path.data, [doubt for doubt in path.doubts if doubt[0] not in known]))
    return Verified(data, doubts)


class _BeforeStep(NamedTuple):
    """The rate of the verified step, the moments and this rank's own pass before it; ``moves``: it changes weights."""

    rate: float
    moments: Any
    alone: Any
    moves: bool


def _solve_update(
    training: Training,
    settings: Settings,
    weights: tuple[Any, Any, Any],
    mean: Mapping[str, Any] | None,
    step: _BeforeStep,
    doubts: Doubts,
) -> tuple[dict[str, Any], dict[str, Unexplained]]:
    """Return the events' data of the update between the last two of the ``weights``, and what only decay explains."""
    if isinstance(settings.recipe, AdamRecipe):
        clip = _clip(training, settings, step.alone)
        adam = AdamUpdate(training, settings.recipe, step.rate, step.moments, clip)
        return adam.solved(weights[1], weights[2], mean, step.moves, doubts), adam.unexplained
    update = _Update(training, settings, step.rate, *weights)
    return update.solved(mean, doubts), update.unexplained(mean, step.alone)


def _check_work(
    training: Training, settings: Settings, found: Mapping[str, Any], batches: Sequence[Any], alone: Any
) -> Verified:
    """Verify the loss of the last step and the samples; ``found`` are the observations so far."""
    loss, doubts, not_checked = check_loss(
        training, settings, batches[-1], alone, settings.steps + WITNESS_STEPS - 1
    )
    dropout, random, unknown_dropout = check_dropout(training, settings)
    samples, more, others = survey_samples(training, settings, batches)
    isolation, mixed, unknown_isolation = check_isolation(training, settings)
    decays = found.get("decay") or {"": None}
    unknown = settings.recipe.weight_decay and any(decay is None for decay in decays.values())
    updates = ["updates"] if found["updates_taken"] is None else []
    updates += ["weight decay"] if unknown else []
    updates += ["update"] if found.get("learning_rate") is None else []
    updates += ["rate and momentum of the update"] if found.get("fit_is_vague") else []
    updates += ["gradients of the update"] if found.get("gradient_factor", 1.0) is None else []
    rates, wrong = check_rates(training, settings)
    not_checked = [*updates, *not_checked, *unknown_dropout, *others, *unknown_isolation]
    data = {**rates, **loss, **dropout, **isolation, "samples": samples, "not_checked": not_checked}
    return Verified(data, [*wrong, *doubts, *random, *more, *mixed])


def _clip(training: Training, settings: Settings, alone: Any) -> float | None:
    """Return the clipping factor of a single rank; with several ranks, no rank knows the norm of the mean."""
    if alone is None or training.ranks.place.world_size > 1:
        return None
    return clipping(alone.gradients, settings.recipe, getattr(alone, "norm", None))


def _agreement(training: Training) -> tuple[dict[str, Any], Doubts]:
    """Return whether several ranks have the same parameters."""
    if training.ranks.place.world_size == 1:
        return {}, []
    agree = len({values[0] for values in training.gather([training.digest()])}) == 1
    sentence = "After one more step the ranks have different parameters."
    return {"ranks_agree": agree}, [] if agree else [("ranks-disagree-later", sentence)]


def _merge(data: dict[str, Any], doubts: Doubts, more: tuple[dict[str, Any], Doubts]) -> None:
    data.update(more[0])
    doubts += more[1]


def _turned(training: Training, settings: Settings, batch: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """Train on another batch from now on, if all steps had one synthetic batch and the task has another."""
    if batch is None or not settings.synthetic:
        return None
    other = training.task.another(settings, batch)
    if other is not None:
        training.set_batch(*other)
    return None if other is None else tuple(other)


def _steps_taken(training: Training, settings: Settings, doubts: Doubts) -> dict[str, Any]:
    """Return the framework's own count of steps; an optimizer does not count steps that it skips after an overflow."""
    taken, requested = training.steps_taken(), settings.steps
    few, part = TRIED_OUT
    if taken is None or not _scale_may_overflow(settings):
        may_be = taken in (None, requested)
        skipped: dict[str, Any] = {}
    elif not training.COUNTS_UPDATES:
        may_be, skipped = taken == requested, {"steps_skipped": None}
    else:
        may_be = 0 < taken <= requested
        skipped = {"steps_skipped": requested - taken}
        if may_be and (requested - taken > max(few, part * requested) or 2 * taken < requested):
            count = requested - taken
            sentence = (
                f"{count} of {requested} steps overflowed and were skipped: their updates took no time."
            )
            doubts.append(("steps-skipped", sentence))
    if not may_be:
        sentence = f"{requested} steps were requested, but {taken} were taken."
        doubts.append(("steps-not-taken", sentence))
    updates = training.updates_taken()
    fewest = requested - (max(few, int(part * requested)) if _scale_may_overflow(settings) else 0)
    if updates is not None and may_be and updates < fewest:
        sentence = f"{requested} steps were requested, but the optimizer made {updates} updates."
        doubts.append(("steps-not-taken", sentence))
    share = training.sampled_share()
    skipped["updates_taken"] = updates
    return {"steps_taken": taken, **skipped, **({"sampled_share": share} if share < 1 else {})}


def _loader_path(training: Training, settings: Settings) -> Verified:
    """Return the loaders' outputs for a known sample: rank 0's observations, and the doubts of all ranks."""
    if settings.synthetic:
        return Verified({}, [])
    doubts: Doubts = []
    try:
        described = training.loader_path()
        if described is not None:
            doubts += described[1]
        data = None if described is None else described[0]
    except Exception as error:
        data = {"failed": first_sentence(error)}
        sentence = f"The loader's output for a known sample could not be verified: {data['failed']}"
        doubts.append(("not-witnessed", sentence))
    ranks = [values[0] for values in training.gather([len(doubts)])]
    others = [rank for rank, count in enumerate(ranks) if count]
    if others and not doubts:
        doubts.append(
            ("loader-differs", f"The output of the loaders of ranks {others} for a known sample is in doubt.")
        )
    return Verified({"loader_path": data}, doubts)


def _scale_may_overflow(settings: Settings) -> bool:
    """Return whether the loss scale is dynamic, so that a step that overflows is correctly skipped."""
    return settings.precision in SCALED and settings.recipe.loss_scale is None


def _is_without_update(training: Training, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    trainable = [name for name in before if training.task.is_trainable(name)]
    return all(bool((before[name] == after[name]).all()) for name in trainable)


def _own_pass(training: Training) -> tuple[Any, str | None]:
    """Return the pass of this rank's batch alone, or why a rank has none (it may need more memory than a step)."""
    alone, reason = None, None
    try:
        alone = training.own_pass()
    except Exception as error:
        reason = first_sentence(error)
    done = [values[0] for values in training.gather([int(reason is None)])]
    if all(done):
        return alone, None
    return None, reason or f"rank {done.index(0)} could not do it"


def _changed(one: Any | None, other: Any | None) -> bool | None:
    if one is None or other is None:
        return None
    return any(a.shape != b.shape or bool((a != b).any()) for a, b in zip(one, other))


def _stood_still(
    training: Training, steps: list[Any], rate: float, mean: Mapping[str, Any] | None, doubts: Doubts
) -> dict[str, Any]:
    """Return the parameters that a step did not change, and whether running statistics changed in both.

    ``mean`` has the sampled elements of the gradients: a step smaller than rounding may leave a parameter unchanged.
    """
    is_trainable = training.task.is_trainable
    unchanged = [
        [name for name in after if bool((before[name] == after[name]).all())] for before, after in steps
    ]
    names = sorted({name for one in unchanged for name in one})
    weights = steps[-1][0]
    still = [
        name
        for name in names
        if is_trainable(name) and not _is_rounded_away(training, name, weights, rate, mean)
    ]
    resting = [name for name in names if not is_trainable(name)]
    have_statistics = any(not is_trainable(name) for name in steps[0][0])
    trainable = sum(1 for name in steps[0][0] if is_trainable(name))
    if any(_is_without_update(training, *step) for step in steps):
        doubts.append(("step-without-update", "A step after the window changed none of the parameters."))
    elif still:
        sentence = f"{len(still)} of {trainable} parameters do not change, {still[0]} among them."
        doubts.append(("parameters-stand-still", sentence))
    if resting:
        sentence = (
            f"The running statistics of {len(resting)} batch norms do not change, {resting[0]} among them: "
            "they are not in training mode."
        )
        doubts.append(("statistics-stand-still", sentence))
    return {"still": still[:10], "statistics_move": not resting if have_statistics else None}


def _is_rounded_away(
    training: Training, name: str, weights: Mapping[str, Any], rate: float, mean: Mapping[str, Any] | None
) -> bool:
    """Return whether a step of gradient descent is too small for the parameter's own digits.

    A batch norm's scale before a depthwise convolution followed by a batch norm does not change the loss: its gradient
    is zero up to rounding. A gradient that is exactly zero everywhere means that no gradient reaches the parameter.
    """
    recipe = training.settings.recipe
    if mean is None or isinstance(recipe, AdamRecipe) or not mean[name].any():
        return False
    values = sampled(weights, name)
    step = rate * (abs(mean[name]) + training.task.decay(training.settings, name) * abs(values))
    return bool((step <= SWALLOWED * ROUNDING * abs(values)).all())


class _Update:
    """The second step's update, on elements sampled from each parameter."""

    def __init__(
        self, training: Training, settings: Settings, rate: float, before: Any, between: Any, after: Any
    ) -> None:
        self._training, self._settings, self._rate = training, settings, rate
        self._names = [name for name in between if training.task.is_trainable(name)]
        self._before, self._between, self._after = before, between, after

    def solved(self, mean: Mapping[str, Any] | None, doubts: Doubts) -> dict[str, Any]:
        """Return the rate and momentum solved from the update, and the unexplained part of the update.

        ``mean`` has the sampled elements of the gradients, averaged over the ranks.
        """
        import numpy as np

        recipe = self._settings.recipe
        requested = {"learning_rate_asked": self._rate, "momentum_asked": recipe.momentum}
        unseen = {**requested, "learning_rate": None, "momentum": None, "residual": None}
        if mean is None:
            return unseen
        terms, decays, update = self._equations(mean)
        if not len(update):
            return unseen
        (of_velocity, rate), *_ = np.linalg.lstsq(terms, update, rcond=None)

        def unexplained(*factors: float) -> float:
            left = update - terms @ factors
            return float(np.sqrt((left @ left) / (update @ update)))

        residual = unexplained(recipe.momentum * self._rate, self._rate)
        momentum = float(of_velocity / rate) if rate else None
        exact = self._training.expected().compute_dtype == "float32"
        off, most_left = EXACT if exact else ROUNDED
        decay = _more_decay(terms, decays, update, residual)
        as_requested = residual <= most_left and abs(rate / self._rate - 1) <= off
        differs = noticeable((rate / self._rate, 1.0), (momentum, recipe.momentum))
        explains = unexplained(of_velocity, rate) < EXPLAINED * residual
        if decay is not None:
            reason: str | None = f"parameters decay by {decay:.2g} more than was requested"
        elif differs and explains:
            reason = self._what_is_wrong(rate / self._rate, momentum, residual, off, NOTICEABLE)
        elif as_requested or not exact:
            reason = None
        else:
            reason = self._what_is_wrong(rate / self._rate, momentum, residual, off, off)
        if reason is not None:
            sentence = (
                f"The update after the window does not match the recipe and all ranks' batches: {reason}."
            )
            doubts.append(("update-differs", sentence))
        # The fit neither confirms the recipe nor explains the update by another one: its noise is too large.
        found = {**requested, "learning_rate": float(rate), "momentum": momentum, "residual": residual}
        return {**found, "fit_is_vague": bool(differs and reason is None)}

    def unexplained(self, mean: Mapping[str, Any] | None, alone: Any) -> dict[str, Unexplained]:
        """Return the part of the update that neither the velocity nor the gradient explains, by parameter.

        A single rank's gradients are those of ``alone``, of which more elements are there.
        """
        if mean is None:
            return {}
        single = self._training.ranks.place.world_size == 1
        elements = ELEMENTS if single else SAMPLED
        found = {}
        for name in self._names:
            before, between, after = (
                sampled(weights, name, elements) for weights in (self._before, self._between, self._after)
            )
            gradients = sampled(alone.gradients, name, elements) if single else mean[name]
            momentum = self._settings.recipe.momentum
            rest = (between - after - momentum * (before - between)) / self._rate - gradients
            found[name] = Unexplained(between, rest)
        return found

    def _equations(self, mean: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return the terms of the update: velocity and gradient (n, 2), ``_more_decay``'s columns, the update (n,).

        Each parameter's rows are divided by the size of its update.
        """
        import numpy as np

        rows, decays, results = [np.zeros((0, 2))], [np.zeros((0, 2))], [np.zeros(0)]
        for name in self._names:
            weights = sampled(self._between, name)
            update = weights - sampled(self._after, name)
            size = float(np.sqrt(np.mean(update**2)))
            # An update that FP32 rounds away does not show the added value.
            if size < 1e3 * ROUNDING * float(np.sqrt(np.mean(weights**2))) or size == 0:
                continue
            decay = self._training.task.decay(self._settings, name)
            velocity = (sampled(self._before, name) - weights) / self._rate
            rows.append(np.stack([velocity, mean[name] + decay * weights], axis=1) / size)
            none = np.zeros_like(weights)
            decays.append(np.stack([weights, none] if decay > 0 else [none, weights], axis=1) / size)
            results.append(update / size)
        return np.concatenate(rows), np.concatenate(decays), np.concatenate(results)

    def _what_is_wrong(
        self, times: float, momentum: float | None, residual: float, off: float, least: float
    ) -> str:
        """Return why the update differs; its rate is ``times`` the requested one.

        A factor is that of a sum over the ranks within ``off``, and another one from ``least`` on.
        """
        ranks = self._training.ranks.place.world_size
        requested = self._settings.recipe.momentum
        if ranks > 1 and abs(times / ranks - 1) <= off:
            return f"the gradients of the {ranks} ranks are summed instead of averaged"
        if momentum is not None and abs(times - 1) <= least < abs(momentum - requested):
            return f"the momentum is {momentum:.3g} instead of {requested:.3g}"
        if abs(times - 1) > least:
            return f"the gradients count {times:.3g} times as much as with the learning rate"
        return f"{residual:.0%} of it is unexplained"


def _more_decay(terms: Any, decays: Any, update: Any, residual: float) -> float | None:
    """Return the excess of the decay over the requested one, if it explains the rest of the update.

    ``decays`` are the weights: one column for parameters with weight decay, one for those without.
    """
    import numpy as np

    whole = np.concatenate([terms, decays], axis=1)
    factors, *_ = np.linalg.lstsq(whole, update, rcond=None)
    left = update - whole @ factors
    if not factors[1] or float(np.sqrt((left @ left) / (update @ update))) >= EXPLAINED * residual:
        return None
    more = max(factors[2:] / factors[1], key=abs)
    return float(more) if abs(more) >= UNSEEN_DECAY else None
