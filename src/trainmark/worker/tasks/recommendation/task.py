"""Recommendation as a task: models, flags, the unit of work, and what must be equal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.facts import memory_bytes
from ...core.outcomes import OOM, UNSUPPORTED, RunError
from ...core.place import place_from
from ...core.precision import Precision
from ...core.recipe_checks import binary_cross_entropy
from ...core.settings import AdamRecipe, Recipe
from ...core.task import Arrays, Check, PlainLoss, Task, Verified
from ..products import check_types, describe_logits, describe_products
from .architectures import ARCHITECTURES, CATEGORIES
from .records import Batch, made_up, mirrored
from .settings import SPARSE_GRADIENTS, ClickRecipe, ClickSettings, DescentRecipe, defaults_of, is_dlrm

LEFT = 0.05  # the published Adam leaves hardly a row where it is; a lazy one all that no rank looks up


MOST_UNCLICKED = 0.99  # the largest plausible share of samples without a click


class Recommendation(Task[ClickSettings]):
    """Models that tell the probability of a click; the loss is the mean binary cross entropy."""

    name = "recommendation"
    models = tuple(ARCHITECTURES)
    headline = "samples"
    settings_type = ClickSettings
    observed_fields = ("vocabulary", "embedding_width", "table_gradients")

    def defaults(self, model: str) -> Mapping[str, Any]:
        return defaults_of(model)

    def recipe_type(self, model: str) -> type[Recipe]:
        return DescentRecipe if is_dlrm(model) else ClickRecipe

    def refuse(self, settings: ClickSettings) -> None:
        """Refuse tables without a row for each field, what no model has, and tables that this host cannot hold."""
        recipe, model, sgd, reason = settings.recipe, settings.model, is_dlrm(settings.model), None
        if settings.vocabulary < CATEGORIES:
            rows = f"a vocabulary of {settings.vocabulary}"
            reason = f"{rows} has no row for each of the {CATEGORIES} categorical fields"
        elif sgd and (recipe.momentum or recipe.weight_decay or recipe.dropout):
            reason = f"{model} is trained by SGD without momentum, weight decay or dropout here"
        elif not sgd and recipe.weight_decay:
            reason = f"{model} is trained by Adam, which has no weight decay here"
        if reason is not None:
            raise RunError(UNSUPPORTED, reason)
        wanted, retained = _table_bytes(settings)
        ranks = place_from().local_world_size
        there = min(settings.memory_limit or memory_bytes(), memory_bytes() // ranks)
        if settings.device != "cuda" and wanted > there:
            raise RunError(
                OOM,
                f"tables of {settings.vocabulary} rows{retained} need {wanted / 1e9:.1f} GB, "
                f"and there are {there / 1e9:.1f} GB of memory{f' for each of {ranks} ranks' if ranks > 1 else ''}",
            )

    def operations(self, settings: ClickSettings) -> dict[str, int]:
        """Return those of a sample, by its products; Adam's pass over the tables is not among them."""
        return {"counted": 6 * settings.description.multiply_adds()}

    def work(self, _settings: ClickSettings, samples: int) -> dict[str, int]:
        return {"samples": samples}

    def parameters(self, settings: ClickSettings, epoch_samples: int) -> dict[str, Any]:
        return {**self.requested(settings), "epoch_samples": epoch_samples}

    def synthetic(self, settings: ClickSettings, rank: int) -> tuple[Any, ...]:
        """Return a made-up ``Batch``."""
        random = np.random.default_rng([settings.seed, rank])
        return made_up(random, settings.batch_per_device, settings.vocabulary)

    def labels(self, _settings: ClickSettings, batch: Sequence[Any]) -> tuple[Any, float]:
        """Return the clicks; in a log of advertisements few are clicked."""
        return batch[3], MOST_UNCLICKED

    def plain_loss(self, settings: ClickSettings, batch: Sequence[Any], alone: Any) -> PlainLoss | None:
        """Return the mean binary cross entropy of the own pass's logits; None with dropout, which differs by pass."""
        logits = getattr(alone, "logits", None)
        labels, _ = self.labels(settings, batch)
        if logits is None or logits.shape != labels.shape or getattr(settings.recipe, "dropout", 0.0):
            return None
        return binary_cross_entropy(logits, labels)

    def verify_layers(self, _settings: Any, expected: Precision, observed: Any, _alone: Any) -> Verified:
        return check_types(expected, None if observed is None else observed.types.items())

    def another(self, settings: ClickSettings, batch: Sequence[Any]) -> Sequence[Any]:
        """Return a batch that looks up mostly other rows."""
        dense, categories, crosses, labels = batch
        whole = Batch(dense, categories.astype(np.int64), crosses.astype(np.int64), labels)
        return mirrored(whole, settings.vocabulary)

    def is_lazy(self, settings: ClickSettings, name: str) -> bool:
        """Return whether it is a table with sparse gradients."""
        return settings.table_gradients == SPARSE_GRADIENTS and name in settings.description.tables

    def rows(self, settings: ClickSettings, batches: Sequence[Any], weights: Sequence[Arrays]) -> Verified:
        """Check which part of rows that Adam moved, and that the next step does not look up, stood still.

        SGD moves no such rows.
        """
        if not isinstance(settings.recipe, AdamRecipe):
            return Verified()
        first, second = (settings.description.used_rows(Batch(*batch)) for batch in batches)
        before, between, after = weights
        rows = still = 0
        for name, numbers in first.items():
            only = np.setdiff1d(numbers, second[name])
            only = only[(before[name][only] != between[name][only]).any(axis=1)]
            rows += len(only)
            still += int((between[name][only] == after[name][only]).all(axis=1).sum())
        if not rows:
            return Verified({"rows_left": None})
        part, is_sparse = still / rows, settings.table_gradients == SPARSE_GRADIENTS
        found, of = Verified({"rows_left": part}), "rows of the tables that only the previous step looked up"
        if not is_sparse and part > LEFT:
            sentence = f"{still} of {rows} {of} do not change: a lazy Adam instead of the published one."
            found.doubt("rows-left-alone", sentence)
        elif is_sparse and part < 1 - LEFT and place_from().world_size == 1:
            sentence = f"{rows - still} of {rows} {of} change: an Adam of all rows"
            found.doubt("rows-move", f"{sentence} instead of sparse gradients.")
        return found

    def check(self, settings: ClickSettings) -> Check:
        return Check(
            shapes=settings.description.shapes(),
            inputs=("dense", "categories", "crossed", "labels"),
            facts={"vocabulary": settings.vocabulary, "embedding_width": settings.embedding_width},
            layers=describe_products,
            outputs=describe_logits,
            other=lambda batch: mirrored(Batch(*batch), settings.vocabulary),
        )


def _table_bytes(own: ClickSettings) -> tuple[int, str]:
    """Return the bytes of tables and of all that lies beside each of their weights (FP32), and what that is."""
    gradients, moments = own.table_gradients != SPARSE_GRADIENTS, isinstance(own.recipe, AdamRecipe)
    kinds = ["gradients"] * gradients + ["moments"] * moments
    words = f", with {' and '.join(kinds)}," if kinds else ""
    weights = sum(math.prod(shape) for shape in own.description.table_shapes().values())
    return 4 * (1 + gradients + 2 * moments) * weights, words
