"""A rank's training in OneFlow: builds everything before the first step, then does one step after another."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Mapping, Optional, Tuple

import oneflow as flow
from oneflow import nn

from ...core.choices import one_of, own_gpu
from ...core.facts import Expected, Facts
from ...core.feed import Feed
from ...core.host import cpu_name
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.place import Place
from ...core.window import HostMarks, slots_for
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ..compilers import GRAPH, check_compiler
from ..precision import Precision, autocast, choose_precision
from ..ranks import Peers
from . import observing
from .feed import ToDevice
from .networks import SmoothedCrossEntropy, build_network, count_parameters


def open_training(settings: ImageSettings, place: Place) -> OneFlowTraining:
    """Return the training, ready for its first step."""
    _check_version()
    one_of("OneFlow's worker", "layout", settings.layout, ("nchw",))
    check_compiler(settings.compiler, place.world_size)
    gpu = own_gpu(
        "OneFlow", settings.device, flow.cuda.device_count() if flow.cuda.is_available() else 0, place
    )
    device = flow.device("cpu") if gpu is None else flow.device("cuda", gpu)
    precision = choose_precision(settings.precision, device.type, settings.compiler)
    if settings.threads:
        flow.set_num_threads(settings.threads)
    return OneFlowTraining(settings, place, device, precision, _open_feed(settings, place, device))


class OneFlowTraining(ImageTraining):
    """Network, optimizer, batches and marks of one rank.

    OneFlow computes in threads of its own, on a CPU too: ``step`` hands the work over and comes back. It has no event
    to mark its end with, so a step's mark is the moment at which the host had handed it over; only the window's ends
    are the device's.
    """

    def __init__(
        self, settings: ImageSettings, place: Place, device: Any, precision: Precision, feed: Optional[Feed]
    ) -> None:
        """Build network and optimizer, and fetch the first batch."""
        ranks = Peers(place, device)
        super().__init__(settings, ranks, HostMarks(slots_for(settings.steps)), ToDevice(device), feed)
        self._device, self._precision = device, precision

        flow.manual_seed(settings.seed)
        self.network = build_network(settings.model, settings.classes).to(device)
        self.network.train()
        self.loss = SmoothedCrossEntropy(settings.recipe.label_smoothing).to(device)
        self._hooks = observing.Hooks(self.network, settings.model)
        self._tensors = observing.named_tensors(self.network, settings.model)
        self._parameters = count_parameters(self.network)
        self.network = ranks.wrap(self.network)
        self.optimizer = make_optimizer(self.network, settings, device)
        self.autocast = autocast(precision, settings.compiler)
        self._graph = self._build_graph() if settings.compiler == GRAPH else None
        self._losses: List[Any] = []

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

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        images, labels = self.batch
        with self.autocast:
            logits = self.network(images).float()
            return logits, self.loss(logits, labels)

    def _build_graph(self) -> Any:
        from ..graph import TrainGraph, rates_in_graph

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

    def seen(self) -> Seen:
        """Return what the first step computed with.

        The type in a graph is decided after its layers were traced, and whether a GPU's kernels used TF32 stands in
        no object of OneFlow's: neither can be seen.
        """
        unseen: Tuple[str, ...] = ()
        if self._graph is not None and self._precision.mixed:
            unseen = ("compute_dtype",)
        if self._device.type == "cuda":
            unseen += ("tf32_matmul", "tf32_convolution")
        return self._hooks.told(unseen)

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(self._precision.compute, tf32=self._precision.tf32)

    def compilations(self) -> Optional[int]:
        """Return how often the graph was built; eager operators are not compiled."""
        return 0 if self._graph is None else self._graph.builds

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(observing.as_numpy(loss)) for loss in self._losses]

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(self._tensors, weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(self._tensors)

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network and loss, eagerly."""
        return observing.observe(self._hooks, self._forward, self._tensors, self.optimizer)


def make_optimizer(network: Any, settings: ImageSettings, device: Any) -> Any:
    """Return SGD, with batch-norm weights and biases in a group that does not decay unless asked.

    With ``dampening`` 0 its update is w -= l v with v = m v + g + d w: the learning rate stands outside of the
    momentum, and the buffers begin at zero (``model_update_kernel_util.h``).
    """
    recipe = settings.recipe
    norm: List[Any] = []
    other: List[Any] = []
    for module in network.modules():
        own = list(module.parameters(recurse=False))
        (norm if isinstance(module, nn.BatchNorm2d) else other).extend(own)
    groups = [
        {"params": other, "weight_decay": recipe.weight_decay},
        {"params": norm, "weight_decay": recipe.weight_decay if recipe.bn_weight_decay else 0.0},
    ]
    fused = device.type == "cuda"
    return flow.optim.SGD(groups, lr=recipe.learning_rate, momentum=recipe.momentum, fused=fused)


def _check_version() -> None:
    if "dampening" not in inspect.signature(flow.optim.SGD.__init__).parameters:
        raise RunError(
            UNSUPPORTED,
            f"OneFlow 0.9 or later is needed; the SGD of {flow.__version__} has the learning rate in its momentum",
        )


def _open_feed(settings: ImageSettings, place: Place, device: Any) -> Optional[Feed]:
    if settings.synthetic:
        return None
    from .loader import open_loader

    return open_loader(settings, place, device)
