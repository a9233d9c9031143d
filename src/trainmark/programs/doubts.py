"""Doubts that several programs' logs raise for one reason."""

import re
from collections.abc import Iterator

from trainmark.logs.format import LogContext
from trainmark.logs.model import Problem


def resumed_averages(
    context: LogContext, beginning: re.Pattern[bytes], start: int | None = None
) -> Iterator[Problem]:
    """Yield a doubt where averages since the start are of fewer steps than the counter says.

    ``start`` is the step from which the log says that the run goes on; without it, a log that has its ``beginning``
    and whose first record is of a later step was resumed.
    """
    first = context.first_step or 0
    if not start and first > 2 * context.step_interval and beginning.search(context.head):
        start = first - context.step_interval
    if start:
        sentence = (
            f"the run goes on from iteration {start}: its averages are of fewer iterations than are counted"
        )
        yield Problem("resumed", sentence)


_MODEL_PARALLEL = re.compile(
    rb"\b(?:(?:tensor_|pipeline_)?model|pipe|tensor|pipeline)_parallel_size[\"']?(?: \.{3,} ?|[=:] *)(\d+)\b"
)


def model_parallel(context: LogContext) -> Iterator[Problem]:
    """Yield a doubt where several devices hold one model: a batch that is given counts for each group of them."""
    sizes = {int(size) for size in _MODEL_PARALLEL.findall(context.text) if len(size) < 6}
    if largest := max((size for size in sizes if size > 1), default=0):
        sentence = (
            f"the log says a model-parallel size of {largest}: a batch of one device, times all devices, counts the "
            "same samples several times"
        )
        yield Problem("model-parallel", sentence)
