"""A rank's training in MindSpore: builds everything before the first step, then does one step after another."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

import mindspore as ms
import numpy as np

from ..arguments import Settings
from ..feed import Feed
from ..host import cpu_name, peak_resident_bytes
from ..outcomes import UNSUPPORTED, RunError, require_as_asked
from ..place import Place
from ..schedule import learning_rates
from ..training import Observation, Training
from ..window import HostMarks, slots_for
from . import observing
from .cluster import Ranks
from .compilers import GRAPH, choose_mode
from .device import bind_threads, check_device
from .feed import OneBatch, synthetic
from .models import build_model
from .precision import Precision, choose_precision, loss_scaler, with_precision
from .step import NetworkWithLoss, make_optimizer, make_step
from .witness import HookWitness, in_graph


def open_training(settings: Settings, place: Place) -> MindSporeTraining:
    """Return the training, ready for its first step.

    What MindSpore cannot do on a CPU raises ``RunError`` (unsupported) before the ranks meet, so that no rank waits
    for one that has left.
    """
    check_device(settings.device)
    precision = choose_precision(settings.precision)
    if settings.layout != "nchw":
        raise RunError(UNSUPPORTED, "MindSpore's convolutions for CPUs take nchw only")
    ms.set_device("CPU")
    choose_mode(settings.compiler)
    feed = _open_feed(settings, place)
    ranks = Ranks(place)
    # Only now, since the scheduler that rank 0 has started would inherit it.
    bind_threads(settings.threads, place)
    return MindSporeTraining(settings, ranks, precision, feed)


class MindSporeTraining(Training):
    """Model, optimizer, batches and marks of one rank."""

    def __init__(self, settings: Settings, ranks: Ranks, precision: Precision, feed: Feed) -> None:
        """Build model and optimizer, and fetch the first batch."""
        self._settings, self._ranks, self._precision, self._feed = settings, ranks, precision, feed
        self.epoch_images = feed.epoch_images
        self.data_waits_s: List[float] = [0.0] * settings.steps

        ms.set_seed(settings.seed)
        recipe = settings.recipe
        self.model = build_model(settings.model, settings.classes)
        self._parameters = self.model.trainable_params()
        self._shared = observing.named_parameters(self.model, settings.model)
        self._compiled = settings.compiler == GRAPH
        self._hook = None if self._compiled else HookWitness(self.model)
        global_batch = settings.batch_per_device * ranks.place.world_size
        rates = learning_rates(recipe, settings.steps, self.epoch_images, global_batch)
        optimizer = make_optimizer(self.model, recipe, rates)
        self._scaler = loss_scaler(precision, recipe)
        self.train_step = make_step(
            NetworkWithLoss(with_precision(self.model, precision), recipe.label_smoothing),
            optimizer,
            ranks.reducer(optimizer.parameters),
            self._scaler,
        )
        self._marks = HostMarks(slots_for(settings.steps))
        self._losses: List[Any] = [None] * settings.steps
        self._compile_s = 0.0
        self.batch = feed.next()

    def step(self, index: int) -> None:
        """Train on the batch at hand, then fetch the next one."""
        if index == 0 and self._compiled:
            started = time.perf_counter()
            self.train_step.compile(*self.batch)
            self._compile_s = time.perf_counter() - started
        self._losses[index] = self.train_step(*self.batch)
        self.batch = self._feed.next()
        self.data_waits_s[index] = self._feed.wait_s

    def mark(self, slot: int) -> None:
        """Note the time: on a CPU, a step has been computed when its call returns."""
        self._marks.mark(slot)

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return self._marks.seconds_between(earlier, later)

    def synchronize(self) -> None:
        """Wait for the update of the last parameter; there is no device of which to wait for all."""
        self._parameters[-1].asnumpy()

    def barrier(self) -> None:
        """Wait for every rank."""
        self._ranks.barrier()

    def describe(self) -> Dict[str, Any]:
        """Return what the run is made of."""
        recipe = self._settings.recipe
        scale = None if self._scaler is None else recipe.loss_scale or "dynamic"
        return {
            "framework_version": ms.__version__,
            "device": "cpu",
            "device_name": cpu_name(),
            "parameters": sum(parameter.size for parameter in self._parameters),
            "threads": len(os.sched_getaffinity(0)),
            "decoder": self._feed.decoder,
            "epoch_images": self.epoch_images,
            "backend": self._ranks.backend,
            "compiler_mode": "GRAPH_MODE" if self._compiled else "PYNATIVE_MODE, blocking",
            "amp_level": self._precision.amp_level,
            "cuda": None,
            "cudnn": None,
            "optimizer": {
                "name": "SGD",
                "implementation": "mindspore.nn.Momentum",
                "loss_scale": scale,
            },
            "peak_memory_of": "process, resident",
        }

    def actual(self) -> Dict[str, Any]:
        """Compare what the first step computed with to what was asked for, and return it."""
        settings = self._settings
        witness = in_graph(self.train_step) if self._hook is None else self._hook.look()
        images, _ = self.batch
        seen = {
            "compute_dtype": witness.compute_dtype,
            "weight_dtype": str(self._parameters[0].dtype).lower(),
            "tf32_matmul": False,
            "tf32_convolution": False,
            "activation_layout": "nchw" if images.shape[1] == 3 else "nhwc",
            "weight_layout": "nchw",
            "batch_per_device": witness.batch,
            "parameters": sum(parameter.size for parameter in self._parameters),
            "world_size": self._ranks.place.world_size,
        }
        asked = {
            "compute_dtype": str(self._precision.compute).lower(),
            "weight_dtype": "float32",
            "activation_layout": settings.layout,
            "batch_per_device": settings.batch_per_device,
        }
        require_as_asked(seen, asked)
        return seen

    def compile_s(self) -> Optional[float]:
        """Return the seconds that compiling the step took."""
        return self._compile_s if self._compiled else None

    def losses(self) -> List[float]:
        """Return the losses of the global batch."""
        own = [np.nan if loss is None else float(loss.asnumpy()) for loss in self._losses]
        return [float(loss) for loss in self._ranks.mean(np.array(own, np.float32))]

    def digest(self) -> int:
        """Return 63 bits of a BLAKE2 digest over the parameters, in their order."""
        digest = hashlib.blake2b(digest_size=8)
        for parameter in self._parameters:
            digest.update(np.ascontiguousarray(parameter.asnumpy()).tobytes())
        return int.from_bytes(digest.digest(), "big") >> 1

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this process held."""
        return peak_resident_bytes()

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's values."""
        return self._ranks.gather(values)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(self._shared, weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(self._shared)

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on."""
        self._feed.close()
        self._feed = OneBatch(images, labels, self.epoch_images)
        self.batch = self._feed.next()

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network, loss and batch."""
        return observing.observe(
            self.model, self._settings.model, self.train_step.forward, self.batch, self._shared
        )

    def close(self) -> None:
        """End the loader, and leave with the other ranks."""
        self._feed.close()
        self._ranks.leave()


def _open_feed(settings: Settings, place: Place) -> Feed:
    if settings.synthetic:
        return synthetic(settings, place.rank)
    from .loader import open_loader

    return open_loader(settings, place)
