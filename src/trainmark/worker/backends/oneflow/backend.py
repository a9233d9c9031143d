"""OneFlow as a backend: device, precision, the training step (eager or one graph), weights."""

import inspect
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import oneflow as flow

from ...core.choices import find_precision, one_of, own_gpu, refuse_gaps
from ...core.facts import Facts, count_parameters, cpu_name
from ...core.optimizers import STEP_EPOCHS
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.place import Place
from ...core.settings import Recipe, Settings
from ...core.training import Training
from .collectives import Peers

NONE, GRAPH = "none", "graph"  # the compilers: eager, and the whole training step as one ``nn.Graph``
# The precisions; ``gaps.json`` refuses two where OneFlow lacks them. Its autocast turns itself off on a CPU, with no
# more than a warning (``amp/autocast_mode.py``), and its ``GradScaler`` works in ``nn.Graph`` alone.
PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16")
# The variable that OneFlow's CUDA streams read when they are made; TF32 is on without it (``cuda_stream.cpp``).
TF32_SWITCH = "ONEFLOW_EP_CUDA_ENABLE_TF32_EXECUTION"


def sgd(decays: Sequence[tuple[list[Any], float]], recipe: Recipe, device: Any) -> Any:
    """Return SGD of groups of parameters, each with its weight decay.

    With ``dampening`` 0 its update is w -= l v with v = m v + g + d w: the learning rate is outside of the momentum,
    and the buffers start at zero (``model_update_kernel_util.h``).
    """
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]
    fused = device.type == "cuda"
    return flow.optim.SGD(groups, lr=recipe.learning_rate, momentum=recipe.momentum, fused=fused)


