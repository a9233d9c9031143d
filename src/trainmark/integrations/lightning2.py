"""A callback that measures the training of Lightning's ``Trainer``."""

from collections.abc import Callable
from typing import Any

from lightning.pytorch.callbacks import Callback

from trainmark.integrations.batch_size import work_of_batch
from trainmark.training_loop import LoopMeasurement, LoopResult, measure


class LightningCallback(Callback):  # type: ignore[misc] # Lightning's classes are Any here
    """Measure the training batches of a Lightning ``Trainer``; rank 0 prints the number at the end of the training.

    ``unit`` is ``samples`` or ``tokens``; ``work`` counts another unit in a batch. ``warmup`` batches are left out. A
    validation within the window is part of its time, and puts the number in doubt.

    Example::

        trainer = lightning.Trainer(max_steps=200, callbacks=[LightningCallback(unit="samples")])
        trainer.fit(module, loader)
    """

    def __init__(
        self,
        unit: str = "samples",
        *,
        warmup: int = 10,
        work: Callable[[Any], int] | None = None,
        quiet: bool = False,
    ) -> None:
        self._measure: LoopMeasurement = measure(unit=unit, warmup=warmup, quiet=quiet)
        self._unit, self._work = unit, work

    @property
    def result(self) -> LoopResult:
        """The measured window; raises ``RuntimeError`` before the training has ended."""
        return self._measure.result

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock."""
        self._measure.__enter__()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step."""
        self._measure.step(self._work(batch) if self._work else work_of_batch(batch, self._unit))

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Note a validation in the window."""
        if not trainer.sanity_checking:
            self._measure.note_other_work("a validation")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the window at an interrupt; record the failure of the run otherwise."""
        self._measure.__exit__(type(exception), exception, exception.__traceback__)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the window, and write the events."""
        self._measure.__exit__(None, None, None)
