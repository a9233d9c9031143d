"""A rank's training in MindSpore: builds everything before the first step, then does one step after another."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Mapping, Optional

import mindspore as ms
import numpy as np

from ...core.choices import one_of, require_version
from ...core.facts import Expected, Facts
from ...core.feed import Feed
from ...core.host import cpu_name
from ...core.place import Place
from ...core.window import HostMarks, slots_for
from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.facts import Seen, layout_by_axes
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ..cluster import Cluster
from ..compilers import GRAPH, choose_mode
from ..device import bind_threads, check_device, tasks
from ..precision import Precision, choose_precision, loss_scaler, with_precision
from . import observing
from .models import build_model
from .step import NetworkWithLoss, make_optimizer, make_step
from .witness import HookWitness, in_graph


def open_training(settings: ImageSettings, place: Place) -> MindSporeTraining:
    """Return the training, ready for its first step.

    What MindSpore cannot do on a CPU raises ``RunError`` (unsupported) before the ranks meet, so that no rank waits
    for one that has left.
    """
    require_version("MindSpore", ms.__version__, (2, 4))
    check_device(settings.device)
    precision = choose_precision(settings.precision)
    one_of("MindSpore on a CPU", "layout", settings.layout, ("nchw",))
    ms.set_device("CPU")
    choose_mode(settings.compiler)
    before = tasks()
    feed = _open_feed(settings, place)
    loading = tasks() - before
    ranks = Cluster(place)
    # Only now, since the scheduler that rank 0 has started would inherit it.
    bind_threads(settings.threads, place, loading)
    return MindSporeTraining(settings, ranks, precision, feed)


def to_batch(images: Any, labels: Any) -> Any:
    """Return images (batch, 3, size, size) in float32 and labels (batch,) in int32 as tensors."""
    return ms.Tensor(images.astype(np.float32)), ms.Tensor(labels.astype(np.int32))


class MindSporeTraining(ImageTraining):
    """Model, optimizer, batches and marks of one rank."""

    def __init__(
        self, settings: ImageSettings, ranks: Cluster, precision: Precision, feed: Optional[Feed]
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        # On a CPU, a step has been computed when its call returns.
        super().__init__(settings, ranks, HostMarks(slots_for(settings.steps)), to_batch, feed)
        self._precision = precision

        ms.set_seed(settings.seed)
        recipe = settings.recipe
        self.model = build_model(settings.model, settings.classes)
        self._parameters = self.model.trainable_params()
        self._shared = observing.named_parameters(self.model, settings.model)
        self._compiled = settings.compiler == GRAPH
        self._hook = None if self._compiled else HookWitness(self.model)
        optimizer = make_optimizer(self.model, recipe, self.rates)
        self._scaler = loss_scaler(precision, recipe)
        self.train_step = make_step(
            NetworkWithLoss(with_precision(self.model, precision), recipe.label_smoothing),
            optimizer,
            ranks.reducer(optimizer.parameters),
            self._scaler,
        )
        self._losses: List[Any] = []
        self._compile_s = 0.0

    def train(self, index: int) -> None:
        """Train on the batch at hand; the optimizer has the rates of all steps."""
        if index == 0 and self._compiled:
            started = time.perf_counter()
            self.train_step.compile(*self.batch)
            self._compile_s = time.perf_counter() - started
        self._losses.append(self.train_step(*self.batch))

    def synchronize(self) -> None:
        """Wait for the update of the last parameter; there is no device of which to wait for all."""
        self._parameters[-1].asnumpy()

    def facts(self) -> Facts:
        """Return what the run is made of."""
        return Facts(
            framework_version=ms.__version__,
            device="cpu",
            device_name=cpu_name(),
            parameters=sum(parameter.size for parameter in self._parameters),
            threads=len(os.sched_getaffinity(0)),
            implementation="mindspore.nn.Momentum",
            loss_scaled=self._scaler is not None,
            compiler_mode="GRAPH_MODE" if self._compiled else "PYNATIVE_MODE, blocking",
            others={"amp_level": self._precision.amp_level},
        )

    def seen(self) -> Seen:
        """Return what the second convolution gave, and how its weights are kept."""
        second = ARCHITECTURES[self.settings.model].convolutions[1]
        output = in_graph(self.train_step) if self._hook is None else self._hook.look()
        weight = self._shared[second.name + ".conv.weight"]
        return Seen(
            compute_dtype=output.dtype,
            weight_dtype=str(weight.dtype).lower(),
            activation_layout=layout_by_axes(output.shape, second.outputs),
            weight_layout=layout_by_axes(tuple(weight.shape), second.weight_shape[1]),
            batch_per_device=output.shape[0],
        )

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(str(self._precision.compute).lower())

    def compile_s(self) -> Optional[float]:
        """Return the seconds that compiling the step took in the first one."""
        return self._compile_s if self._compiled else None

    def compilations(self) -> Optional[int]:
        """Return how many programs MindSpore keeps of the step: another shape or type makes another one."""
        return len(self.train_step.compile_cache) if self._compiled else 0

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss.asnumpy()) for loss in self._losses]

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(self._shared, weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(self._shared)

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network, loss and batch."""
        return observing.observe(
            self.model, self.settings.model, self.train_step.forward, self.batch, self._shared
        )


def _open_feed(settings: ImageSettings, place: Place) -> Optional[Feed]:
    if settings.synthetic:
        return None
    from .loader import open_loader

    return open_loader(settings, place)
