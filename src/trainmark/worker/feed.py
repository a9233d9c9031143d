"""Where a step's batch comes from, whatever the framework."""

from __future__ import annotations

from typing import Any, Optional


class Feed:
    """A source of batches without end; what a batch is, each framework says for itself."""

    epoch_images: int
    """Images in an epoch: of the data set, or as many as the settings say."""

    decoder: Optional[str] = None
    """What decodes the images; None where they are made up."""

    wait_s: float = 0.0
    """How long the last call of ``next`` waited for the loader."""

    def next(self) -> Any:
        """Return the next batch; the device may still be filling it, in the order of its work."""
        raise NotImplementedError

    def close(self) -> None:
        """End threads and processes."""
