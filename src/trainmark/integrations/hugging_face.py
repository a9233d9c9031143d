"""A callback that measures the training of transformers' ``Trainer``."""

from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback

from trainmark.integrations.batch_size import work_of_batch
from trainmark.training_loop import LoopMeasurement, LoopResult, measure


class HuggingFaceCallback(TrainerCallback):  # type: ignore[misc] # transformers' classes are Any here
    """Measure the optimizer steps of a ``Trainer``; rank 0 prints the number at the end of the training.

    ``unit`` is ``samples`` or ``tokens`` (elements of ``input_ids``, with padding); ``work`` counts another unit in the
    keyword arguments of the model's forward pass. ``warmup`` optimizer steps are left out. Evaluations and checkpoints
    within the window are part of its time, and put the number in doubt.

    Example::

        trainer = Trainer(model, args, train_dataset=data, callbacks=[HuggingFaceCallback(unit="tokens")])
        trainer.train()
    """

    def __init__(
        self,
        unit: str = "samples",
        *,
        warmup: int = 10,
        work: Callable[[Mapping[str, Any]], int] | None = None,
        quiet: bool = False,
    ) -> None:
        self._measure: LoopMeasurement = measure(unit=unit, warmup=warmup, quiet=quiet)
        self._unit, self._work = unit, work
        self._counted = 0
        self._hook: Any = None

    @property
    def result(self) -> LoopResult:
        """The measured window; raises ``RuntimeError`` before the training has ended."""
        return self._measure.result

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the work of each forward pass of the model, and start the clock."""
        self._hook = kwargs["model"].register_forward_pre_hook(self._count, with_kwargs=True)
        self._measure.__enter__()

    def _count(self, model: Any, positional: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if model.training:
            batch = named or positional
            self._counted += self._work(named) if self._work else work_of_batch(batch, self._unit)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End an optimizer step."""
        self._measure.step(self._counted)
        self._counted = 0

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note an evaluation in the window."""
        self._measure.note_other_work("an evaluation")

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note a checkpoint in the window."""
        self._measure.note_other_work("a checkpoint")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the window, and write the events."""
        self._hook.remove()
        self._measure.__exit__(None, None, None)
