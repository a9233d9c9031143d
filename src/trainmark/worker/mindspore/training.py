"""A rank's training in MindSpore, whatever it trains: one step after another, and what the run is made of."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

import mindspore as ms
from mindspore import nn

from ..core.choices import require_version
from ..core.facts import Expected, Facts
from ..core.feed import Feed
from ..core.gaps import refuse_gaps
from ..core.host import cpu_name
from ..core.place import Place
from ..core.settings import Settings
from ..core.training import Training
from ..core.window import HostMarks, slots_for
from . import weights as weights_of
from .cluster import Cluster
from .compilers import GRAPH, choose_mode
from .device import bind_threads, tasks
from .precision import Precision, choose_precision, loss_scaler
from .step import make_step


class Machine(NamedTuple):
    """What a rank trains with."""

    precision: Precision
    ranks: Cluster
    feed: Optional[Feed]


def open_machine(settings: Settings, place: Place, open_feed: Callable[[], Optional[Feed]]) -> Machine:
    """Set the device and the mode, open the feed, and meet the other ranks.

    What MindSpore cannot do on a CPU raises ``RunError`` (unsupported) before the ranks meet, so that no rank waits
    for one that has left.
    """
    require_version("MindSpore", ms.__version__, (2, 4))
    refuse_gaps(settings, place, "cpu" if settings.device == "auto" else settings.device)
    precision = choose_precision(settings.precision)
    ms.set_device("CPU")
    choose_mode(settings.compiler)
    before = tasks()
    feed = open_feed()
    loading = tasks() - before
    ranks = Cluster(place)
    # Only now, since the scheduler that rank 0 has started would inherit it.
    bind_threads(settings.threads, place, loading)
    return Machine(precision, ranks, feed)


class MindSporeTraining(Training):
    """Model, optimizer, batches and marks of one rank.

    A task's subclass builds the model and gives it to ``take_over``; it writes what only its own models have to tell.
    """

    ranks: Cluster

    def __init__(self, settings: Settings, machine: Machine, to_batch: Callable[..., Any]) -> None:
        """Fetch the first batch, and seed MindSpore's generators."""
        # On a CPU, a step has been computed when its call returns.
        super().__init__(
            settings, machine.ranks, HostMarks(slots_for(settings.steps)), to_batch, machine.feed
        )
        self._precision = machine.precision
        self._compiled = settings.compiler == GRAPH
        ms.set_seed(settings.seed)

    def take_over(
        self, model: nn.Cell, forward: nn.Cell, optimizer: nn.Optimizer, named: Mapping[str, ms.Parameter]
    ) -> None:
        """Train this model; ``forward`` maps a batch to loss and outputs, ``named`` are its weights by shared names."""
        self.model, self._shared = model, named
        self._parameters = model.trainable_params()
        self._scaler = loss_scaler(self._precision, self.settings.recipe)
        reducer = self.ranks.reducer(optimizer.parameters)
        self.train_step = make_step(forward, optimizer, reducer, self._scaler)
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
        weights_of.load(self._shared, weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return weights_of.read(self._shared)
