"""A training step as one CUDA graph: recorded once, then replayed, so that the host launches one thing a step."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import torch

from ..core.outcomes import INVALID, RunError

EAGER_STEPS = 2
"""Steps before the recording: in them cuDNN searches its algorithms, and Triton compiles."""


class CapturedStep:
    """Calls ``step(batch)``, which returns the loss as a tensor, or replays what it did the last time it was called.

    A graph reads from fixed addresses: every later batch is copied to where the recorded one lies, unless it is that
    one. What the step changes besides, and what changes it, must lie in tensors that stay (learning rate, loss scale).
    From its making on everything runs on a stream of its own, because the default stream cannot be recorded.
    """

    def __init__(
        self,
        step: Callable[[Tuple[Any, ...]], Any],
        device: Any,
        keep_batch: bool,
        recorded: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the step; ``keep_batch`` says that batches come and go, so that the recorded one is a copy.

        ``recorded`` is called when the recording is over.
        """
        self._step, self._keep, self._then = step, keep_batch, recorded
        self._graph: Optional[Any] = None
        self._eager = 0
        self.replays = 0
        """The number of replayed steps."""
        self._batch: Tuple[Any, ...] = ()
        self._loss: Optional[Any] = None
        torch.cuda.synchronize(device)
        torch.cuda.set_stream(torch.cuda.Stream(device))

    @property
    def recorded(self) -> bool:
        """Whether steps are replayed by now."""
        return self._graph is not None

    @property
    def recording(self) -> Tuple[Any, Tuple[Any, ...]]:
        """Return the graph and the batch that it reads; there is one after the third step."""
        assert self._graph is not None, "nothing is recorded yet"
        return self._graph, self._batch

    def release(self) -> None:
        """Let go of the graph: ranks cannot leave their group while one holds a collective of it."""
        torch.cuda.synchronize()
        self._graph, self._loss, self._batch = None, None, ()

    def __call__(self, batch: Tuple[Any, ...]) -> Any:
        """Do the step on this batch."""
        if self._graph is None:
            if self._eager < EAGER_STEPS:
                self._eager += 1
                for tensor in batch:
                    # The first was fetched before this stream was: its memory may be given away after this step alone.
                    tensor.record_stream(torch.cuda.current_stream())
                return self._step(batch)
            self._record(batch)
            assert self._graph is not None
        for kept, given in zip(self._batch, batch):
            if kept is given:
                continue
            if kept.shape != given.shape or kept.dtype != given.dtype:
                raise RunError(
                    INVALID,
                    f"a recorded step takes batches of {tuple(kept.shape)}, and one of {tuple(given.shape)} came",
                )
            kept.copy_(given)
        self._graph.replay()
        self.replays += 1
        return self._loss

    def _record(self, batch: Tuple[Any, ...]) -> None:
        self._batch = tuple(tensor.clone() for tensor in batch) if self._keep else batch
        torch.cuda.synchronize()
        # What the eager steps left in the allocator; the graph has memory of its own.
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        # Other threads (loaders, NCCL's watchdog) go on using CUDA meanwhile.
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            self._loss = self._step(self._batch)
        self._graph = graph
        self._then()
