"""Causal language modelling as a task: models, flags, the recipe, the unit of work, and what must be equal."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...core.backend import Observation
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.precision import Precision
from ...core.recipe_checks import halves
from ...core.task import Check, PlainLoss, Task, Verified
from ..products import ObservedLayers, check_types, describe_logits, describe_products
from .architectures import ARCHITECTURES, Llama
from .packing import DOCUMENTS, attended, number, pack, predicted
from .settings import DEFAULTS, LLAMA_RECIPE, CausalSettings, LanguageSettings


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


# The counter of the tokens that are predicted within a document; the largest plausible share of one of them.
USEFUL, LARGEST_SHARE = "useful_tokens", 0.5

Text = TypeVar("Text", bound=LanguageSettings)


class TextTask(Task[Text]):
    """Models of sequences of tokens: their lengths and parts of a batch, the optimizer, and the layers of a step."""

    architectures: Mapping[str, Any]  # the models, by name

    def refuse(self, settings: Text) -> None:
        """Refuse sequences longer than the positions, and batches that cannot be cut into parts."""
        positions, length = self.architectures[settings.model].positions, settings.sequence_length
        if length > positions:
            most = f"the {positions} positions of {settings.model}"
            raise RunError(UNSUPPORTED, f"a sequence of {length} tokens is longer than {most}")
        if settings.batch_per_device % settings.accumulation:
            parts = f"{settings.accumulation} equal parts (accumulation)"
            raise RunError(UNSUPPORTED, f"a batch of {settings.batch_per_device} cannot be cut into {parts}")

    def parameters(self, settings: Text, epoch_samples: int) -> dict[str, Any]:
        return {
            **self.requested(settings),
            "vocabulary": self.architectures[settings.model].vocabulary,
            "epoch_sequences": epoch_samples,
        }

    def verify_layers(
        self, settings: Text, expected: Precision, observed: ObservedLayers | None, alone: Any
    ) -> Verified:
        """Check the types of the products in the step after the window, and the length of its sequences."""
        length = observed.first_input[1] if observed and observed.first_input else None
        if observed is None and isinstance(alone, Observation) and alone.operations:
            length = alone.operations[0].output[1]
        found = check_types(expected, None if observed is None else observed.types.items())
        found.data["seen_sequence_length"] = length
        if length not in (None, settings.sequence_length):
            sentence = f"The model got sequences of {length} tokens, not {settings.sequence_length}."
            found.doubt("sequence-length-differs", sentence)
        return found

    def decays(self, name: str) -> bool:
        """Return whether it is no bias and no norm's weight."""
        return not name.endswith((".bias", "norm.weight"))


