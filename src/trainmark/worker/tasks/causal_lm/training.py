"""The base of every framework's training of a language model, and the observations of its first step."""

from dataclasses import dataclass
from typing import Any

from ...core import facts
from ...core.feed import Feed
from ...core.outcomes import INVALID, RunError
from ...core.place import Place
from ...core.task import Task
from ...core.training import Training
from . import TASK
from .architectures import is_norm
from .packing import predicted
from .settings import LanguageSettings
from .task import USEFUL
from .tokens import token_file


@dataclass(frozen=True)
class ObservedConfig(facts.ObservedConfig):
    """``compute_dtype`` and ``sequence_length`` are of the first block's first product.

    ``accumulation`` counts the parts that were passed, and ``batch_per_device`` is their sequences together.
    """

    sequence_length: int | None = None
    accumulation: int | None = None


class LanguageTraining(Training):
    """One rank that trains a language model.

    A batch is an int64 array of tokens (batch, length + 1), and of packed sequences a second one of their ``documents``
    (``packing.py``): their loss is the mean over the tokens that ``predicted`` counts, of all ranks.

    ``observed_config`` returns ``ObservedConfig``, ``observe`` the ``Observation`` of ``products.py`` and
    ``observed_step`` the ``ObservedLayers`` of ``task.py``. ``Decoder.shapes`` has the names and shapes of the weights.
    """

    task: Task[Any] = TASK
    settings: LanguageSettings

    def open_loader(self, settings: Any, place: Place) -> Feed | None:
        file = token_file(settings)
        return self.open_numbers(file.sequences, file.batch, settings, place, self.from_loader)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return not is_norm(name)

    def actual(self) -> dict[str, Any]:
        """Return the observations of the first step; the useful tokens that are counted must be those of the batch."""
        found, work = super().actual(), self.task.work(self.settings, self.settings.batch_per_device)
        batch = self.read_batch() if USEFUL in work and self.settings.equivalence is None else None
        if batch is None:
            return found
        there = int(predicted(batch[1]).sum())
        if there != work[USEFUL]:
            raise RunError(
                INVALID, f"{work[USEFUL]} useful tokens of a batch are counted, but it has {there}"
            )
        return {**found, USEFUL: there}
