"""What a framework's worker has to offer, so that the timing protocol and the events are the same for all."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from .window import Steps


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
        """Return what this run is made of, for the PARAMETER event: framework, device, optimizer, decoder, …"""
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

    def close(self) -> None:
        """Leave together with the other ranks, and end whatever was started."""
        raise NotImplementedError