class CausalLM(TextTask[CausalSettings]):
    """Models that predict each next token from those before it; the loss is the cross entropy of all of them."""

    name = "causal-lm"
    models = tuple(ARCHITECTURES)
    architectures = ARCHITECTURES
    headline = "tokens"
    observed_fields = ("sequence_length", "accumulation")
    settings_type = CausalSettings

    def defaults(self, model: str) -> Mapping[str, Any]:
        """Return the recipe of GPT-2, or of Llama where that is trained."""
        return DEFAULTS | (LLAMA_RECIPE if isinstance(ARCHITECTURES.get(model), Llama) else {})

    def refuse(self, settings: CausalSettings) -> None:
        """Refuse packing of a file as well."""
        super().refuse(settings)
        if settings.packed and not settings.synthetic:
            reason = f"packing {DOCUMENTS} needs synthetic data: a file of tokens has no borders of documents"
            raise RunError(UNSUPPORTED, reason)

    def work(self, settings: CausalSettings, samples: int) -> dict[str, int]:
        """Return the places of sequences, and sequences; of packed ones also the tokens predicted in documents."""
        work = {"tokens": samples * settings.sequence_length, "sequences": samples}
        if settings.packed:
            work[USEFUL] = samples // settings.batch_per_device * int(predicted(_documents(settings)).sum())
        return work

    def parameters(self, settings: CausalSettings, epoch_samples: int) -> dict[str, Any]:
        operations = self.operations(settings)
        each = {name: count // settings.sequence_length for name, count in operations.items()}
        own = super().parameters(settings, epoch_samples)
        return {**own, "packing": settings.packing, "operations_per_token": each}

    def operations(self, settings: CausalSettings) -> dict[str, int]:
        """Return those of a sequence, by both conventions; packed ones have those of their documents on average."""
        model = ARCHITECTURES[settings.model]
        if not settings.packed:
            return model.operations(settings.sequence_length, settings.sequence_length**2)
        counted = model.operations(*attended(_documents(settings)))
        return {name: count // settings.batch_per_device for name, count in counted.items()}

    def synthetic(self, settings: CausalSettings, rank: int) -> tuple[Any, ...]:
        """Return tokens (batch, length + 1) in int64: each but the first is predicted from those before it.

        Packed sequences have ``documents`` (``packing.py``) as a second array, and zeros as padding.
        """
        random = np.random.default_rng([settings.seed, rank])
        shape = (settings.batch_per_device, settings.sequence_length + 1)
        tokens = random.integers(ARCHITECTURES[settings.model].vocabulary, size=shape)
        if not settings.packed:
            return (tokens,)
        documents = _documents(settings)
        return np.where(documents > 0, tokens, 0), documents

    def unrelated(self, settings: CausalSettings, rank: int) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """Return two packed batches that differ in padding before a document, which attention must not reach."""
        if not settings.packed:
            return None
        random = np.random.default_rng([settings.seed, rank, settings.sequence_length])
        shape = (settings.batch_per_device, settings.sequence_length + 1)
        vocabulary = ARCHITECTURES[settings.model].vocabulary
        first, second = (random.integers(vocabulary, size=shape) for _ in range(2))
        documents = np.zeros(shape, np.int64)
        documents[:, shape[1] // 2 :] = 1
        return (first, documents), (np.where(documents > 0, first, second), documents)

    def labels(self, _settings: CausalSettings, batch: Sequence[Any]) -> tuple[Any, float]:
        """Return the tokens that are predicted."""
        tokens = batch[0][:, 1:]
        return tokens if len(batch) == 1 else tokens[predicted(batch[1])], LARGEST_SHARE

    def count_samples(self, settings: CausalSettings) -> int | None:
        """Return the sequences that the file of tokens has, by its size."""
        return count_sequences(settings.data, settings.sequence_length)

    def plain_loss(self, _settings: CausalSettings, batch: Sequence[Any], alone: Any) -> PlainLoss | None:
        """Return the mean over all predicted tokens, from the own pass's loss of each or from its logits."""
        losses = getattr(alone, "target_losses", None)
        if losses is None:
            losses = losses_of_tokens(getattr(alone, "logits", None), batch[0])
        if losses is None:
            return None
        if len(batch) > 1:
            return packed_loss(losses, batch[1])
        half = losses.shape[1] // 2
        mistakes = {
            **halves(losses),
            "it counts only the first half of the tokens": float(losses[:, :half].mean()),
            "it counts only the second half of the tokens": float(losses[:, half:].mean()),
            "it counts only every second token": float(losses[:, ::2].mean()),
        }
        return PlainLoss(float(losses.mean()), losses.size, mistakes)

    def check(self, settings: CausalSettings) -> Check:
        return Check(
            shapes=ARCHITECTURES[settings.model].shapes(),
            inputs=("tokens", "documents") if settings.packed else ("tokens",),
            facts={**self.requested(settings), **({"packed": True} if settings.packed else {})},
            layers=describe_products,
            outputs=describe_logits,
        )


def packed_loss(losses: Any, documents: Any) -> PlainLoss:
    """Return the mean of the losses (batch, length) of the tokens that are predicted within a document."""
    counts = predicted(documents)
    row = len(losses) // 2
    mistakes = {"it counts padding, and each document's first token": float(losses.mean())}
    tokens = documents[:, 1:] > 0
    if (tokens & ~counts).any():
        mistakes["it counts the first token of the next document"] = float(losses[tokens].mean())
    if row:
        mistakes["it counts only the first half of the batch"] = float(losses[:row][counts[:row]].mean())
        mistakes["it counts only the second half of the batch"] = float(losses[row:][counts[row:]].mean())
        sums, numbers = (losses * counts).sum(axis=1), np.maximum(counts.sum(axis=1), 1)
        mistakes["it is the mean of the sequences' means"] = float((sums / numbers).mean())
    return PlainLoss(float(losses[counts].mean()), int(counts.sum()), mistakes)


def losses_of_tokens(logits: Any, tokens: Any) -> Any:
    """Return each token's cross entropy (batch, length); None without logits (batch, length, vocabulary) of all."""
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


def _documents(settings: CausalSettings) -> Any:
    """Return the ``documents`` of a rank's synthetic batch (``packing.py``)."""
    length = settings.sequence_length
    return number(pack(settings.batch_per_device, length, settings.seed), length)
