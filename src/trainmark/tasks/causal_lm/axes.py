"""The axes of causal language modelling."""

from trainmark.schema.case import Count
from trainmark.schema.task_catalogue import TaskAxes


class LanguageAxes(TaskAxes):
    """``sequence_length`` is in tokens; a device's batch is ``accumulation`` parts, passed one after another."""

    sequence_length: Count = 1024
    accumulation: Count = 1

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return the compiler, ``1024tok``, and ``acc4`` where the batch is cut."""
        return (
            compiler,
            f"{self.sequence_length}tok",
            *([f"acc{self.accumulation}"] if self.accumulation > 1 else []),
        )
