"""A worker with one mistake in it, for tests that must see it: ``mutated_worker.py MISTAKE FLAG…``, with ``--model``.

A mistake is one of all tasks, below, or one of the model's task, in ``mistakes/``.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"))
start = importlib.import_module("start")


def ranks_are_summed() -> None:
    """The gradients of all ranks added up, as an all-reduce without its division does."""
    distributed: Any = importlib.import_module("torch.distributed")
    gradients: Any = importlib.import_module("trainmark_worker.backends.pytorch.collectives")
    gradients.Sent._all_reduce = lambda _self, buffer: distributed.all_reduce(buffer)


def ranks_divide_twice() -> None:
    """The mean of all ranks, divided by their number once more."""
    gradients: Any = importlib.import_module("trainmark_worker.backends.pytorch.collectives")
    whole = gradients.Sent._all_reduce

    def divided(self: Any, buffer: Any) -> None:
        whole(self, buffer)
        buffer /= importlib.import_module("torch.distributed").get_world_size()

    gradients.Sent._all_reduce = divided


def ranks_clip_alone() -> None:
    """Each rank's gradients are clipped before the exchange, and not their mean after it."""
    training: Any = importlib.import_module(
        "trainmark_worker.models.pytorch_causal_lm"
    ).PyTorchLanguageTraining

    def step(self: Any, batch: Any) -> Any:
        self.batch = batch
        loss = self._pass()
        self.clip()
        self.exchange.average()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    training._whole_step = step


def own_losses() -> None:
    """No mistake: each rank prints the losses of its own batches."""
    training: Any = importlib.import_module("trainmark_worker.core.training").Training
    whole = training.losses

    def losses(self: Any) -> Any:
        sys.stdout.write(f"own losses {self.own_losses()}\n")
        return whole(self)

    training.losses = losses


MISTAKES: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "own-losses": own_losses,
    "ranks-summed": ranks_are_summed,
    "ranks-divide-twice": ranks_divide_twice,
    "ranks-clip-alone": ranks_clip_alone,
}


def mistakes_of(flags: list[str]) -> dict[str, Callable[[], None]]:
    """Return the mistakes in the task of the model that is asked for."""
    folders: Any = importlib.import_module("trainmark_worker.core.folders")
    # Of two equal flags the worker takes the last.
    *_, model = (word.partition("=")[2] for word in flags if word.startswith("--model="))
    task = folders.task_of_model(model).name.replace("-", "_")
    found: dict[str, Callable[[], None]] = importlib.import_module(f"mistakes.{task}").MISTAKES
    return found


if __name__ == "__main__":
    _, mistake, *words = sys.argv
    (MISTAKES.get(mistake) or mistakes_of(words)[mistake])()
    program: Any = importlib.import_module("trainmark_worker.core.program")
    sys.exit(program.main(words))
