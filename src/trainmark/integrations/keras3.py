"""A callback that measures the training of Keras 3."""

from collections.abc import Mapping
from typing import Any

import keras

from trainmark.training_loop import LoopMeasurement, LoopResult, measure


class KerasCallback(keras.callbacks.Callback):  # type: ignore[misc] # Keras' classes are Any here
    """Measure the batches of ``model.fit``; it prints the number at the end of the training.

    ``work`` is the work of one batch in ``unit``, such as the batch size: Keras does not tell a callback. The last
    batch of an epoch counts as a whole one, so leave out a smaller one (``drop_remainder=True``). ``warmup`` batches
    are left out. A validation within the window is part of its time, and puts the number in doubt.

    Example::

        model.fit(data.batch(64, drop_remainder=True), callbacks=[KerasCallback(64, unit="samples")])
    """

    def __init__(self, work: int, *, unit: str = "samples", warmup: int = 10, quiet: bool = False) -> None:
        super().__init__()
        wait = self._wait if _computes_later() else None
        self._measure: LoopMeasurement = measure(unit=unit, warmup=warmup, synchronize=wait, quiet=quiet)
        self._work = work
        self._logs: Mapping[str, Any] = {}
        self._last_batch = -1

    @property
    def result(self) -> LoopResult:
        """The measured window; raises ``RuntimeError`` before the training has ended."""
        return self._measure.result

    def _wait(self) -> None:
        # The metrics of a step are known when the device has computed it.
        for value in self._logs.values():
            float(value)

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Start the clock."""
        self._measure.__enter__()

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Count the batches of the epoch from the first."""
        self._last_batch = -1

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """End a step; with ``steps_per_execution`` Keras calls it once for several batches."""
        self._logs = logs or {}
        self._measure.step(self._work * (batch - self._last_batch))
        self._last_batch = batch

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Note a validation in the window."""
        self._measure.note_other_work("a validation")

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """End the window, and write the events."""
        self._measure.__exit__(None, None, None)


def _computes_later() -> bool:
    """Return whether a step may return before the device has computed it, and ``measure`` cannot wait by itself."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow

        return bool(tensorflow.config.list_physical_devices("GPU"))
    return bool(backend != "torch")
