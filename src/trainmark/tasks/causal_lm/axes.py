"""The axes of causal language modelling."""

from trainmark.schema.case import Count
from trainmark.schema.task_catalogue import TaskAxes


class LanguageAxes(TaskAxes):
    """The axes; ``sequence_length`` is in tokens, and a device's batch is passed in ``accumulation`` parts."""

    sequence_length: Count = 1024
    accumulation: Count = 1

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return the compiler, ``1024tok``, and ``acc4`` if the batch is split."""
        return (
            compiler,
            f"{self.sequence_length}tok",
            *([f"acc{self.accumulation}"] if self.accumulation > 1 else []),
        )
