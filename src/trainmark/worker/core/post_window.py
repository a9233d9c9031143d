"""Verification of a run to its end: after the window, steps that are not timed are verified.

The timed function trains two more steps, at a part of the recipe's learning rate (``WITNESS_RATE``), on the run's own
ranks and data. Weights and an optimizer's moments are read around them, and before the second one each rank passes its
batch alone. What the steps did is verified here and in the modules for updates, recipe and samples, by the requested
settings and not those that the training holds, which a backend may have changed; unobservable values are null.
``docs/explanation/verification.md`` describes the checks.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .outcomes import first_sentence
from .precision import FP32, PRECISIONS
from .recipe_checks import check_decay, check_dropout, check_isolation, check_loss, check_rates
from .sample_survey import survey_samples
from .settings import AdamRecipe, Settings
from .task import Arrays, Verified
from .training import NONE, Training
from .update_checks import ROUNDING, WitnessedStep, averaged, check_update, sampled

SWALLOWED = 4  # roundings that a step may leave unchanged, as momentum may oppose the gradient
# The steps that a loss scale may skip, a number or a share of all: ten halvings reduce the initial scale of 2**16 to
# 64; about every 2 000 steps a larger scale is tried.
TRIED_OUT = (10, 0.05)
OVERFLOWS = 17  # the most trials of a step until it does not overflow: each halves a scale of 2**16
LAST_BITS, TINY = 13, 2.0**-100  # the bits that FP16 lacks; a size below which FP32 has fewer
# The share of the largest gradient up to which another one may be what rounding leaves of zero.
RESIDUE = 2.0**-18
LEAST, MOST = 16, 4096  # elements of an array to compare: for FP32 the chance of a doubt is 2**-208


def verify(training: Training, settings: Settings) -> Verified:
    """Train two steps after the measured ones, and verify them by the requested settings. All ranks must call it.

    A failure of the verification ends a run of several ranks, and is a doubt in a run of one rank.
    """
    try:
        return _verify(training, settings)
    except Exception as error:
        if training.ranks.place.world_size > 1:
            raise
        return _failed({"failed": first_sentence(error)}, "steps after the window", error)


def _verify(training: Training, settings: Settings) -> Verified:
    task, found = training.task, _check_counts(training, settings)
    step = _train_steps(training, settings, found)
    found.add(_check_movement(step) if step.moves else Verified({"still": None, "statistics_move": None}))
    update, unexplained = check_update(step)
    found.add(update)
    if not update.doubts:
        found.add(check_decay(training, settings, unexplained))
    if step.moves and all(batch is not None for batch in step.batches):
        found.add(task.rows(settings, step.batches, step.weights))
    found.add(check_digits(step))
    if step.ranks > 1:
        found.data["ranks_agree"] = len(set(training.gather_one(training.digest()))) == 1
        if not found.data["ranks_agree"]:
            found.doubt("ranks-disagree-later", "After one more step the ranks have different parameters.")
    found.add(task.verify_layers(settings, training.expected(), step.observed, step.alone))
    found.not_checked += _unknown_of_update(found.data, settings)
    found.add(check_rates(training, settings))
    found.add(check_loss(training, settings, step.batches[-1], step.alone))
    found.add(check_dropout(training, settings))
    found.add(survey_samples(training, settings, step.batches))
    found.add(check_isolation(training, settings))
    if not settings.synthetic:
        path, known = _check_loader_path(training), {code for code, _ in found.doubts}
        path.doubts = [doubt for doubt in path.doubts if doubt[0] not in known]
        found.add(path)
    found.data["not_checked"] = found.not_checked
    return found


def _train_steps(training: Training, settings: Settings, found: Verified) -> WitnessedStep:
    """Train the two steps, and add to ``found`` whether they had one batch and why there is no own pass."""
    first, second, task = settings.steps, settings.steps + 1, training.task
    rate, before = training.rates[second], training.sampled_weights()
    names = [name for name in before if task.is_trainable(name)]

    def is_skipped(one: Arrays, other: Arrays) -> bool:
        """Return whether the optimizer skipped a step on any rank, as it should where the scaled gradients overflow."""
        if not (_scale_may_overflow(settings) and rate > 0):
            return False
        return any(training.gather_one(_unchanged(one, other).issuperset(names)))

    for _ in range(OVERFLOWS):
        batch = training.read_batch()
        training.step(first)
        training.synchronize()
        between = training.sampled_weights()
        if not (overflowed := is_skipped(before, between)):
            break
    # After the fetch of the observed step's batch, whose pictures are observed too.
    last_batch = training.read_batch()
    changed = None
    if settings.synthetic:
        other = None if batch is None else task.another(settings, batch)
        if other is not None:
            training.set_batch(*other)
            last_batch = tuple(other)
    elif batch is not None and last_batch is not None:
        changed = any(a.shape != b.shape or bool((a != b).any()) for a, b in zip(batch, last_batch))
    for _ in range(OVERFLOWS):
        alone, failed = _own_pass(training, settings)
        # A pass changes only running statistics.
        if (alone is not None or failed is not None) and len(names) < len(between):
            training.load_weights(between)
        last_batch = last_batch if settings.synthetic else training.read_batch()
        moments = training.read_moments()
        observed = training.observed_step(second) or getattr(alone, "layers", None)
        training.synchronize()
        after = training.sampled_weights()
        if not (skipped := is_skipped(between, after)):
            break
    if failed is not None:
        found.data["own_pass_failed"] = failed
    found.data["batch_changed"] = changed
    if changed is False:
        found.doubt("batch-reused", "Two steps after the window were trained on the same batch.")
    whole = all(np.isfinite(array).all() for array in after.values())
    # A small update of weights of 16 bits is rounded away.
    is_exact = training.expected().weights == FP32
    moves = rate > 0 and is_exact and whole and not (overflowed or skipped)
    mean = averaged(training, alone.gradients, names) if moves and alone is not None else None
    weights, both, batches = (before, between, after), (moments, training.read_moments()), (batch, last_batch)
    return WitnessedStep(training, settings, rate, weights, both, alone, mean, moves, batches, observed)


def _unknown_of_update(data: Mapping[str, Any], settings: Settings) -> list[str]:
    """Return the names of the checks of the update that could not be done, by the events' data of those done."""
    decays = data.get("decay") or {"": None}
    unknown = {
        "updates": data["updates_taken"] is None,
        "weight decay": settings.recipe.weight_decay and any(decay is None for decay in decays.values()),
        "update": data["learning_rate"] is None,
        "rate and momentum of the update": data.get("fit_is_vague"),
        "gradients of the update": data.get("gradient_factor", 1.0) is None,
    }
    return [name for name, is_unknown in unknown.items() if is_unknown]


