"""A rank's training in MXNet, whatever it trains: one step after another, and what the run is made of."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import mxnet as mx
from mxnet import autograd
from mxnet.gluon import HybridBlock

from ..core.choices import one_of
from ..core.facts import Expected, Facts
from ..core.feed import Feed
from ..core.gaps import refuse_gaps
from ..core.host import cpu_name, peak_resident_bytes
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.place import Place
from ..core.settings import Settings
from ..core.training import Training
from ..core.window import slots_for
from .collectives import import_horovod, open_collective
from .device import algorithm_search, choose_context, openmp_threads
from .optimizer import Rate, optimizer_parameters
from .precision import LossScale, Precision, choose_precision
from .progress import Progress, in_engine
from .weights import count_parameters, trainable

NONE, HYBRIDIZE = "none", "hybridize"
COMPILERS: Dict[str, Optional[str]] = {NONE: None, HYBRIDIZE: "static_alloc, static_shape"}


class Machine(NamedTuple):
    """What a rank computes on, and in which types."""

    context: Any
    precision: Precision


def choose_machine(settings: Settings, place: Place) -> Machine:
    """Return this rank's device and the precision.

    What the device or this MXNet cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no rank
    waits for one that has left.
    """
    if not mx.__version__.startswith("1.9."):
        raise RunError(UNSUPPORTED, f"MXNet 1.9 is needed; this is {mx.__version__}")
    context = choose_context(settings.device, place)
    refuse_gaps(settings, place, "cpu" if context.device_type == "cpu" else "cuda")
    one_of("MXNet", "compiler", settings.compiler, COMPILERS)
    if settings.collective == "horovod" and place.world_size > 1:
        import_horovod()
    return Machine(context, choose_precision(settings.precision))


class MXNetTraining(Training):
    """Model, trainer, batches and marks of one rank.

    A task's subclass builds the model and its loss, from the seed, and hands them over; it writes ``_forward`` and what
    only its own models have to tell.
    """

    def __init__(
        self,
        settings: Settings,
        place: Place,
        machine: Machine,
        model: HybridBlock,
        loss: HybridBlock,
        to_batch: Callable[..., Any],
        feed: Optional[Feed],
    ) -> None:
        """Meet the other ranks, and fetch the first batch. What has a ``wd_mult`` of 0 does not decay."""
        self.model, self.loss = model, loss
        self._context, self._precision = machine
        if settings.compiler == HYBRIDIZE:
            model.hybridize(static_alloc=True, static_shape=True)
            loss.hybridize(static_alloc=True, static_shape=True)
        weights = [parameter.data() for parameter in trainable(model)]
        self._progress = Progress(slots_for(settings.steps), weights)
        collective = open_collective(settings.collective, place, self._progress.fail)
        super().__init__(settings, collective, self._progress, to_batch, feed)

        recipe = settings.recipe
        self.trainer = collective.trainer(model.collect_params(), optimizer_parameters(recipe))
        self.loss_scale = LossScale(self._precision, recipe, self.trainer)
        self._divisor = collective.divisor * self.loss_scale.divisor
        self._rate = Rate(self.trainer, recipe.momentum)
        # The losses stay in one array on the device, until the window is over.
        self._losses = mx.nd.full((settings.steps,), float("nan"), ctx=self._context)

    def _forward(self) -> Tuple[Any, Any]:
        """Return outputs and loss of the batch at hand."""
        raise NotImplementedError

    def step(self, index: int) -> None:
        """Hand all of the step to the engine, fetch the next batch, and wait until the step before is done.

        So the engine always has a whole step to do, and never more than two.
        """
        super().step(index)
        self._progress.wait_to_read(self._progress.marked)

    def train(self, index: int) -> None:
        """Train on the batch at hand."""
        self._rate.set(self.rates[index])
        with autograd.record():
            _, loss = self._forward()
            with self.loss_scale.scaled(loss) as scaled:
                autograd.backward(scaled)
        self.trainer.step(self._divisor)
        self._losses[index : index + 1] = loss

    def synchronize(self) -> None:
        """Wait until the engine has done everything; what failed there is raised here."""
        self._progress.wait_to_read(self._progress.ticket(self._losses))
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
            threads=in_engine(openmp_threads),
            implementation="sgd, in the workers",
            loss_scaled=self._precision.scaled,
            compiler_mode=COMPILERS[self.settings.compiler],
            peak_memory_of="process, resident" if cpu else "device, in use after the run",
            others={
                "onednn": mx.runtime.Features().is_enabled("MKLDNN"),
                "algorithm_search": None if cpu else algorithm_search(),
            },
        )

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(self._precision.compute)

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss) for loss in self._losses.asnumpy()]

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this process held, or what is in use on the GPU."""
        if self._on_cpu:
            return peak_resident_bytes()
        free, whole = mx.context.gpu_memory_info(self._context.device_id)
        return int(whole - free)

    @property
    def _on_cpu(self) -> bool:
        return str(self._context.device_type) == "cpu"
