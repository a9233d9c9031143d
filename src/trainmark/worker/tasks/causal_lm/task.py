"""Causal language modelling as a task: models, flags, the recipe, the unit of work, and what must be equal."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...core.facts import Expected
from ...core.loss_check import halves
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.task import Check, PlainLoss, Task
from ..products import Observation, check_types, describe_logits, describe_products
from .architectures import ARCHITECTURES, Llama, is_norm
from .settings import LLAMA_RECIPE, LanguageSettings, add_flags, causal_settings, describe_recipe


def count_sequences(source: str, length: int) -> int | None:
    """Return the sequences of ``length`` tokens, and the one after them, by the size of the file; None if unknown."""
    path = Path(source)
    file = path / "train.bin" if path.is_dir() else path
    manifest, token_bytes = file.parent / "dataset.json", 2
    try:
        if manifest.exists():
            made = json.loads(manifest.read_text(encoding="utf-8"))
            token_bytes = {"uint16": 2, "uint32": 4}[made.get("type", "uint16")]
        tokens = file.stat().st_size // token_bytes
    except (OSError, ValueError, KeyError):
        return None
    return (tokens - 1) // length


class ObservedLayers(NamedTuple):
    """A step's products: the type of each one's result by name, and how many tokens of a sequence the first one got."""

    types: Mapping[str, str]
    sequence_length: int | None


def verify_layers(
    settings: LanguageSettings, expected: Expected, observed: ObservedLayers | None, alone: Any
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what the events say of the step after the window, and the doubts."""
    if observed is not None:
        length = observed.sequence_length
    else:
        length = alone.products[0].output[1] if isinstance(alone, Observation) and alone.products else None
    data, doubts = check_types(expected, None if observed is None else observed.types)
    if length not in (None, settings.sequence_length):
        sentence = f"The model got sequences of {length} tokens, not {settings.sequence_length}."
        doubts.append(("sequence-length-differs", sentence))
    return {**data, "seen_sequence_length": length}, doubts


LARGEST_SHARE = 0.5
"""The largest plausible share of one token among those that are predicted."""