def _check_counts(training: Training, settings: Settings) -> Verified:
    """Compare the framework's own counts of steps and updates; an optimizer may skip a step after an overflow."""
    taken, updates, requested = training.steps_taken(), training.updates_taken(), settings.steps
    found = Verified({"steps_taken": taken, "updates_taken": updates})
    if (share := training.sampled_share()) < 1:
        found.data["sampled_share"] = share
    most_skipped = max(TRIED_OUT[0], int(TRIED_OUT[1] * requested)) if _scale_may_overflow(settings) else 0
    may_be = taken in (None, requested)
    if most_skipped and taken is not None:
        found.data["steps_skipped"] = None
        if training.COUNTS_UPDATES:
            found.data["steps_skipped"] = skipped = requested - taken
            may_be = 0 < taken <= requested
            if may_be and (skipped > most_skipped or 2 * taken < requested):
                of = f"{skipped} of {requested} steps"
                found.doubt("steps-skipped", f"{of} overflowed and were skipped: their updates took no time.")
    if not may_be:
        found.doubt("steps-not-taken", f"{requested} steps were requested, but {taken} were taken.")
    elif updates is not None and updates < requested - most_skipped:
        sentence = f"{requested} steps were requested, but the optimizer made {updates} updates."
        found.doubt("steps-not-taken", sentence)
    return found


def _check_loader_path(training: Training) -> Verified:
    """Check the loaders' outputs for a known sample: rank 0's observations, and the doubts of all ranks."""
    try:
        own = training.loader_path()
        path = Verified({"loader_path": own and own.data}, own.doubts if own else [])
    except Exception as error:
        data = {"loader_path": {"failed": first_sentence(error)}}
        path = _failed(data, "loader's output for a known sample", error)
    others = [rank for rank, count in enumerate(training.gather_one(len(path.doubts))) if count]
    if others and not path.doubts:
        sentence = f"The output of the loaders of ranks {others} for a known sample is in doubt."
        path.doubt("loader-differs", sentence)
    return path


def _failed(data: dict[str, Any], what: str, error: Exception) -> Verified:
    return Verified(data, [("not-witnessed", f"The {what} could not be verified: {first_sentence(error)}")])


def _scale_may_overflow(settings: Settings) -> bool:
    """Return whether the loss scale is dynamic, so that a step that overflows is correctly skipped."""
    return PRECISIONS[settings.precision].scaled and settings.recipe.loss_scale is None


def _unchanged(before: Arrays, after: Arrays) -> set[str]:
    """Return the names of the arrays that a step did not change."""
    return {name for name in after if bool((before[name] == after[name]).all())}


def _own_pass(training: Training, settings: Settings) -> tuple[Any, str | None]:
    """Return the pass of this rank's batch alone, or why a rank has none (it may need more memory than a step).

    None with dropout, unless the pass drops the values of the step.
    """
    alone, reason = None, None
    repeats = not settings.dropout or (training.REPEATS_DROPOUT and settings.compiler == NONE)
    try:
        alone = training.own_pass() if repeats else None
    except Exception as error:
        reason = first_sentence(error)
    done = training.gather_one(reason is None)
    return (alone, None) if all(done) else (None, reason or f"rank {done.index(0)} could not do it")


