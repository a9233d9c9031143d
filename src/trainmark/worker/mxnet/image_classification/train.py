"""A rank's training in MXNet: builds everything before the first step, then hands one step after another over."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

import mxnet as mx
from mxnet import autograd

from ...core.choices import one_of, own_gpu
from ...core.facts import Expected, Facts
from ...core.feed import Feed
from ...core.host import cpu_name, peak_resident_bytes
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.place import Place
from ...core.window import slots_for
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ..collectives import import_horovod, open_collective
from ..optimizer import Rate, optimizer_parameters
from ..precision import LossScale, Precision, choose_precision
from ..progress import Progress, in_engine
from . import observing
from .feed import ToDevice
from .loaders import open_loader
from .network import CrossEntropy, build_model, count_parameters, trainable
from .witness import Witness

NONE, HYBRIDIZE = "none", "hybridize"
COMPILERS: Dict[str, Optional[str]] = {NONE: None, HYBRIDIZE: "static_alloc, static_shape"}


def open_training(settings: ImageSettings, place: Place) -> MXNetTraining:
    """Return the training, ready for its first step.

    What the device or this MXNet cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no rank
    waits for one that has left.
    """
    if not mx.__version__.startswith("1.9."):
        raise RunError(UNSUPPORTED, f"MXNet 1.9 is needed; this is {mx.__version__}")
    context = choose_context(settings.device, place)
    one_of("MXNet", "compiler", settings.compiler, COMPILERS)
    if settings.layout == "nhwc" and context.device_type == "cpu":
        raise RunError(UNSUPPORTED, "MXNet's convolutions on a CPU know the layout nchw only")
    if settings.collective == "horovod" and place.world_size > 1:
        import_horovod()
    precision = choose_precision(settings.precision, context)
    feed = None if settings.synthetic else open_loader(settings, place, context)
    return MXNetTraining(settings, place, context, precision, feed)


class MXNetTraining(ImageTraining):
    """Model, trainer, batches and marks of one rank."""

    def __init__(
        self, settings: ImageSettings, place: Place, context: Any, precision: Precision, feed: Optional[Feed]
    ) -> None:
        """Build the model, meet the other ranks, and fetch the first batch."""
        recipe = settings.recipe
        mx.random.seed(settings.seed)
        self.model = build_model(settings.model, settings.classes, settings.layout.upper(), context)
        self.loss = CrossEntropy(recipe.label_smoothing)
        if settings.compiler == HYBRIDIZE:
            self.model.hybridize(static_alloc=True, static_shape=True)
            self.loss.hybridize(static_alloc=True, static_shape=True)
        self._witness = Witness(self.model, settings.model)
        if not recipe.bn_weight_decay:
            self.model.collect_params(".*_gamma|.*_beta").setattr("wd_mult", 0.0)

        weights = [parameter.data() for parameter in trainable(self.model)]
        self._progress = Progress(slots_for(settings.steps), weights)
        collective = open_collective(settings.collective, place, self._progress.fail)
        super().__init__(settings, collective, self._progress, ToDevice(settings, context), feed)
        self._context, self._precision = context, precision

        self.trainer = collective.trainer(self.model.collect_params(), optimizer_parameters(recipe))
        self.loss_scale = LossScale(precision, recipe, self.trainer)
        self._divisor = collective.divisor * self.loss_scale.divisor
        self._rate = Rate(self.trainer, recipe.momentum)
        # The losses stay in one array on the device, until the window is over.
        self._losses = mx.nd.full((settings.steps,), float("nan"), ctx=context)

    def step(self, index: int) -> None:
        """Hand all of the step to the engine, fetch the next batch, and wait until the step before is done.

        So the engine always has a whole step to do, and never more than two.
        """
        super().step(index)
        self._progress.wait(self._progress.marked)

    def train(self, index: int) -> None:
        """Train on the batch at hand."""
        self._rate.set(self.rates[index])
        with autograd.record():
            _, loss = self._forward()
            with self.loss_scale.scaled(loss) as scaled:
                autograd.backward(scaled)
        self.trainer.step(self._divisor)
        self._losses[index : index + 1] = loss

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        images, labels = self.batch
        logits = self.model(images)
        return logits, self.loss(logits, labels)

    def synchronize(self) -> None:
        """Wait until the engine has done everything; what failed there is raised here."""
        self._progress.wait(self._progress.ticket(self._losses))
        mx.nd.waitall()
        self._losses.wait_to_read()

    def facts(self) -> Facts:
        """Return what the run is made of. MXNet knows no names of GPUs."""
        cpu = self._on_cpu
        return Facts(
            framework_version=mx.__version__,
            device="cpu" if cpu else "cuda",
            device_name=cpu_name() if cpu else "GPU",
            parameters=count_parameters(self.model),
            threads=in_engine(_openmp_threads),
            implementation="sgd, in the workers",
            loss_scaled=self._precision.scaled,
            compiler_mode=COMPILERS[self.settings.compiler],
            peak_memory_of="process, resident" if cpu else "device, in use after the run",
            others={
                "onednn": mx.runtime.Features().is_enabled("MKLDNN"),
                "algorithm_search": None if cpu else _algorithm_search(),
            },
        )

    def seen(self) -> Seen:
        """Return what the witness saw."""
        return self._witness.told(self.batch[0])

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(self._precision.compute)

    def compilations(self) -> Optional[int]:
        """Return how often the network was traced so far; nothing is without ``hybridize``."""
        return self._witness.traces

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss) for loss in self._losses.asnumpy()]

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this process held, or what is in use on the GPU."""
        if self._on_cpu:
            return peak_resident_bytes()
        free, whole = mx.context.gpu_memory_info(self._context.device_id)
        return int(whole - free)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(
            observing.named_parameters(self.model, self.settings.model), weights, self.settings.layout
        )

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(
            observing.named_parameters(self.model, self.settings.model), self.settings.layout
        )

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own model and loss, operator by operator."""
        return observing.observe(self.model, self.settings.model, self._forward, self.settings.layout)

    @property
    def _on_cpu(self) -> bool:
        return str(self._context.device_type) == "cpu"


def choose_context(asked: str, place: Place) -> Any:
    """Return the device of this rank; raise ``RunError`` if it is not there."""
    index = own_gpu("MXNet", asked, 0 if asked == "cpu" else mx.context.num_gpus(), place)
    return mx.cpu() if index is None else mx.gpu(index)


def _openmp_threads() -> int:
    """Return how many threads OpenMP would start for an operator of the thread that asks."""
    return int(ctypes.CDLL("libgomp.so.1").omp_get_max_threads())


def _algorithm_search() -> str:
    """Return how MXNet chooses cuDNN's algorithms: by its default, which measures them in a limited workspace."""
    chosen = os.environ.get("MXNET_CUDNN_AUTOTUNE_DEFAULT", "1")
    return {"0": "cudnn, heuristic", "1": "cudnn, measured, workspace limited"}.get(chosen, "cudnn, measured")
