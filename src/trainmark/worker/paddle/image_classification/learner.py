"""The network and its loss as one layer."""

from __future__ import annotations

from typing import Any, List, Tuple

from paddle import nn
from paddle.static import InputSpec

from ...tasks.image_classification.settings import ImageSettings


class Learner(nn.Layer):
    """The network with the loss beside it, so that a compiled program holds both."""

    def __init__(self, network: nn.Layer, label_smoothing: float) -> None:
        """Take the network; the loss is the mean over the batch."""
        super().__init__()
        self.network = network
        self.loss = nn.CrossEntropyLoss(label_smoothing=label_smoothing)

    def forward(self, images: Any, labels: Any) -> Tuple[Any, Any]:
        """Return logits (batch, classes) and their loss, both in FP32."""
        # Paddle's cross entropy is in FP32 under AMP as well; the cast is nothing where logits are FP32.
        logits = self.network(images).astype("float32")
        return logits, self.loss(logits, labels)


def specification(settings: ImageSettings) -> List[InputSpec]:
    """Return shapes and types of images and labels."""
    side = settings.image_size
    shape = [settings.batch_per_device, 3, side, side]
    if settings.layout == "nhwc":
        shape = [settings.batch_per_device, side, side, 3]
    return [InputSpec(shape, "float32"), InputSpec(shape[:1], "int64")]
