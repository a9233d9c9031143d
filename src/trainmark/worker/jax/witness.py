"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, List, Tuple

from flax import linen as nn


class Witness:
    """Notes what the convolutions gave, while the step is called for the first time.

    The second one counts, because its input has been through the stem: its type is that of the network's inside. For
    a compiled step this is what was traced, and so what the program says; what XLA made of it stands in the text
    of the compiled program (``compiling.compiled_convolutions``).
    """

    def __init__(self) -> None:
        """Have seen nothing so far."""
        self._outputs: List[Tuple[str, Tuple[int, ...]]] = []

    def watching(self) -> "AbstractContextManager[Any]":
        """Return the context in which Flax's layers are watched."""
        return nn.intercept_methods(self._see)

    def _see(self, call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        output = call(*args, **kwargs)
        if isinstance(context.module, nn.Conv) and context.method_name == "__call__":
            self._outputs.append((str(output.dtype), tuple(output.shape)))
        return output

    def compute_dtype(self) -> str:
        """Return the type of the convolution's output, like ``bfloat16``."""
        return self._outputs[1][0]

    def batch(self) -> int:
        """Return the images that the convolution got at once."""
        return self._outputs[1][1][0]
