"""Masked language modelling as a task: models, flags, the recipe of BERT, and quantities that are held equal."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ...core.outcomes import UNSUPPORTED, RunError
from ...core.settings import ADAMW, LAMB, AdamRecipe, Flag, positive
from ...core.task import Check
from ..causal_lm.settings import LanguageSettings
from ..causal_lm.task import LARGEST_SHARE, TextTask
from ..products import describe_logits, describe_products
from .architectures import ARCHITECTURES

# An epoch of made-up data is about as long as Wikipedia's and the books' in sequences of 128.
EPOCH_SEQUENCES = 24_000_000


@dataclass(frozen=True)
class MaskedRecipe(AdamRecipe):
    """``dropout``: the share of values that are dropped, of embeddings, attention and what is added up."""

    optimizer: Annotated[str, Flag("both with decoupled decay", (ADAMW, LAMB), ADAMW)]
    dropout: Annotated[float, Flag("share of values that are dropped", float, 0.1)]


# With the recipe of BERT's pre-training.
DEFAULTS = {
    "sequence_length": 128, "epoch_samples": EPOCH_SEQUENCES,
    "second_momentum": 0.999, "epsilon": 1e-6, "weight_decay": 0.01, "clip_norm": 1.0,
    "learning_rate": 1e-4, "schedule": "linear", "epochs": 40, "warmup_updates": 10_000,
}  # fmt: skip
HIDDEN = "hidden words of a sample; if not given: 20 of 128 tokens, 80 of 512, else that share"


@dataclass(frozen=True)
class MaskedSettings(LanguageSettings):
    """``predictions``: the most words of a sequence that were hidden; ``padding``: of made-up tokens, in percent."""

    predictions: Annotated[int, Flag(HIDDEN, positive)]
    padding: Annotated[int, Flag("percent of synthetic tokens; real data have their own", int, 0)]
    recipe: MaskedRecipe

    @property
    def padded(self) -> bool:
        """Return whether sequences may end in padding, which nothing attends to; read data have their own."""
        return not self.synthetic or self.padding > 0


def usual_predictions(length: int) -> int:
    """Return how many words BERT's pre-training hides of so many tokens: 20 of 128, 80 of 512, else that share."""
    return max(1, length * 5 // 32)


# The arrays of a batch, in their order.
INPUTS = ("tokens", "segments", "lengths", "places", "words", "weights", "follows")

LENGTHS, WEIGHTS = INPUTS.index("lengths"), INPUTS.index("weights")

WITHOUT_PADDING = "tokens_without_padding"  # the counter of the tokens that are no padding
MOST_PADDING = 50


class MaskedLM(TextTask[MaskedSettings]):
    """Models that find hidden words and tell whether two sentences follow each other; the loss is the sum of both."""

    name = "masked-lm"
    models = tuple(ARCHITECTURES)
    architectures = ARCHITECTURES
    headline = "sequences"
    observed_fields = ("sequence_length", "predictions", "accumulation")
    settings_type = MaskedSettings

    def defaults(self, _model: str) -> Mapping[str, Any]:
        return DEFAULTS

    def complete(self, given: argparse.Namespace, _world_size: int) -> None:
        """Hide the usual number of words of the length."""
        given.predictions = given.predictions or usual_predictions(given.sequence_length)

    def refuse(self, settings: MaskedSettings) -> None:
        super().refuse(settings)
        hidden, length, reason = settings.predictions, settings.sequence_length, None
        if hidden >= length:
            reason = f"{hidden} hidden words are too many for a sequence of {length} tokens"
        elif not 0 <= settings.padding < MOST_PADDING:
            reason = f"made-up sequences have 0 to 49 % of padding, not {settings.padding} %"
        elif settings.padding and not settings.synthetic:
            reason = "--padding is of made-up sequences; those that are read have their own"
        if reason is not None:
            raise RunError(UNSUPPORTED, reason)

    def work(self, settings: MaskedSettings, samples: int) -> dict[str, int]:
        """Return sequences, tokens with the padding and, of made-up sequences, without it: others are counted."""
        work = {"sequences": samples, "tokens": samples * settings.sequence_length}
        if settings.synthetic:
            work[WITHOUT_PADDING] = samples // settings.batch_per_device * sum(_lengths(settings))
        return work

    def parameters(self, settings: MaskedSettings, epoch_samples: int) -> dict[str, Any]:
        padding = settings.padding if settings.synthetic else None
        return {**super().parameters(settings, epoch_samples), "padding": padding}

    def operations(self, settings: MaskedSettings) -> dict[str, int]:
        """Return those of a sequence, by both conventions."""
        return ARCHITECTURES[settings.model].operations(settings.sequence_length, settings.predictions)

    def synthetic(self, settings: MaskedSettings, rank: int) -> tuple[Any, ...]:
        """Return the arrays of ``INPUTS``; the weights in float32, all others in int64.

        Tokens and segments are (batch, length), lengths and follows (batch,), places, words and weights (batch,
        predictions).

        From its length on a sequence is padding. A place whose weight is 0 holds no word: a sequence has as many as
        it is long. Both are as in the published pre-processing.
        """
        random = np.random.default_rng([settings.seed, rank])
        batch, length = settings.batch_per_device, settings.sequence_length
        vocabulary = ARCHITECTURES[settings.model].vocabulary
        tokens = random.integers(vocabulary, size=(batch, length))
        segments = (np.arange(length) >= random.integers(1, length, size=(batch, 1))).astype(np.int64)
        places = np.sort(random.random((batch, length)).argsort(axis=1)[:, : settings.predictions], axis=1)
        words = random.integers(vocabulary, size=places.shape)
        follows = random.integers(2, size=batch)
        lengths = np.array(_lengths(settings))
        if settings.padding:
            lengths = random.permutation(lengths)
        return padded((tokens, segments, lengths, places, words, follows), random)

    def labels(self, _settings: MaskedSettings, batch: Sequence[Any]) -> tuple[Any, float]:
        words, weights = batch[4], batch[5]
        return words[weights > 0], LARGEST_SHARE

    def check(self, settings: MaskedSettings) -> Check:
        return Check(
            shapes=ARCHITECTURES[settings.model].shapes(),
            inputs=INPUTS,
            facts={**self.requested(settings), "padded": settings.padded},
            layers=describe_products,
            outputs=describe_logits,
        )


def _lengths(own: MaskedSettings) -> list[int]:
    return made_up_lengths(own.batch_per_device, own.sequence_length, own.padding)


def made_up_lengths(batch: int, length: int, padding: int) -> list[int]:
    """Return the lengths of a batch of made-up sequences: evenly from all of it down, so that every rank's sum is one.

    Their mean is that of ``padding`` percent.
    """
    shares = (1 - 2 * padding / 100 * (index + 0.5) / batch for index in range(batch))
    return [max(int(length * share), 2) for share in shares]


def padded(arrays: tuple[Any, ...], random: Any) -> tuple[Any, ...]:
    """Return a batch of tokens, segments, lengths, places, words and follows in which lengths are kept to.

    ``random`` draws other places where there is padding. Weights are added, and the order is that of ``INPUTS``.
    """
    tokens, segments, lengths, places, words, follows = arrays
    (batch, length), slots = tokens.shape, places.shape[1]
    within = np.arange(length) < lengths[:, None]
    counts = np.maximum(slots * lengths // length, 1)
    weights = np.arange(slots) < counts[:, None]
    if not within.all():
        order = np.where(within, random.random((batch, length)), 2).argsort(axis=1)[:, :slots]
        places = np.sort(np.where(weights, order, length), axis=1)
    return (
        np.where(within, tokens, 0),
        np.where(within, segments, 0),
        lengths.astype(np.int64),
        np.where(weights, places, 0),
        np.where(weights, words, 0),
        weights.astype(np.float32),
        follows,
    )
