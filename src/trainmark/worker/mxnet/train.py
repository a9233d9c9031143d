"""A rank's training in MXNet: builds everything before the first step, then hands one step after another over."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import mxnet as mx
import numpy as np
from mxnet import autograd

from ..arguments import Settings
from ..feed import Feed
from ..host import cpu_name, peak_resident_bytes
from ..outcomes import UNSUPPORTED, RunError, require_as_asked
from ..place import Place
from ..schedule import learning_rates
from ..training import Observation, Training
from ..window import slots_for
from . import observing
from .collectives import check_collective, open_collective
from .feed import given_feed, synthetic_feed
from .loaders import open_loader
from .network import CrossEntropy, build_model, count_parameters, trainable
from .optimizer import Rate, optimizer_parameters
from .peers import Peers
from .precision import LossScale, Precision, choose_precision, dtype_name
from .progress import Progress, in_engine

NONE, HYBRIDIZE = "none", "hybridize"
COMPILERS = (NONE, HYBRIDIZE)


def open_training(settings: Settings, place: Place) -> MXNetTraining:
    """Return the training, ready for its first step.

    What the device or this MXNet cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no rank
    waits for one that has left.
    """
    if not mx.__version__.startswith("1.9."):
        raise RunError(UNSUPPORTED, f"MXNet 1.9 is needed; this is {mx.__version__}")
    context = _choose_context(settings.device, place)
    if settings.compiler not in COMPILERS:
        raise RunError(
            UNSUPPORTED, f"MXNet has no compiler {settings.compiler!r}; it has {', '.join(COMPILERS)}"
        )
    if settings.layout == "nhwc" and context.device_type == "cpu":
        raise RunError(UNSUPPORTED, "MXNet's convolutions on a CPU know the layout nchw only")
    check_collective(settings.collective, place)
    precision = choose_precision(settings.precision, context)
    feed = (
        synthetic_feed(settings, place.rank, context)
        if settings.synthetic
        else open_loader(settings, place, context)
    )
    return MXNetTraining(settings, place, context, precision, feed)


class MXNetTraining(Training):
    """Model, trainer, batches and marks of one rank."""

    def __init__(
        self, settings: Settings, place: Place, context: Any, precision: Precision, feed: Feed
    ) -> None:
        """Build the model, meet the other ranks, and fetch the first batch."""
        self._settings, self._context, self._precision, self._feed = settings, context, precision, feed
        self.epoch_images = feed.epoch_images
        self.data_waits_s: List[float] = [0.0] * settings.steps
        self._progress = Progress(slots_for(settings.steps))
        self._ahead: Optional[int] = None

        recipe = settings.recipe
        mx.random.seed(settings.seed)
        self.model = build_model(settings.model, settings.classes, settings.layout.upper(), context)
        self.loss = CrossEntropy(recipe.label_smoothing)
        hooks = observing.Hooks
        if settings.compiler == HYBRIDIZE:
            hooks = observing.TracedHooks
            self.model.hybridize(static_alloc=True, static_shape=True)
            self.loss.hybridize(static_alloc=True, static_shape=True)
        self._hooks = hooks(self.model, settings.model)
        self._weights = [parameter.data() for parameter in trainable(self.model)]

        self._peers = Peers(place, self._progress.fail)
        self._collective = open_collective(settings.collective, self._peers)
        self.trainer = self._collective.trainer(
            self.model.collect_params(), optimizer_parameters(self.model, recipe)
        )
        self.loss_scale = LossScale(precision, recipe, self.trainer)
        self._divisor = self._collective.divisor * self.loss_scale.divisor
        self._rate = Rate(self.trainer, recipe.momentum)
        global_batch = settings.batch_per_device * place.world_size
        self._rates = learning_rates(recipe, settings.steps, self.epoch_images, global_batch)

        # The losses stay in one array on the device, until the window is over.
        self._losses = mx.nd.full((settings.steps,), float("nan"), ctx=context)
        self.batch = feed.next()

    def step(self, index: int) -> None:
        """Hand all of the step to the engine, fetch the next batch, and wait until the step before is done.

        So the engine always has a whole step to do, and never more than two.
        """
        self._rate.set(self._rates[index])
        with autograd.record():
            _, loss = self._forward()
            with self.loss_scale.scaled(loss) as scaled:
                autograd.backward(scaled)
        self.trainer.step(self._divisor)
        self._losses[index : index + 1] = loss
        self.batch = self._feed.next()
        self.data_waits_s[index] = self._feed.wait_s
        if self._ahead is not None:
            self._progress.wait(self._ahead)

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        images, labels = self.batch
        logits = self.model(images)
        return logits, self.loss(logits, labels)

    def mark(self, slot: int) -> None:
        """Let the engine note when all weights are updated."""
        self._ahead = self._progress.mark(slot, self._weights)

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return self._progress.seconds_between(earlier, later)

    def synchronize(self) -> None:
        """Wait until the engine has done everything; what failed there is raised here."""
        self._progress.wait(self._progress.ticket([*self._weights, self._losses]))
        mx.nd.waitall()
        self._losses.wait_to_read()

    def barrier(self) -> None:
        """Wait for every rank."""
        self._peers.barrier()

    def describe(self) -> Dict[str, Any]:
        """Return what the run is made of."""
        return {
            "framework_version": mx.__version__,
            "device": "cpu" if self._on_cpu else "cuda",
            "device_name": _device_name(self._on_cpu),
            "parameters": count_parameters(self.model),
            "threads": in_engine(_openmp_threads),
            "decoder": self._feed.decoder,
            "epoch_images": self.epoch_images,
            "backend": self._collective.backend,
            "compiler_mode": "static_alloc, static_shape" if self._settings.compiler == HYBRIDIZE else None,
            "onednn": mx.runtime.Features().is_enabled("MKLDNN"),
            "optimizer": {
                "name": "SGD",
                "implementation": "sgd, in the workers",
                "loss_scale": self.loss_scale.word,
            },
            "peak_memory_of": "process, resident" if self._on_cpu else "device, in use after the run",
        }

    def actual(self) -> Dict[str, Any]:
        """Compare what the first step computed with to what was asked for, and return it.

        The second convolution is looked at: its input has been through the stem.
        """
        settings = self._settings
        stem, second = list(self._hooks.convolutions)[:2]
        output = self._hooks.output(second, self.batch[0])
        weight = self._hooks.convolutions[stem].weight.data()
        layout = self._hooks.convolutions[second]._kwargs["layout"].lower()
        seen = {
            "compute_dtype": dtype_name(output),
            "weight_dtype": dtype_name(weight),
            "activation_layout": layout,
            "weight_layout": layout,
            "batch_per_device": output.shape[0],
            "parameters": count_parameters(self.model),
            "world_size": self._peers.place.world_size,
        }
        self._hooks.leave()
        asked = {
            "compute_dtype": self._precision.compute,
            "weight_dtype": "float32",
            "activation_layout": settings.layout,
            "batch_per_device": settings.batch_per_device,
        }
        require_as_asked(seen, asked)
        return seen

    def compile_s(self) -> Optional[float]:
        """Return None: MXNet does not count how long tracing takes."""
        return None

    def losses(self) -> List[float]:
        """Return the losses of the global batch."""
        ranks = self._peers.gather([float(loss) for loss in self._losses.asnumpy()])
        return [float(loss) for loss in np.mean(ranks, axis=0)]

    def digest(self) -> int:
        """Return the parameters' bit patterns, weighted by their positions and summed modulo 2 ** 63."""
        total = 0
        for weight in self._weights:
            bits = weight.asnumpy().ravel().view(np.uint32).astype(np.uint64)
            odd = 2 * np.arange(bits.size, dtype=np.uint64) + np.uint64(1)
            total = total * 31 + int((bits * odd).sum(dtype=np.uint64))
        return total % (1 << 63)

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this process held, or what is in use on the GPU."""
        if self._on_cpu:
            return peak_resident_bytes()
        free, whole = mx.context.gpu_memory_info(self._context.device_id)
        return int(whole - free)

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's values."""
        return self._peers.gather([int(value) for value in values])

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(self._named(), weights, self._settings.layout)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(self._named(), self._settings.layout)

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on."""
        self._feed.close()
        self._feed = given_feed(images, labels, self._settings, self._context)
        self.batch = self._feed.next()

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own model and loss."""
        return observing.observe(
            self._hooks, self._forward, self.batch[0], self._named(), self._settings.layout
        )

    def close(self) -> None:
        """End the loader, and leave together with the others."""
        self._feed.close()
        self._collective.leave()
        self._peers.leave()

    def _named(self) -> Dict[str, Any]:
        return observing.named_parameters(self.model, self._settings.model)

    @property
    def _on_cpu(self) -> bool:
        return str(self._context.device_type) == "cpu"


def _choose_context(asked: str, place: Place) -> Any:
    """Return the device of this rank; raise ``RunError`` if it is not there."""
    seen = 0 if asked == "cpu" else mx.context.num_gpus()
    if asked == "cpu" or (asked == "auto" and not seen):
        return mx.cpu()
    if not seen:
        raise RunError(UNSUPPORTED, "cuda was asked for, but MXNet sees no CUDA device here")
    if place.local_rank >= seen > 1:
        raise RunError(
            UNSUPPORTED, f"local rank {place.local_rank} has no GPU: MXNet sees {seen} on this node"
        )
    return mx.gpu(place.local_rank if seen > 1 else 0)


def _device_name(on_cpu: bool) -> str:
    """Return what the vendor calls the CPU; MXNet knows no names of GPUs."""
    if not on_cpu:
        return "GPU"
    return cpu_name()


def _openmp_threads() -> int:
    """Return how many threads OpenMP would start for an operator of the thread that asks."""
    return int(ctypes.CDLL("libgomp.so.1").omp_get_max_threads())
