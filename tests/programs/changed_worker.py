"""The built-in worker with one change that keeps it running and makes its number another one's: for tests of witnesses.

``changed_worker.py CHANGE FLAG…``. Those in ``LATER`` begin at step 3, behind the look at the first step.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"))
start = importlib.import_module("start")
program: Any = importlib.import_module("trainmark_worker.core.program")
feeds: Any = importlib.import_module("trainmark_worker.core.feed")
images: Any = importlib.import_module("trainmark_worker.tasks.image_classification.task")
loading: Any = importlib.import_module("trainmark_worker.tasks.image_classification.loading")
normalisation: Any = importlib.import_module("trainmark_worker.tasks.image_classification.normalisation")

FROM_STEP = 3


def replace(owner: Any, name: str, by: Any) -> None:
    setattr(owner, name, by)


def at_step_3(change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a change that is made to a training when its third step begins."""

    def later(training: Any) -> None:
        train = training.train

        def until_then(index: int) -> None:
            if index == FROM_STEP:
                training.train = train
                change(training)
                training.train(index)
            else:
                train(index)

        training.train = until_then

    return later


# In any framework.


def pictures_of_half_the_size() -> None:
    """Made-up and real ones, as when a constant of another experiment was left."""
    synthetic, init = images.ImageClassification.synthetic, loading.Photos.__init__

    def smaller(self: Any, settings: Any, rank: int) -> Any:
        pictures, labels = synthetic(self, settings, rank)
        return pictures[:, :, ::2, ::2].copy(), labels

    def halved(self: Any, *words: Any) -> None:
        init(self, *words)
        self.size //= 2

    replace(images.ImageClassification, "synthetic", smaller)
    replace(loading.Photos, "__init__", halved)


def no_normalisation() -> None:
    """Bytes as they are."""
    normalisation.MEAN, normalisation.DEVIATION = (0.0,) * 3, (1 / 255,) * 3


def one_loaded_batch() -> None:
    """Loaded once, and trained on ever after."""
    following = feeds.LoadedFeed.next

    def first(self: Any) -> Any:
        if not hasattr(self, "first"):
            self.first = following(self)
        return self.first

    replace(feeds.LoadedFeed, "next", first)


def steps_left_out(training: Any) -> None:
    """Every second step does nothing, and tells the loss of the one before."""
    train = training.train

    def every_second(index: int) -> None:
        if index % 2:
            train(index)
        elif isinstance(training._losses, list):
            training._losses.append(training._losses[-1])
            if hasattr(training.marks, "hand_over"):
                training.marks.hand_over(training._losses[-1])
        else:
            training._losses[index : index + 1] = training._losses[index - 1 : index]

    training.train = every_second


# In PyTorch.


def batch_norm_in_evaluation_mode(training: Any) -> None:
    """As after a validation that nobody ended."""
    training.model.eval()


def forward_only(training: Any) -> None:
    """A loss, and nothing else."""

    def train(index: int) -> None:
        training._loss_of[index].copy_(training._forward()[1].detach())

    training.train = train


def frozen_stem(training: Any) -> None:
    """As in fine-tuning."""
    next(iter(training.model.parameters())).requires_grad_(False)


def sixteen_bits(training: Any) -> None:
    """BF16, whatever was asked for."""
    import torch

    training.autocast = torch.autocast("cpu", dtype=torch.bfloat16)


def one_layer_in_bf16(training: Any) -> None:
    """One convolution, in the middle."""
    import torch

    layers = [module for module in training.model.modules() if isinstance(module, torch.nn.Conv2d)]
    forward = layers[9].forward

    def rounded(inputs: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return forward(inputs)

    layers[9].forward = rounded


def gradients_summed(training: Any) -> None:
    """The all-reduce's sum, which nobody divided."""
    average, ranks = training.exchange.average, training.ranks.place.world_size

    def summed() -> None:
        average()
        for parameter in training.model.parameters():
            parameter.grad.mul_(ranks)

    training.exchange.average = summed


def no_all_reduce(training: Any) -> None:
    """Each rank on its own, and rank 0's weights for all when the window is over."""
    import torch.distributed as dist

    digest = training.digest
    training.network, training.exchange.average = training.model, lambda: None

    def broadcast() -> Any:
        for parameter in training.model.parameters():
            dist.broadcast(parameter.data, 0)
        return digest()

    training.digest = broadcast


def another_momentum(training: Any) -> None:
    """That of another recipe."""
    for group in training.optimizer.param_groups:
        group["momentum"] = 0.5


def decay_of_everything(training: Any) -> None:
    """A hundred times as much of it."""
    for group in training.optimizer.param_groups:
        group["weight_decay"] = 0.1


BEFORE: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "half-size": pictures_of_half_the_size,
    "no-normalisation": no_normalisation,
    "one-batch": one_loaded_batch,
}
LATER: dict[str, Callable[[Any], None]] = {
    "steps-left-out": steps_left_out,
    "batch-norm-evaluates": batch_norm_in_evaluation_mode,
    "forward-only": forward_only,
    "frozen-stem": frozen_stem,
    "bf16": sixteen_bits,
    "one-layer-in-bf16": one_layer_in_bf16,
    "gradients-summed": gradients_summed,
    "no-all-reduce": no_all_reduce,
    "momentum": another_momentum,
    "decay": decay_of_everything,
}


def main(change: str, flags: list[str]) -> int:
    """Run the worker so changed, and return its exit code."""
    if change in BEFORE:
        BEFORE[change]()
    else:
        imported = program.import_trainer

        def changed(*words: Any) -> Any:
            trainer = imported(*words)
            opened = trainer.open_training

            def open_training(*given: Any) -> Any:
                training = opened(*given)
                at_step_3(LATER[change])(training)
                return training

            trainer.open_training = open_training
            return trainer

        program.import_trainer = changed
    return int(program.main(flags))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
