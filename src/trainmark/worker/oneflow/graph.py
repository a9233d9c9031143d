"""``graph``: a training step as one ``nn.Graph``, with OneFlow's own schedule of the learning rate in it.

Written from OneFlow's documentation and source, and not run yet; nothing stands in for ``nn.Graph`` in the tests.
"""

from __future__ import annotations

import inspect
from typing import Any, Optional

import oneflow as flow
from oneflow import nn
from oneflow.optim import lr_scheduler

from ..core.outcomes import UNSUPPORTED, RunError
from ..core.schedule import STEP_EPOCHS
from ..core.settings import Recipe


class TrainGraph(nn.Graph):
    """One training step, compiled when it is first called: forward, backward, update, learning rate."""

    def __init__(
        self,
        network: Any,
        loss: Any,
        optimizer: Any,
        rates: Any,
        mixed: Optional[str],
        scale: Optional[float],
    ) -> None:
        """Take what an eager step consists of; ``mixed`` is the type for mixed precision, None for FP32.

        ``scale`` is the fixed loss scale of FP16, None for a dynamic one.
        """
        super().__init__()
        self.network, self.loss = network, loss
        self.builds = 0
        self.add_optimizer(optimizer, lr_sch=rates)
        self.config.allow_fuse_add_to_output(True)
        self.config.allow_fuse_model_update_ops(True)
        # As torch's ``cudnn.benchmark``: convolutions are tried out when the graph is compiled.
        self.config.enable_cudnn_conv_heuristic_search_algo(False)
        if mixed is not None:
            self._mix(mixed)
        if mixed == "float16":
            self.set_grad_scaler(
                flow.amp.GradScaler(init_scale=2.0**16) if scale is None else flow.amp.StaticGradScaler(scale)
            )

    def _mix(self, dtype: str) -> None:
        takes_type = "dtype" in inspect.signature(self.config.enable_amp).parameters
        if not takes_type and dtype != "float16":
            raise RunError(UNSUPPORTED, f"the graphs of OneFlow {flow.__version__} have no {dtype}")
        self.config.enable_amp(True, **({"dtype": getattr(flow, dtype)} if takes_type else {}))

    def build(self, inputs: Any, targets: Any) -> Any:
        """Describe the step; return its loss. OneFlow calls it once for each time that it compiles."""
        self.builds += 1
        loss = self.loss(self.network(inputs), targets)
        loss.backward()
        return loss


def rates_in_graph(optimizer: Any, recipe: Recipe, epoch_samples: int, global_batch: int) -> Any:
    """Return the schedule of ``schedule.py`` as OneFlow's own schedulers, the only ones that a graph takes.

    The warm-up of step i is (i + 1) / W of the rate: from 1 / W to 1 in W - 1 steps.
    """
    per_epoch = epoch_samples / global_batch
    warmup = round(recipe.warmup_epochs * per_epoch)
    if recipe.schedule == "cosine":
        after = round(max(recipe.epochs - recipe.warmup_epochs, 1) * per_epoch)
        then = lr_scheduler.CosineDecayLR(optimizer, decay_steps=max(after, 1))
    elif recipe.schedule == "step":
        milestones = [round(epoch * per_epoch) - warmup for epoch in STEP_EPOCHS]
        then = lr_scheduler.MultiStepLR(optimizer, milestones=milestones, gamma=0.1)
    else:
        then = lr_scheduler.ConstantLR(optimizer, factor=1.0, total_iters=0)
    if warmup == 0:
        return then
    first = lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=max(warmup - 1, 1))
    return lr_scheduler.SequentialLR(
        optimizer, schedulers=[first, then], milestones=[warmup], interval_rescaling=True
    )
