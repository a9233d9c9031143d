"""A rank's training in OneFlow: builds everything before the first step, then does one step after another."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import oneflow as flow
from oneflow import nn

from ..arguments import Settings
from ..feed import Feed
from ..host import cpu_name, peak_resident_bytes
from ..outcomes import UNSUPPORTED, RunError, require_as_asked
from ..place import Place
from ..schedule import learning_rates
from ..training import Observation, Training
from ..window import HostMarks, slots_for
from . import observing
from .compilers import GRAPH, check_compiler
from .feed import OneBatch, synthetic
from .networks import SmoothedCrossEntropy, build_network, count_parameters
from .precision import Precision, autocast, choose_precision


def open_training(settings: Settings, place: Place) -> OneFlowTraining:
    """Return the training, ready for its first step.

    OneFlow has met the other ranks when it was imported, by the variables that a launcher sets.
    """
    _check_version()
    if settings.layout != "nchw":
        raise RunError(UNSUPPORTED, f"OneFlow's worker has no layout {settings.layout}; it has nchw")
    if settings.collective != "native":
        raise RunError(UNSUPPORTED, f"OneFlow has no collective {settings.collective!r}; it has native")
    check_compiler(settings.compiler, place.world_size)
    device = _choose_device(settings.device, place)
    precision = choose_precision(settings.precision, device.type, settings.compiler)
    if settings.threads:
        flow.set_num_threads(settings.threads)
    return OneFlowTraining(settings, place, device, precision, _open_feed(settings, place, device))


class OneFlowTraining(Training):
    """Network, optimizer, batches and marks of one rank.

    OneFlow computes in threads of its own, on a CPU too: ``step`` hands the work over and comes back. It has no event
    to mark its end with, so a step's mark is the moment at which the host had handed it over; only the window's ends
    are the device's.
    """

    def __init__(
        self, settings: Settings, place: Place, device: Any, precision: Precision, feed: Feed
    ) -> None:
        """Build network and optimizer, and fetch the first batch."""
        self._settings, self._place, self._device, self._precision = settings, place, device, precision
        self._feed = feed
        self.epoch_images = feed.epoch_images
        self.data_waits_s: List[float] = [0.0] * settings.steps
        recipe = settings.recipe

        flow.manual_seed(settings.seed)
        self.network = build_network(settings.model, settings.classes).to(device)
        self.network.train()
        self.loss = SmoothedCrossEntropy(recipe.label_smoothing).to(device)
        self._parameters = count_parameters(self.network)
        self._stem, self._second = [
            module for module in self.network.modules() if isinstance(module, nn.Conv2d)
        ][:2]
        self._convolutions: Optional[observing.Convolutions] = None
        self._inside: Optional[Any] = None
        self._second.register_forward_hook(self._witness)
        if place.world_size > 1:
            # Batch-norm statistics stay each rank's own, as in the usual recipes without SyncBN.
            self.network = flow.nn.parallel.DistributedDataParallel(self.network, broadcast_buffers=False)
        self.optimizer = make_optimizer(self.network, settings, device)
        self.autocast = autocast(precision, settings.compiler)
        global_batch = settings.batch_per_device * place.world_size
        self._rates = learning_rates(recipe, settings.steps, self.epoch_images, global_batch)
        self._graph = self._build_graph(global_batch) if settings.compiler == GRAPH else None
        self._marks = HostMarks(slots_for(settings.steps))
        self._losses: List[Any] = [None] * settings.steps
        self.batch = feed.next()

    def step(self, index: int) -> None:
        """Train on the batch at hand, then fetch the next one while the device still computes."""
        if self._graph is not None:
            loss = self._graph(*self.batch)
        else:
            for parameters in self.optimizer.param_groups:
                parameters["lr"] = self._rates[index]
            _, loss = self._forward()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self._losses[index] = loss.detach()
        self.batch = self._feed.next()
        self.data_waits_s[index] = self._feed.wait_s

    def _build_graph(self, global_batch: int) -> Any:
        from .graph import TrainGraph, rates_in_graph

        recipe, precision = self._settings.recipe, self._precision
        rates = rates_in_graph(self.optimizer, recipe, self.epoch_images, global_batch)
        mixed = precision.compute if precision.mixed else None
        return TrainGraph(self.network, self.loss, self.optimizer, rates, mixed, recipe.loss_scale)

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        images, labels = self.batch
        with self.autocast:
            logits = self.network(images).float()
            return logits, self.loss(logits, labels)

    def _witness(self, _module: Any, _inputs: Any, output: Any) -> None:
        if self._inside is None:
            self._inside = (_name_of(output.dtype), output.shape[0])

    def mark(self, slot: int) -> None:
        """Note the moment at which everything was handed over."""
        self._marks.mark(slot)

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return self._marks.seconds_between(earlier, later)

    def synchronize(self) -> None:
        """Wait until OneFlow's own threads, and the GPU, have done everything."""
        flow._oneflow_internal.eager.Sync()
        if self._device.type == "cuda":
            flow.cuda.synchronize()

    def barrier(self) -> None:
        """Wait for every rank."""
        if self._place.world_size > 1:
            flow.comm.barrier()

    def describe(self) -> Dict[str, Any]:
        """Return what the run is made of."""
        recipe = self._settings.recipe
        cuda = self._device.type == "cuda"
        scaled = self._precision.compute == "float16"
        return {
            "framework_version": flow.__version__,
            "device": self._device.type,
            "device_name": flow.cuda.get_device_name(self._device) if cuda else cpu_name(),
            "parameters": self._parameters,
            "threads": self._settings.threads or None,
            "decoder": self._feed.decoder,
            "epoch_images": self.epoch_images,
            "backend": ("nccl" if cuda else "oneflow") if self._place.world_size > 1 else None,
            "step_marks": "handed over",
            "optimizer": {
                "name": "SGD",
                "implementation": "fused" if cuda else "single tensor",
                "loss_scale": (recipe.loss_scale or "dynamic") if scaled else None,
            },
            "peak_memory_of": "process, resident",
        }

    def actual(self) -> Dict[str, Any]:
        """Compare what the first step computed with to what was asked for, and return it.

        What a graph computes with is decided after its layers were traced, so it cannot be seen here: ``null``.
        """
        dtype, batch = self._inside or (None, None)
        mixed_later = self._settings.compiler == GRAPH and self._precision.mixed
        seen = {
            "compute_dtype": None if mixed_later else dtype,
            "weight_dtype": _name_of(self._stem.weight.dtype),
            "batch_per_device": batch,
            "parameters": self._parameters,
            "world_size": flow.env.get_world_size(),
        }
        asked = {
            "compute_dtype": None if mixed_later else self._precision.compute,
            "weight_dtype": "float32",
            "batch_per_device": self._settings.batch_per_device,
            "world_size": self._place.world_size,
        }
        require_as_asked(seen, asked)
        return seen

    def compile_s(self) -> Optional[float]:
        """Return None: OneFlow does not count what it spends on compiling a graph (it is in the first step)."""
        return None

    def losses(self) -> List[float]:
        """Return the losses of the global batch."""
        own = [float(observing.as_numpy(loss)) for loss in self._losses if loss is not None]
        own += [float("nan")] * (self._settings.steps - len(own))
        if self._place.world_size == 1:
            return own
        total = flow.comm.all_reduce(flow.tensor(own, dtype=flow.float64, device=self._device))
        return [float(value) / self._place.world_size for value in total.cpu().numpy()]

    def digest(self) -> int:
        """Return the parameters' bit patterns, weighted by their positions and summed modulo 2 ** 63."""
        total = 0
        for parameter in self.network.parameters():
            bits = observing.as_numpy(parameter).ravel().view(np.int32).astype(np.uint64)
            weights = 2 * np.arange(bits.size, dtype=np.uint64) + np.uint64(1)
            total = total * 31 + int((bits * weights).sum(dtype=np.uint64))
        return total % (1 << 63)

    def peak_memory_bytes(self) -> int:
        """Return the most memory of this process that was resident; OneFlow does not tell of the device's."""
        return peak_resident_bytes()

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's values."""
        if self._place.world_size == 1:
            return [list(values)]
        own = flow.tensor(list(values), dtype=flow.int64, device=self._device)
        parts = [flow.zeros_like(own) for _ in range(self._place.world_size)]
        flow.comm.all_gather(parts, own)
        return [[int(value) for value in part.cpu().numpy()] for part in parts]

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(observing.named_tensors(self.network, self._settings.model), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(observing.named_tensors(self.network, self._settings.model))

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on."""
        self._feed.close()
        self._feed = OneBatch(images, labels, self._settings, self._device)
        self.batch = self._feed.next()

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network and loss, eagerly."""
        if self._convolutions is None:
            self._convolutions = observing.Convolutions(self.network, self._settings.model)
        tensors = observing.named_tensors(self.network, self._settings.model)
        return observing.observe(self._convolutions, self._forward, tensors, self.optimizer)

    def close(self) -> None:
        """End the loader, and leave together with the others."""
        self._feed.close()
        self.barrier()


def make_optimizer(network: Any, settings: Settings, device: Any) -> Any:
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


def _choose_device(asked: str, place: Place) -> Any:
    there = flow.cuda.is_available()
    if asked == "cpu" or (asked == "auto" and not there):
        return flow.device("cpu")
    if not there:
        raise RunError(UNSUPPORTED, "cuda was asked for, but OneFlow sees no CUDA device here")
    seen = flow.cuda.device_count()
    if place.local_rank >= seen:
        raise RunError(
            UNSUPPORTED, f"local rank {place.local_rank} has no GPU: OneFlow sees {seen} on this node"
        )
    return flow.device("cuda", place.local_rank)


def _name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _open_feed(settings: Settings, place: Place, device: Any) -> Feed:
    if settings.synthetic:
        return synthetic(settings, place.rank, device)
    from .loader import open_loader

    return open_loader(settings, place, device)
