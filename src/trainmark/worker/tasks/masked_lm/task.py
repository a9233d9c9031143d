"""Masked language modelling as a task: its models and flags, sequences as work, and what is held equal."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List, Tuple

from ...core.facts import Expected
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.settings import Settings
from ...core.task import Check, Task
from ..causal_lm.observing import logits_told, looked, products_told
from ..causal_lm.task import refuse
from .architectures import ARCHITECTURES, decays
from .settings import MaskedSettings, add_flags, masked_settings


class MaskedLM(Task):
    """Models that find hidden words and tell whether two sentences follow each other; the loss is the sum of both."""

    name = "masked-lm"
    models = tuple(ARCHITECTURES)
    headline = "sequences"

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add what only this has, and the recipe of BERT."""
        add_flags(parser)

    def learning_rate(self, _global_batch: int) -> float:
        """Return that of BERT's pre-training."""
        return 1e-4

    def settings(self, given: argparse.Namespace, common: Settings) -> MaskedSettings:
        """Return the settings with lengths, accumulation and the rest of the recipe."""
        return masked_settings(given, common)

    def refuse(self, settings: Settings) -> None:
        """Refuse what no language model takes, and more predictions than there are tokens."""
        own = _own(settings)
        refuse(own, ARCHITECTURES[own.model].positions)
        if own.predictions >= own.sequence_length:
            raise RunError(
                UNSUPPORTED,
                f"{own.predictions} hidden words are too many for a sequence of {own.sequence_length} tokens",
            )

    def work(self, settings: Settings, samples: int) -> Dict[str, int]:
        """Return sequences and tokens; no token is padding."""
        return {"sequences": samples, "tokens": samples * _own(settings).sequence_length}

    def parameters(self, settings: Settings, epoch_samples: int) -> Dict[str, Any]:
        """Return the axes of text, and the length of an epoch."""
        own = _own(settings)
        return {
            **self.asked(settings),
            "vocabulary": ARCHITECTURES[own.model].vocabulary,
            "epoch_sequences": epoch_samples,
        }

    def recipe(self, settings: Settings) -> Dict[str, Any]:
        """Return what only this task's recipe has."""
        recipe = _own(settings).recipe
        return {
            "second_momentum": recipe.second_momentum,
            "epsilon": recipe.epsilon,
            "dropout": recipe.dropout,
        }

    def asked(self, settings: Settings) -> Dict[str, Any]:
        """Return the length of a sequence, its hidden words, and the parts of a batch."""
        own = _own(settings)
        return {
            "sequence_length": own.sequence_length,
            "predictions": own.predictions,
            "accumulation": own.accumulation,
        }

    def synthetic(self, settings: Settings, rank: int) -> Tuple[Any, ...]:
        """Return tokens and segments (batch, length), places and words (batch, predictions), and whether one
        sentence follows the other (batch,), all in int64.
        """
        import numpy as np

        own = _own(settings)
        random, batch, length = (
            np.random.default_rng([own.seed, rank]),
            own.batch_per_device,
            own.sequence_length,
        )
        vocabulary = ARCHITECTURES[own.model].vocabulary
        tokens = random.integers(vocabulary, size=(batch, length))
        segments = (np.arange(length) >= random.integers(1, length, size=(batch, 1))).astype(np.int64)
        places = np.sort(random.random((batch, length)).argsort(axis=1)[:, : own.predictions], axis=1)
        words = random.integers(vocabulary, size=places.shape)
        return tokens, segments, places, words, random.integers(2, size=batch)

    def decay(self, settings: Settings, name: str) -> float:
        """Return the recipe's decay; none for biases and norms."""
        return settings.recipe.weight_decay if decays(name) else 0.0

    def looked(
        self, settings: Settings, expected: Expected, seen: Any, alone: Any
    ) -> Tuple[Dict[str, Any], List[Tuple[str, str]]]:
        """Return what was seen of the products in the step after the window, and what is wrong with it."""
        return looked(_own(settings), expected, seen, alone)

    def check(self, settings: Settings) -> Check:
        """Return the model's weights by name, and how products and logits are told."""
        return Check(
            shapes=ARCHITECTURES[settings.model].shapes(),
            inputs=("tokens", "segments", "places", "words", "follows"),
            statistic=lambda _before, after: after,
            facts=self.asked(settings),
            layers=products_told,
            outputs=logits_told,
        )


def _own(settings: Settings) -> MaskedSettings:
    assert isinstance(settings, MaskedSettings)
    return settings