def _check_movement(step: WitnessedStep) -> Verified:
    """Check that both steps changed statistics and parameters, but those that gradient descent may round away."""
    names, (before, between, after) = step.names, step.weights
    first, second = _unchanged(before, between), _unchanged(between, after)
    unmoved = sorted(first | second)
    still = [name for name in unmoved if name in names and not _is_rounded_away(step, name)]
    resting = [name for name in unmoved if name not in names]
    have_statistics = len(names) < len(before)
    found = Verified({"still": still[:10], "statistics_move": not resting if have_statistics else None})
    if first.issuperset(names) or second.issuperset(names):
        found.doubt("step-without-update", "A step after the window changed none of the parameters.")
    elif still:
        sentence = f"{len(still)} of {len(names)} parameters do not change, {still[0]} among them."
        found.doubt("parameters-stand-still", sentence)
    if resting:
        found.doubt(
            "statistics-stand-still",
            f"The running statistics of {len(resting)} batch norms do not change, {resting[0]} among them: "
            "they are not in training mode.",
        )
    return found


def _is_rounded_away(step: WitnessedStep, name: str) -> bool:
    """Return whether a step of gradient descent is too small for the parameter's own digits.

    A batch norm's scale before a depthwise convolution followed by a batch norm does not change the loss: its gradient
    is zero up to rounding. A gradient that is exactly zero everywhere means that no gradient reaches the parameter.
    """
    if step.mean is None or isinstance(step.settings.recipe, AdamRecipe) or not step.mean[name].any():
        return False
    values = abs(sampled(step.weights[1], name))
    moved = step.rate * (abs(step.mean[name]) + step.decay(name) * values)
    return bool((moved <= SWALLOWED * ROUNDING * values).all())


def check_digits(step: WitnessedStep) -> Verified:
    """Name the arrays that have the digits of 16 bits where FP32 was requested, and doubt them.

    A sum or a product in FP32 has zeros as its last 13 bits with a chance of 2**-13: that all of the compared elements
    of an array have is no coincidence. Of the weights some moved; gradients may have 16 bits if the products have.
    """
    expected, (_, before, after) = step.training.expected(), step.weights
    if expected.weights != FP32:
        return Verified({"narrow": None})
    arrays = {f"weights of {name}": _moved(before[name], after[name]) for name in step.names}
    (moments, _), recipe = step.moments, step.settings.recipe
    betas = [recipe.momentum, recipe.second_momentum] if isinstance(recipe, AdamRecipe) else []
    # Products with betas of few digits, as 0.5 or 0.875, have no more digits than the other number.
    if moments is not None and _last_bits(betas).all():
        arrays |= {f"first moment of {name}": array for name, array in moments.first.items()}
        arrays |= {f"second moment of {name}": array for name, array in moments.second.items()}
    if step.alone is not None and expected.full_fp32:
        real = _without_residues(step.alone.gradients)
        arrays |= {f"gradient of {name}": array for name, array in real.items()}
    narrow = [name for name, array in arrays.items() if _is_narrow(array)]
    found = Verified({"narrow": narrow[:10]})
    if narrow:
        more = f" and {len(narrow) - 1} more arrays" if len(narrow) > 1 else ""
        sentence = f"All elements of the {narrow[0]}{more} fit in 16 bits, but FP32 was requested."
        found.doubt("stored-in-16-bits", sentence)
    return found


def _without_residues(gradients: Arrays) -> dict[str, Any]:
    """Return the gradients less those that are zero but for rounding, as that of a scale before another batch norm.

    What remains of terms that cancel has few digits.
    """
    flat = {name: np.abs(np.ravel(array)) for name, array in gradients.items()}
    sizes = {name: float(array[np.isfinite(array)].max(initial=0.0)) for name, array in flat.items()}
    least = RESIDUE * max(sizes.values(), default=0.0)
    return {name: array for name, array in gradients.items() if sizes[name] > least}


def _moved(before: Any, after: Any) -> Any:
    """Return elements that a step changed: of evenly drawn ones, or of all if few of these moved."""
    one, other = np.ravel(before), np.ravel(after)
    for stride in _strides(one):
        changed = other[::stride][one[::stride] != other[::stride]]
        if len(changed) >= MOST:
            break
    return changed


def _is_narrow(array: Any) -> bool:
    values = np.ravel(np.asarray(array, np.float32))
    for stride in _strides(values):
        drawn = values[::stride]
        drawn = drawn[np.isfinite(drawn) & (np.abs(drawn) > TINY)]
        # Equal elements are one observation: a bias whose elements are all alike.
        distinct = np.unique(drawn[:: max(1, len(drawn) // MOST)])
        if len(distinct) >= LEAST:
            break
    return len(distinct) >= LEAST and not _last_bits(distinct).any()


def _strides(values: Any) -> list[int]:
    """Return the distances at which elements are drawn: evenly, and if that shows too little, all of them."""
    return [*dict.fromkeys((max(1, values.size // (8 * MOST)), 1))]


def _last_bits(values: Any) -> Any:
    return np.asarray(values, np.float32).view(np.uint32) & np.uint32(2**LAST_BITS - 1)
