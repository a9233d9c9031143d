"""The base of every framework's training of a language model: its file of tokens, and what its first step observes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.feed import Feed, MappedFile, Numbered
from ...core.outcomes import FAILED, INVALID, RunError
from ...core.place import Place
from ...core.task import Task
from ...core.training import Training
from . import TASK
from .architectures import ARCHITECTURES
from .packing import predicted
from .settings import LanguageSettings
from .task import USEFUL


class TokenFile(MappedFile):
    """A file of tokens; its manifest says their type, else they are of 2 bytes."""

    def __init__(self, source: str, vocabulary: int, length: int) -> None:
        """Open a file or its folder; raise ``RunError`` if it is missing, cut, too short or of a larger vocabulary."""
        super().__init__(source, vocabulary, length)
        self._vocabulary, self._length = vocabulary, length
        kind = np.dtype(self.manifest.get("type", "uint16")).newbyteorder("<")
        self._tokens = self.map(kind, 1, "token", self.manifest.get("spec", {}).get("tokens")).reshape(-1)
        tokens = len(self._tokens)
        if tokens < length + 1:
            few = f"too few for one sequence of {length} and the token after it"
            raise RunError(FAILED, f"{self.path} has {tokens} tokens, {few}")
        if self.manifest.get("vocabulary", 0) > vocabulary:
            theirs = self.manifest["vocabulary"]
            raise RunError(FAILED, f"{self.path} has a vocabulary of {theirs}, the model one of {vocabulary}")
        self.sequences = (tokens - 1) // length

    def rows(self, numbers: Any) -> Any:
        """Return sequences (numbers, length + 1) in int64; raise ``RunError`` for a token outside of the vocabulary."""
        rows = np.empty((len(numbers), self._length + 1), np.int64)
        for row, number in zip(rows, numbers):
            start = int(number) * self._length
            row[:] = self._tokens[start : start + self._length + 1]
        if rows.max() >= self._vocabulary:
            place, within = np.unravel_index(int(rows.argmax()), rows.shape)
            found = f"token {int(numbers[place]) * self._length + int(within)} of {self.path} is {rows.max()}"
            raise RunError(FAILED, f"{found}, outside of the model's vocabulary of {self._vocabulary}")
        return rows

    def batch(self, numbers: Any) -> tuple[Any, ...]:
        """Return the sequences of these numbers, as the task's batch has them."""
        return (self.rows(numbers),)


class LanguageTraining(Training):
    """One rank that trains a language model.

    A batch is an int64 array of tokens (batch, length + 1), and of packed sequences a second one of their ``documents``
    (``packing.py``): their loss is the mean over the tokens that ``predicted`` counts, of all ranks.

    In ``observed_config`` the type and the length are of the first block's first product, ``accumulation`` counts the
    parts that were passed, and ``batch_per_device`` is their sequences together. ``observed_step`` returns the
    ``ObservedLayers`` of ``products.py``.
    ``Decoder.shapes`` has the names and shapes of the weights.
    """

    task: Task[Any] = TASK
    settings: LanguageSettings
    # Of observed layers of the first step by name, the first product and ``STREAM`` among them: type and shape.
    first: dict[str, tuple[str, Any]]

    watched_products: Sequence[str] = ()  # the other products that are observed in the first step

    def open_loader(self, settings: Any, place: Place) -> Feed | None:
        vocabulary = ARCHITECTURES[settings.model].vocabulary
        file = TokenFile(settings.data, vocabulary, settings.sequence_length)
        return self.open_numbers(Numbered(file.sequences, file.batch, self.from_loader), settings, place)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return self.task.decays(name)

    def actual(self) -> dict[str, Any]:
        """Return the observations of the first step; the useful tokens that are counted must be those of the batch."""
        found, work = super().actual(), self.task.work(self.settings, self.settings.batch_per_device)
        batch = self.read_batch() if USEFUL in work and self.settings.equivalence is None else None
        if batch is None:
            return found
        there = int(predicted(batch[1]).sum())
        if there != work[USEFUL]:
            reason = f"{work[USEFUL]} useful tokens of a batch are counted, but it has {there}"
            raise RunError(INVALID, reason)
        return {**found, USEFUL: there}
