"""Loader processes for Gluon's DataLoader that fail the run when one of them ends."""

from __future__ import annotations

import signal
from multiprocessing.pool import Pool
from typing import Any, Dict, List, Optional

from ....core.outcomes import FAILED, RunError


class LoaderPool(Pool):
    """A pool that fails its pending results when a process ends, instead of forking a replacement.

    The results of that process would never come. A replacement is forked by a thread of the pool: before a fork MXNet
    waits for its operators while that thread has the interpreter's lock, which an operator's callback may need. Then
    the training hangs, and no signal but SIGKILL ends it.
    """

    _cache: Dict[int, Any]
    _terminate: Any

    def __init__(self, processes: int, **given: Any) -> None:
        """Start ``processes`` loader processes."""
        self._planned = processes
        self._loaders: List[Any] = []
        self._failure: Optional[RunError] = None
        super().__init__(processes, **given)

    def Process(self, context: Any, *words: Any, **given: Any) -> Any:  # type: ignore[override]  # noqa: N802
        """Return a new process at the start; later, as a replacement, end the calling thread of the pool."""
        if len(self._loaders) == self._planned:
            self._fail()
            raise SystemExit
        self._loaders.append(context.Process(*words, **given))
        return self._loaders[-1]

    def apply_async(self, *words: Any, **given: Any) -> Any:
        """Order a batch, or raise the ``RunError`` of a process that has ended."""
        if self._failure is not None:
            raise self._failure
        return super().apply_async(*words, **given)

    def terminate(self) -> None:
        """End the processes."""
        if self._failure is None:
            super().terminate()
            return
        # An ended process may hold the lock of the queue of orders, for which Pool.terminate would wait.
        self._terminate.cancel()
        for loader in self._loaders:
            loader.kill()

    def _fail(self) -> None:
        codes = [loader.exitcode for loader in self._loaders if loader.exitcode is not None]
        code = codes[0] if codes else 0
        ended = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._failure = RunError(FAILED, f"a loader process ended: {ended}")
        for result in list(self._cache.values()):
            result._set(0, (False, self._failure))
