"""Marks for a framework that runs ahead: when a step's result was there, by the host's clock."""

from __future__ import annotations

import time
from typing import Any, Callable

from ..core.window import HostMarks


class CompletionMarks(HostMarks):
    """Notes when each step's loss is ready, with the host never more than one step ahead of the device.

    JAX has no events to record. So the end of a step is seen by waiting for its loss, but only when the step
    after it was handed over already: the device always has its next work while the host waits.
    """

    def __init__(self, slots: int, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        """Make room for ``slots`` marks."""
        super().__init__(slots, clock_ns)
        self._result: Any = None
        self._slot = -1
        self._handed: Any = None

    def hand_over(self, result: Any) -> None:
        """Take the result by which the next mark is known to be reached."""
        self._handed = result

    def mark(self, slot: int) -> None:
        """Note the end of what was marked before, and remember this mark; without any work before it, it is now."""
        self.synchronize()
        if self._handed is None:
            super().mark(slot)
            return
        self._result, self._slot, self._handed = self._handed, slot, None

    def synchronize(self) -> None:
        """Wait for the last mark that was not reached yet."""
        if self._result is not None:
            self._result.block_until_ready()
            super().mark(self._slot)
            self._result = None
