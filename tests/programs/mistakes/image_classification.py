"""Those by which frameworks' own model zoos and optimizers really differ. All keep every shape."""

import importlib
from collections.abc import Callable
from typing import Any

architectures: Any = importlib.import_module("trainmark_worker.tasks.image_classification.architectures")


def replace(owner: Any, name: str, by: Any) -> None:
    assert hasattr(owner, name), f"there is no {name} to replace"
    setattr(owner, name, by)


def description_with(changes: dict[str, dict[str, int]]) -> None:
    """Change convolutions of every model's description, by name."""
    for model, architecture in list(architectures.ARCHITECTURES.items()):
        convolutions = tuple(
            conv._replace(**changes.get(conv.name, {})) for conv in architecture.convolutions
        )
        architectures.ARCHITECTURES[model] = architecture._replace(convolutions=convolutions)


def stride_in_the_wrong_convolution() -> None:
    """As ResNet v1 has it: the stride of a stage in its first 1x1; in MobileNet, in the 1x1 after the depthwise."""
    description_with(
        {
            "stage2.block0.a": {"stride": 2},
            "stage2.block0.b": {"stride": 1},
            "block1.depthwise": {"stride": 1},
            "block1.pointwise": {"stride": 2},
        }
    )


def padding_on_one_side() -> None:
    """As TensorFlow's SAME pads a stride of 2: all of it at the bottom and on the right."""
    from torch import nn

    units: Any = importlib.import_module("trainmark_worker.models.pytorch_image_classification")
    whole = units.nn.Conv2d

    class Padded(whole):  # type: ignore[misc, valid-type]
        def __init__(self, *words: Any, **named: Any) -> None:
            self.aside = named["padding"] == 1 and named["stride"] == 2
            super().__init__(*words, **{**named, "padding": 0} if self.aside else named)

        def forward(self, images: Any) -> Any:
            return super().forward(nn.functional.pad(images, (0, 1, 0, 1)) if self.aside else images)

    units.nn.Conv2d = Padded


def batch_norm_momentum() -> None:
    """As Keras' default has it."""
    # The module that looks at the statistics keeps the right one.
    observing: Any = importlib.import_module("trainmark_worker.tasks.image_classification.task")
    assert observing.NORM_MOMENTUM == 0.9
    architectures.NORM_MOMENTUM = 0.99


def rate_inside_the_velocity() -> None:
    """As Keras and MXNet keep it: ``v = m v + l g; w -= v``."""
    import torch

    def step(optimizer: Any, *_: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for weight in group["params"]:
                    gradient = weight.grad + group["weight_decay"] * weight
                    velocity = optimizer.state[weight]["momentum_buffer"]
                    velocity.mul_(group["momentum"]).add_(gradient, alpha=group["lr"])
                    weight.sub_(velocity)

    replace(torch.optim.SGD, "step", step)


def momentum_that_forgets() -> None:
    """Another momentum than the recipe's, whatever the flag says."""
    import torch

    whole = torch.optim.SGD.__init__

    def init(self: Any, *words: Any, **named: Any) -> None:
        whole(self, *words, **{**named, "momentum": 0.9})

    replace(torch.optim.SGD, "__init__", init)


def a_relu_is_missing() -> None:
    """The last ReLU of every block, after the sum; in MobileNet the last ReLU."""
    from torch import nn

    whole = nn.Sequential.__init__

    def init(self: Any, *modules: Any) -> None:
        last_relu = max((i for i, m in enumerate(modules) if isinstance(m, nn.ReLU)), default=-1)
        whole(
            self,
            *(nn.Identity() if i == last_relu and len(modules) > 12 else m for i, m in enumerate(modules)),
        )

    replace(nn.Sequential, "__init__", init)


def bounded_relus() -> None:
    """As MobileNetV2 and the models for phones have them: nothing above 6 comes through."""
    from torch import nn

    units: Any = importlib.import_module("trainmark_worker.models.pytorch_image_classification")
    replace(nn.ReLU, "forward", lambda self, given: nn.functional.relu6(given, inplace=self.inplace))
    assert units.nn is nn


def convolutions_with_biases() -> None:
    """As Keras' ResNet-50 has them: zero at first, and more parameters than the network has."""
    units: Any = importlib.import_module("trainmark_worker.models.pytorch_image_classification")
    whole = units.nn.Conv2d

    class Biased(whole):  # type: ignore[misc, valid-type]
        def __init__(self, *words: Any, **named: Any) -> None:
            super().__init__(*words, **{**named, "bias": True})

    units.nn.Conv2d = Biased
    # The worker asserts the number when it builds the network; here the check itself must find it.
    counted = architectures.Architecture.parameters

    def with_biases(self: Any, classes: int) -> int:
        biases: int = sum(conv.outputs for conv in self.convolutions)
        return int(counted(self, classes)) + biases

    replace(architectures.Architecture, "parameters", with_biases)


MISTAKES: dict[str, Callable[[], None]] = {
    "stride": stride_in_the_wrong_convolution,
    "padding": padding_on_one_side,
    "batch-norm-momentum": batch_norm_momentum,
    "rate-inside-velocity": rate_inside_the_velocity,
    "momentum": momentum_that_forgets,
    "relu": a_relu_is_missing,
    "relu6": bounded_relus,
    "convolutions-have-biases": convolutions_with_biases,
}
