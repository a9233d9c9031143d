"""Doubts shared by several programs' logs."""

import re
from collections.abc import Iterator

from trainmark.logs.format import LogContext
from trainmark.logs.model import Problem

_MODEL_PARALLEL = re.compile(
    rb"\b(?:(?:tensor_|pipeline_)?model|pipe|tensor|pipeline)_parallel_size[\"']?(?: \.{3,} ?|[=:] *)(\d+)\b"
)


def model_parallel(context: LogContext) -> Iterator[Problem]:
    """Yield a doubt if several devices share one model, because a given batch then counts once per group of them."""
    sizes = {int(size) for size in _MODEL_PARALLEL.findall(context.text) if len(size) < 6}
    if largest := max((size for size in sizes if size > 1), default=0):
        sentence = (
            f"the log reports a model-parallel size of {largest}: a per-device batch times all devices counts the same "
            "samples several times"
        )
        yield Problem("model-parallel", sentence)