def make_graph(
    network: Any, loss: Any, optimizer: Any, rates: Any, mixed: str | None, scale: float | None
) -> Any:
    """Return the training step as one ``nn.Graph``, compiled when it is first called.

    It consists of forward, backward, update and learning rate. ``mixed`` is the type of mixed precision, None for
    FP32; ``scale`` is the fixed loss scale of FP16, None for a dynamic one. Written from OneFlow's documentation and
    source, and not run yet; the tests have no stand-in for ``nn.Graph``.
    """

    class TrainGraph(flow.nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.loss = network, loss
            self.builds = 0
            self.add_optimizer(optimizer, lr_sch=rates)
            self.config.allow_fuse_add_to_output(True)
            self.config.allow_fuse_model_update_ops(True)
            # As torch's ``cudnn.benchmark``: convolutions are tried out when the graph is compiled.
            self.config.enable_cudnn_conv_heuristic_search_algo(False)
            if mixed is not None:
                enable = self.config.enable_amp
                takes_type = "dtype" in inspect.signature(enable).parameters
                if not takes_type and mixed != "float16":
                    raise RunError(UNSUPPORTED, f"the graphs of OneFlow {flow.__version__} have no {mixed}")
                enable(True, **({"dtype": getattr(flow, mixed)} if takes_type else {}))
            if mixed == "float16" and scale is None:
                self.set_grad_scaler(flow.amp.GradScaler(init_scale=2.0**16))
            elif mixed == "float16":
                self.set_grad_scaler(flow.amp.StaticGradScaler(scale))

        def build(self, inputs: Any, targets: Any) -> Any:
            # OneFlow calls it once for each time that it compiles.
            self.builds += 1
            loss = self.loss(self.network(inputs), targets)
            loss.backward()
            return loss

    return TrainGraph()


def rates_in_graph(optimizer: Any, recipe: Recipe, epoch_samples: int, global_batch: int) -> Any:
    """Return the schedule of ``learning_rates`` as OneFlow's own schedulers, the only ones that a graph takes.

    The warm-up of step i is (i + 1) / W of the rate: from 1 / W to 1 in W - 1 steps.
    """
    schedulers: Any = flow.optim.lr_scheduler
    per_epoch = epoch_samples / global_batch
    warmup = round(recipe.warmup_epochs * per_epoch)
    if recipe.schedule == "cosine":
        after = round(max(recipe.epochs - recipe.warmup_epochs, 1) * per_epoch)
        then = schedulers.CosineDecayLR(optimizer, decay_steps=max(after, 1))
    elif recipe.schedule == "step":
        milestones = [round(epoch * per_epoch) - warmup for epoch in STEP_EPOCHS]
        then = schedulers.MultiStepLR(optimizer, milestones=milestones, gamma=0.1)
    else:
        then = schedulers.ConstantLR(optimizer, factor=1.0, total_iters=0)
    if warmup == 0:
        return then
    first = schedulers.LinearLR(optimizer, start_factor=1 / warmup, total_iters=max(warmup - 1, 1))
    both = [first, then]
    return schedulers.SequentialLR(optimizer, schedulers=both, milestones=[warmup], interval_rescaling=True)


def as_numpy(tensor: Any) -> Any:
    """Return a copy of a tensor on the host, in FP32."""
    return np.array(tensor.detach().cpu().numpy(), np.float32)


class OneFlowTraining(Training):
    """Network, optimizer, batches and marks of one rank.

    OneFlow computes in threads of its own, on a CPU too: ``train`` hands the work over and returns. OneFlow has no
    event to mark its end with, so a step's mark is the moment at which the host had handed it over; only the window's
    ends are the device's.

    A model's subclass builds network and loss and passes them to ``take_over``; it has ``forward``.
    """

    ranks: Peers

    def __init__(self, settings: Settings, place: Place) -> None:
        if "dampening" not in inspect.signature(flow.optim.SGD.__init__).parameters:
            older = f"the SGD of {flow.__version__} has the learning rate in its momentum"
            raise RunError(UNSUPPORTED, f"OneFlow 0.9 or later is needed; {older}")
        one_of("OneFlow", "compiler", settings.compiler, (NONE, GRAPH))
        gpus = flow.cuda.device_count() if flow.cuda.is_available() else 0
        gpu = own_gpu("OneFlow", settings.device, gpus, place)
        self.device = flow.device("cpu") if gpu is None else flow.device("cuda", gpu)
        self.destination: tuple[Any, ...] = (self.device,)
        refuse_gaps(settings, place, self.device.type)
        self.precision = find_precision("OneFlow", settings.precision, PRECISIONS)
        # Before anything is put on a GPU.
        os.environ[TF32_SWITCH] = "1" if self.precision.tf32 else "0"
        if settings.threads:
            flow.set_num_threads(settings.threads)
        feed = None if settings.synthetic else self.open_loader(settings, place)
        super().__init__(settings, Peers(place, self.device), feed)
        flow.manual_seed(settings.seed)
        self.build()

    @abstractmethod
    def forward(self) -> tuple[Any, Any]:
        """Return outputs and loss of the current batch."""

    def to_batch(self, *arrays: Any) -> tuple[Any, ...]:
        """Return tensors of the task's arrays on the device, whole numbers as they are and others in FP32."""
        whole = (array if array.dtype.kind == "i" else np.asarray(array, np.float32) for array in arrays)
        return tuple(flow.from_numpy(np.ascontiguousarray(array)).to(self.device) for array in whole)

    def take_over(
        self, network: Any, loss: Any, tensors: dict[str, Any], optimizer_of: Callable[[Any], Any]
    ) -> None:
        """Train this network by this loss; ``tensors`` are its weights by the shared names.

        ``optimizer_of`` makes the optimizer of the network as it is wrapped for several ranks.
        """
        self.loss, self.tensors = loss, tensors
        self._parameters = count_parameters(network.parameters())
        self.network = self.ranks.wrap(network)
        self.optimizer = optimizer_of(self.network)
        self.autocast: Any = nullcontext()
        if self.precision.mixed and self.settings.compiler != GRAPH:
            # A graph is rewritten for its precision as a whole instead.
            self.autocast = flow.autocast("cuda", dtype=getattr(flow, self.precision.compute))
        self.graph: Any = None
        if self.settings.compiler == GRAPH:
            recipe, precision = self.settings.recipe, self.precision
            # Graphs are for one rank: the batch of a device is the global one.
            rates = rates_in_graph(self.optimizer, recipe, self.epoch_samples, self.settings.batch_per_device)
            mixed = precision.compute if precision.mixed else None
            self.graph = make_graph(self.network, loss, self.optimizer, rates, mixed, recipe.loss_scale)

    def train(self, index: int) -> None:
        """Train on the current batch; a graph has its own schedule of the learning rate in it."""
        if self.graph is not None:
            loss = self.graph(*self.batch)
        else:
            for parameters in self.optimizer.param_groups:
                parameters["lr"] = self.rates[index]
            _, loss = self.forward()
            loss.backward()
            self.optimizer.step()
            # Released, and not filled with zeros to which the next step would have to add.
            self.optimizer.zero_grad(set_to_none=True)
        self._losses.append(loss.detach())

    def synchronize(self) -> None:
        flow._oneflow_internal.eager.Sync()
        if self.device.type == "cuda":
            flow.cuda.synchronize()

    def facts(self) -> Facts:
        """Return the facts of the run; OneFlow reports neither its threads nor the GPU's memory."""
        cuda = self.device.type == "cuda"
        search = "OneFlow's own" if self.graph is None else "measured"
        return Facts(
            framework_version=flow.__version__,
            device=self.device.type,
            device_name=flow.cuda.get_device_name(self.device) if cuda else cpu_name(),
            parameters=self._parameters,
            threads=self.settings.threads or None,
            implementation="fused" if cuda else "single tensor",
            others={"step_marks": "handed over", "algorithm_search": search if cuda else None},
        )

    def unobservable(self) -> tuple[str, ...]:
        """Return the observations that OneFlow has no object for: whether a GPU's kernels use TF32, a graph's types."""
        # The type in a graph is decided after its layers were traced.
        types = ("compute_dtype",) if self.graph is not None and self.precision.mixed else ()
        return (*types, "tf32_matmul", "tf32_convolution") if self.device.type == "cuda" else types

    def compilations(self) -> int:
        """Return how often the graph was built; eager operators are not compiled."""
        return 0 if self.graph is None else int(self.graph.builds)

    def own_losses(self) -> list[float]:
        return [float(as_numpy(loss)) for loss in self._losses]

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        with flow.no_grad():
            for name, tensor in self.tensors.items():
                given = flow.from_numpy(np.ascontiguousarray(weights[name], np.float32))
                tensor.copy_(given.to(tensor.device))

    def read_weights(self) -> dict[str, Any]:
        return {name: as_numpy(tensor) for name, tensor in self.tensors.items()}
