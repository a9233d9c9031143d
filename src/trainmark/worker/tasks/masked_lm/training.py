"""The base of every framework's training of masked language modelling."""

from dataclasses import dataclass
from typing import Any

from ...core.feed import Feed
from ...core.outcomes import INVALID, RunError
from ...core.place import Place
from ..causal_lm import training as causal_lm
from ..products import DropoutTraining
from . import TASK
from .architectures import decays
from .records import RecordFiles
from .task import LENGTHS, WITHOUT_PADDING, MaskedSettings


@dataclass(frozen=True)
class ObservedConfig(causal_lm.ObservedConfig):
    """``predictions`` are the words of a sequence that were classified."""

    predictions: int | None = None


class MaskedTraining(DropoutTraining, causal_lm.LanguageTraining):
    """One rank. Its batch is what ``MaskedLM.synthetic`` returns; names and shapes of weights are ``Bert.shapes``.

    The words' loss is ``sum(weights * losses) / sum(weights)`` over the batches of all ranks: before a batch is cut
    into parts, its weights are divided by the mean of their sums over parts and ranks, so that the mean of what the
    parts and ranks give is that quotient. A model that gets weights so divided adds ``weights * losses`` up.

    ``observed_config`` returns ``ObservedConfig``; the logits of an ``Observation`` are the words',
    (batch, predictions, vocabulary).
    """

    task = TASK
    settings: MaskedSettings

    def open_loader(self, settings: Any, place: Place) -> Feed | None:
        """Return a feed that counts the tokens of each batch."""
        files = RecordFiles(settings.data, settings)
        counts: list[int] = []

        def ready(batch: Any) -> Any:
            counts.append(int(batch[LENGTHS].sum()))
            return self.from_loader(batch)

        feed = self.open_numbers(files.sequences, files.rows, settings, place, ready)
        feed.counted = counts
        return feed

    def decays(self, name: str) -> bool:
        return decays(name)

    def observed_predictions(self) -> int | None:
        """Return the words of a sequence that the first step classified. Called once; hooks may be removed here."""
        raise NotImplementedError

    def observed_config(self) -> ObservedConfig:
        found = super().observed_config()  # type: ignore[safe-super]  # a backend's class follows
        return ObservedConfig(**vars(found), predictions=self.observed_predictions())

    def counted(self, first: int, last: int) -> dict[str, int]:
        """Return the tokens of these steps that were no padding, of sequences that are read."""
        read = self.feed.counted
        return {} if read is None else {WITHOUT_PADDING: sum(read[first:last])}

    def actual(self) -> dict[str, Any]:
        """Return what the first step used; the tokens that are counted must be those that are no padding."""
        found = super().actual()
        if not self.settings.padded:
            return found
        batch = self.read_batch()
        assert batch is not None
        there, read = int(batch[LENGTHS].sum()), self.feed.counted
        work = self.task.work(self.settings, self.settings.batch_per_device)
        counts = read[-1] if read else work[WITHOUT_PADDING]
        if there != counts:
            raise RunError(
                INVALID, f"{counts} tokens of a batch are counted as non-padding, but it has {there}"
            )
        return {**found, WITHOUT_PADDING: there}
