"""The network and its loss as one layer, run operator by operator or compiled: the ``compiler`` axis in Paddle."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional, Tuple

import paddle
from paddle import nn
from paddle.static import InputSpec

from ...core.choices import one_of
from ...core.outcomes import UNSUPPORTED, RunError
from ...tasks.image_classification.settings import ImageSettings

NONE = "none"
BACKENDS: Dict[str, Optional[str]] = {NONE: None, "to_static": None, "to_static-cinn": "CINN"}


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


def check_compiler(name: str) -> None:
    """Raise ``RunError`` if this Paddle has no such compiler.

    ``to_static`` takes CINN as a backend from any build, and leaves it out without a word where it is not there.
    """
    one_of("PaddlePaddle", "compiler", name, BACKENDS)
    if BACKENDS[name] == "CINN" and not paddle.is_compiled_with_cinn():
        raise RunError(
            UNSUPPORTED, f"{name}: this PaddlePaddle is built without the compiler CINN, as PyPI's is"
        )


def compile_learner(learner: Learner, settings: ImageSettings) -> None:
    """Let the learner run as one program of static shapes from its first call on; nothing is compiled yet.

    ``full_graph``: all of it, or an error; never a part that falls back to Python unnoticed.
    """
    if settings.compiler == NONE:
        return
    side = settings.image_size
    shape = [settings.batch_per_device, 3, side, side]
    if settings.layout == "nhwc":
        shape = [settings.batch_per_device, side, side, 3]
    specification = [InputSpec(shape, "float32"), InputSpec(shape[:1], "int64")]
    paddle.jit.to_static(
        learner, input_spec=specification, backend=BACKENDS[settings.compiler], full_graph=True
    )


def trace(learner: Learner, batch: Tuple[Any, Any]) -> float:
    """Compile the learner for the batch, as its first call would; return the seconds that it took."""
    program: Any = learner.forward
    started = time.perf_counter()
    program.get_concrete_program(*batch)
    return time.perf_counter() - started


def programs(learner: Learner) -> int:
    """Return how many programs were compiled so far: none for a learner that runs operator by operator."""
    return len(getattr(learner.forward, "program_cache", ()))