class CausalLM(Task[LanguageSettings]):
    """Models that predict each next token from those before it; the loss is the cross entropy of all of them."""

    name = "causal-lm"
    models = tuple(ARCHITECTURES)
    headline = "tokens"
    add_flags = staticmethod(add_flags)
    settings = staticmethod(causal_settings)

    def defaults(self, model: str) -> Mapping[str, Any]:
        """Return the recipe of Llama where that is trained."""
        return LLAMA_RECIPE if isinstance(ARCHITECTURES.get(model), Llama) else {}

    def learning_rate(self, _global_batch: int) -> float:
        """Return that of nanoGPT's benchmark."""
        return 1e-4

    def refuse(self, settings: LanguageSettings) -> None:
        """Refuse sequences that are longer than the positions, and batches that cannot be cut into equal parts."""
        refuse(settings, ARCHITECTURES[settings.model].positions)

    def work(self, settings: LanguageSettings, samples: int) -> dict[str, int]:
        """Return tokens that are predicted, and sequences; no token is padding."""
        return {"tokens": samples * settings.sequence_length, "sequences": samples}

    def parameters(self, settings: LanguageSettings, epoch_samples: int) -> dict[str, Any]:
        return {
            **self.requested(settings),
            "vocabulary": ARCHITECTURES[settings.model].vocabulary,
            "operations_per_token": ARCHITECTURES[settings.model].operations_per_token(
                settings.sequence_length
            ),
            "epoch_sequences": epoch_samples,
        }

    def operations(self, settings: LanguageSettings) -> dict[str, int]:
        """Return those of a sequence, by both conventions."""
        of_token = ARCHITECTURES[settings.model].operations_per_token(settings.sequence_length)
        return {name: count * settings.sequence_length for name, count in of_token.items()}

    def recipe(self, settings: LanguageSettings) -> dict[str, Any]:
        return describe_recipe(settings.recipe)

    def requested(self, settings: LanguageSettings) -> dict[str, Any]:
        return {"sequence_length": settings.sequence_length, "accumulation": settings.accumulation}

    def synthetic(self, settings: LanguageSettings, rank: int) -> tuple[Any]:
        """Return tokens (batch, length + 1) in int64: each but the first is predicted from those before it."""
        import numpy as np

        random = np.random.default_rng([settings.seed, rank])
        shape = (settings.batch_per_device, settings.sequence_length + 1)
        return (random.integers(ARCHITECTURES[settings.model].vocabulary, size=shape),)

    def labels(self, _settings: LanguageSettings, batch: Sequence[Any]) -> tuple[Any, float]:
        return batch[0][:, 1:], LARGEST_SHARE

    def count_samples(self, settings: LanguageSettings) -> int | None:
        """Return the sequences that the file of tokens has, by its size."""
        return count_sequences(settings.data, settings.sequence_length)

    def plain_loss(self, _settings: LanguageSettings, batch: Sequence[Any], alone: Any) -> PlainLoss | None:
        """Return the mean over all predicted tokens, from the own pass's loss of each or from its logits."""
        losses = getattr(alone, "target_losses", None)
        if losses is None:
            losses = losses_of_tokens(getattr(alone, "logits", None), batch[0])
        if losses is None:
            return None
        half = losses.shape[1] // 2
        mistakes = {
            **halves(losses),
            "it counts only the first half of the tokens": float(losses[:, :half].mean()),
            "it counts only the second half of the tokens": float(losses[:, half:].mean()),
            "it counts only every second token": float(losses[:, ::2].mean()),
        }
        return PlainLoss(float(losses.mean()), losses.size, mistakes)

    def decay(self, settings: LanguageSettings, name: str) -> float:
        """Return the recipe's decay; none for a norm's weight."""
        return 0.0 if is_norm(name) else settings.recipe.weight_decay

    def verify_layers(
        self, settings: LanguageSettings, expected: Expected, observed: Any, alone: Any
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        return verify_layers(settings, expected, observed, alone)

    def check(self, settings: LanguageSettings) -> Check:
        return Check(
            shapes=ARCHITECTURES[settings.model].shapes(),
            inputs=("tokens",),
            statistic=lambda _before, after: after,
            facts=self.requested(settings),
            layers=describe_products,
            outputs=describe_logits,
        )


def refuse(settings: LanguageSettings, positions: int) -> None:
    """Raise ``RunError`` (unsupported) for what no language model takes."""
    if settings.sequence_length > positions:
        raise RunError(
            UNSUPPORTED,
            f"a sequence of {settings.sequence_length} tokens is longer than the {positions} positions "
            f"of {settings.model}",
        )
    if settings.batch_per_device % settings.accumulation:
        raise RunError(
            UNSUPPORTED,
            f"a batch of {settings.batch_per_device} cannot be cut into {settings.accumulation} equal parts "
            "(accumulation)",
        )


def losses_of_tokens(logits: Any, tokens: Any) -> Any:
    """Return the cross entropy of each predicted token (batch, length); None without logits of all of them.

    ``logits`` is (batch, length, vocabulary), ``tokens`` (batch, length + 1).
    """
    import numpy as np

    if logits is None or logits.shape[:2] != (tokens.shape[0], tokens.shape[1] - 1):
        return None
    losses = np.empty(logits.shape[:2])
    # A sequence at a time: in float64 all logits may need more memory than the training.
    for row, targets in enumerate(np.asarray(tokens[:, 1:], np.int64)):
        values = np.asarray(logits[row], np.float64)
        values = values - values.max(axis=1, keepdims=True)
        own = values[np.arange(len(targets)), targets]
        losses[row] = np.log(np.exp(values).sum(axis=1)) - own
    return losses
