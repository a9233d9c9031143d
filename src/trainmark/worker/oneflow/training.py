"""A rank's training in OneFlow, whatever it trains: one step after another, and what the run is made of."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import oneflow as flow

from ..core.choices import own_gpu
from ..core.facts import Expected, Facts
from ..core.feed import Feed
from ..core.gaps import refuse_gaps
from ..core.host import cpu_name
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.place import Place
from ..core.settings import Settings
from ..core.training import Training
from ..core.window import HostMarks, slots_for
from . import weights as weights_of
from .compilers import GRAPH, check_compiler
from .precision import Precision, autocast, choose_precision
from .ranks import Peers


class Machine(NamedTuple):
    """What a rank computes on, and in which types."""

    device: Any
    precision: Precision


def choose_machine(settings: Settings, place: Place) -> Machine:
    """Return this rank's device and the precision."""
    _check_version()
    check_compiler(settings.compiler)
    seen = flow.cuda.device_count() if flow.cuda.is_available() else 0
    gpu = own_gpu("OneFlow", settings.device, seen, place)
    device = flow.device("cpu") if gpu is None else flow.device("cuda", gpu)
    refuse_gaps(settings, place, device.type)
    precision = choose_precision(settings.precision)
    if settings.threads:
        flow.set_num_threads(settings.threads)
    return Machine(device, precision)


class OneFlowTraining(Training):
    """Network, optimizer, batches and marks of one rank.

    OneFlow computes in threads of its own, on a CPU too: ``step`` hands the work over and comes back. It has no event
    to mark its end with, so a step's mark is the moment at which the host had handed it over; only the window's ends
    are the device's.

    A task's subclass builds network and loss and gives them to ``take_over``; it writes ``_forward`` and what only its
    own networks have to tell.
    """

    ranks: Peers

    def __init__(
        self,
        settings: Settings,
        place: Place,
        machine: Machine,
        to_batch: Callable[..., Any],
        feed: Optional[Feed],
    ) -> None:
        """Fetch the first batch, and seed OneFlow's generators."""
        self._device, self._precision = machine
        marks = HostMarks(slots_for(settings.steps))
        super().__init__(settings, Peers(place, self._device), marks, to_batch, feed)
        flow.manual_seed(settings.seed)

    def take_over(
        self,
        network: Any,
        loss: Any,
        tensors: Dict[str, Any],
        optimizer_of: Callable[[Any], Any],
    ) -> None:
        """Train this network by this loss; ``tensors`` are its weights by the shared names.

        ``optimizer_of`` makes the optimizer of the network as it is wrapped for several ranks.
        """
        self.loss, self._tensors = loss, tensors
        self._parameters = weights_of.count_parameters(network)
        self.network = self.ranks.wrap(network)
        self.optimizer = optimizer_of(self.network)
        self.autocast = autocast(self._precision, self.settings.compiler)
        self._graph = self._build_graph() if self.settings.compiler == GRAPH else None
        self._losses: List[Any] = []

    def _forward(self) -> Tuple[Any, Any]:
        """Return outputs and loss of the batch at hand."""
        raise NotImplementedError

    def train(self, index: int) -> None:
        """Train on the batch at hand; a graph has its own schedule of the learning rate in it."""
        if self._graph is not None:
            loss = self._graph(*self.batch)
        else:
            for parameters in self.optimizer.param_groups:
                parameters["lr"] = self.rates[index]
            _, loss = self._forward()
            loss.backward()
            self.optimizer.step()
            # Released, and not filled with zeros to which the next step would have to add.
            self.optimizer.zero_grad(set_to_none=True)
        self._losses.append(loss.detach())

    def _build_graph(self) -> Any:
        from .graph import TrainGraph, rates_in_graph

        recipe, precision = self.settings.recipe, self._precision
        # Graphs are for one rank: the batch of a device is the global one.
        rates = rates_in_graph(self.optimizer, recipe, self.epoch_samples, self.settings.batch_per_device)
        mixed = precision.compute if precision.mixed else None
        return TrainGraph(self.network, self.loss, self.optimizer, rates, mixed, recipe.loss_scale)

    def synchronize(self) -> None:
        """Wait until OneFlow's own threads, and the GPU, have done everything."""
        flow._oneflow_internal.eager.Sync()
        if self._device.type == "cuda":
            flow.cuda.synchronize()

    def facts(self) -> Facts:
        """Return what the run is made of; OneFlow tells neither its threads nor the GPU's memory."""
        cuda = self._device.type == "cuda"
        measured = cuda and self._graph is not None
        return Facts(
            framework_version=flow.__version__,
            device=self._device.type,
            device_name=flow.cuda.get_device_name(self._device) if cuda else cpu_name(),
            parameters=self._parameters,
            threads=self.settings.threads or None,
            implementation="fused" if cuda else "single tensor",
            loss_scaled=self._precision.compute == "float16",
            others={
                "step_marks": "handed over",
                "algorithm_search": "measured" if measured else "OneFlow's own" if cuda else None,
            },
        )

    def tf32_unseen(self) -> Tuple[str, ...]:
        """Return what cannot be seen here: whether a GPU's kernels used TF32 stands in no object of OneFlow's."""
        return ("tf32_matmul", "tf32_convolution") if self._device.type == "cuda" else ()

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(self._precision.compute, tf32=self._precision.tf32)

    def compilations(self) -> Optional[int]:
        """Return how often the graph was built; eager operators are not compiled."""
        return 0 if self._graph is None else self._graph.builds

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(weights_of.as_numpy(loss)) for loss in self._losses]

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        weights_of.load(self._tensors, weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return weights_of.read(self._tensors)


def _check_version() -> None:
    if "dampening" not in inspect.signature(flow.optim.SGD.__init__).parameters:
        raise RunError(
            UNSUPPORTED,
            f"OneFlow 0.9 or later is needed; the SGD of {flow.__version__} has the learning rate in its momentum",
        )
