"""What a framework's worker has to offer, so that the timing protocol and the events are the same for all."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .window import Steps


class ConvolutionSeen(NamedTuple):
    """What the framework's own objects say of a convolution, and what came out of it.

    ``padding`` is ((top, bottom), (left, right)); ``output`` is (batch, channels, height, width) whatever the
    layout; ``output_norm`` is the square root of the sum of the squares of all output values.
    """

    name: str
    kernel: Tuple[int, int]
    stride: Tuple[int, int]
    padding: Tuple[Tuple[int, int], Tuple[int, int]]
    groups: int
    output: Tuple[int, int, int, int]
    output_norm: float


class Observation(NamedTuple):
    """One forward and backward pass without an update, in training mode; arrays are numpy's, float32.

    ``gradients`` are those of the loss alone (no weight decay in them), by the names and in the shapes of
    ``architectures.Architecture.shapes``; ``logits`` is (batch, classes); ``convolutions`` are in forward order.
    """

    logits: Any
    loss: float
    gradients: Mapping[str, Any]
    convolutions: Sequence[ConvolutionSeen]


class Training(Steps):
    """One rank that is ready to train; a framework's package makes one with ``open_training(settings, place)``.

    The package also has ``stopped_by(error)``, which turns an exception of its framework into a ``RunError``, or
    returns None for one that it does not know. See ``docs/worker.md`` for how to add a framework.
    """

    epoch_images: int
    """Images in an epoch: of the data set, or of ImageNet for synthetic data."""

    data_waits_s: List[float]
    """For each step, how long the host waited for the loader in it (seconds)."""

    def describe(self) -> Dict[str, Any]:
        """Return what this run is made of, for the PARAMETER event: framework, device, decoder, …

        ``optimizer`` holds its name, its implementation and the loss scale; the recipe is added to it.
        """
        raise NotImplementedError

    def actual(self) -> Dict[str, Any]:
        """Return what the first step really used; raise ``RunError`` (invalid) if it was not what was asked."""
        raise NotImplementedError

    def compile_s(self) -> Optional[float]:
        """Return the seconds spent compiling so far, or None where nothing compiles or nobody counts."""
        raise NotImplementedError

    def losses(self) -> List[float]:
        """Return the loss of every step, averaged over the ranks. All ranks call it, after the window."""
        raise NotImplementedError

    def digest(self) -> int:
        """Return 63 bits of a digest over all trainable parameters, bit for bit."""
        raise NotImplementedError

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held (``describe`` says of what)."""
        raise NotImplementedError

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's ``values`` (64-bit), by rank. All ranks call it."""
        raise NotImplementedError

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics (numpy, float32), and leave the optimizer's state as it is.

        Names and shapes are those of ``architectures.Architecture.shapes``; all of them are given.
        """
        raise NotImplementedError

    def read_weights(self) -> Dict[str, Any]:
        """Return copies of the parameters and running statistics, as ``load_weights`` takes them."""
        raise NotImplementedError

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on: numpy, (batch, 3, height, width) in float32, and (batch,) in int64."""
        raise NotImplementedError

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the very model and loss of ``step``, and update no parameter.

        Running statistics may change; the caller loads them again.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Leave together with the other ranks, and end whatever was started."""
        raise NotImplementedError
