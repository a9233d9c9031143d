"""Reading by the numbers of samples, as all frameworks' own loaders have text and clicks read."""

from collections.abc import Callable
from typing import Any

from ..core.outcomes import RunError
from ..core.queues import SampleCounter


class IndexedReader:
    """Reads the samples of some numbers, and counts those that it has read; it can be pickled."""

    def __init__(self, batch_of: Callable[[Any], tuple[Any, ...]]) -> None:
        """Take what reads them, as numpy's arrays."""
        self._batch_of, self.produced = batch_of, SampleCounter()

    def __call__(self, numbers: Any) -> tuple[Any, ...] | RunError:
        """Return the arrays, or what tells what went wrong: a loader's process cannot end the run."""
        try:
            arrays = tuple(self._batch_of(numbers))
        except RunError as stopped:
            return stopped
        self.produced.add(len(numbers), numbers)
        return arrays
