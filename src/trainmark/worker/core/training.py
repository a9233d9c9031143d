"""The interface of a framework's worker, and the parts that all workers share."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

from .facts import Expected, Facts, Seen, as_asked
from .feed import Feed, FixedFeed
from .host import peak_resident_bytes
from .optimizers import Moments
from .outcomes import INVALID, RunError
from .queues import Loading
from .ranks import Ranks
from .schedule import learning_rates
from .settings import Settings
from .task import Task
from .window import Marks, Steps

WITNESS_RATE = 0.7
"""The learning rate of the steps after the window, as a part of the recipe's."""

NONE = "none"
"""The value of the compiler for no compiler, in every framework."""


class Gradients(Protocol):
    """A rank's pass of its batch alone; it may have ``layers`` too, the observations for ``Task.looked``."""

    @property
    def gradients(self) -> Mapping[str, Any]:
        """Return the gradient of each parameter."""


class OwnPass(NamedTuple):
    """One rank's pass of its batch alone: gradients of the loss by the shared names, and the layers' observations."""

    gradients: Mapping[str, Any]
    layers: Any = None
    logits: Any = None
    """The outputs that the loss was computed from (numpy, in their own type); None if they are not returned."""

    loss_types: Optional[Mapping[str, str]] = None
    """The types of the ``logits`` that the loss is computed from, and of the ``loss``; None if they are unknown."""


class Observation(Protocol):
    """One forward and backward pass without an update, in training mode; arrays are numpy's, float32.

    ``gradients`` are those of the loss only (without weight decay), by the shared names and in their shapes. A task has
    its own type for further observations.
    """

    @property
    def loss(self) -> float:
        """Return the loss of the batch."""

    @property
    def gradients(self) -> Mapping[str, Any]:
        """Return the gradient of each parameter."""


class Training(Steps):
    """One rank that is ready to train; a framework's folder for a task has ``open_training(settings, place)``.

    ``docs/worker.md`` describes how to add a framework or a task, which implements the methods that are not implemented
    here.
    """

    task: Task
    """The task; set by the class."""

    epoch_samples: int
    """Samples in an epoch: of the data set, or from the settings for synthetic data."""

    data_waits_s: List[float]
    """The host's wait for the loader in each step, in seconds."""

    def __init__(
        self,
        settings: Settings,
        ranks: Ranks,
        marks: Marks,
        to_batch: Callable[..., Any],
        feed: Optional[Feed] = None,
    ) -> None:
        """Fetch the first batch: from ``feed``, or the synthetic one.

        ``to_batch`` converts the task's numpy arrays to a batch on the device, in the form for the step.
        """
        self.settings, self.ranks, self.marks, self._to_batch = settings, ranks, marks, to_batch
        self.feed: Feed = feed or FixedFeed(
            to_batch(*self.task.synthetic(settings, ranks.place.rank)), settings.epoch_samples
        )
        self.epoch_samples = self.feed.epoch_samples
        self.data_waits_s = [0.0] * settings.steps
        global_batch = settings.batch_per_device * ranks.place.world_size
        self.rates = learning_rates(settings.recipe, settings.steps, self.epoch_samples, global_batch)
        if settings.witness_steps:
            # Another rate than the recipe's: a step that ignores its rate shows.
            rate = WITNESS_RATE * settings.recipe.learning_rate
            self.rates[-settings.witness_steps :] = [rate] * settings.witness_steps
        self.batch = self.feed.next()

    # The methods that a framework's worker implements, in addition to ``synchronize``.

    def train(self, index: int) -> None:
        """Launch the whole step ``index`` on the device: set the rate, forward, backward, update, store the loss.

        The batch is ``self.batch``, the rate ``self.rates[index]``. This method and the fetch of the next batch are
        timed; write it as a good user of the framework would.
        """
        raise NotImplementedError

    def facts(self) -> Facts:
        """Return the facts of the run: device, versions, implementations."""
        raise NotImplementedError

    def seen(self) -> Seen:
        """Return the observations of the first step. Called once, after it; hooks may be removed here."""
        raise NotImplementedError

    def expected(self) -> Expected:
        """Return the expected observations of the first step."""
        raise NotImplementedError

    def own_losses(self) -> List[float]:
        """Return the losses of this rank's steps so far, in their order."""
        raise NotImplementedError

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load parameters and running statistics (numpy, float32), without changing the optimizer's state.

        All names and shapes of the task's ``Check`` are given.
        """
        raise NotImplementedError

    def read_weights(self) -> Dict[str, Any]:
        """Return copies of the parameters and running statistics, as ``load_weights`` takes them."""
        raise NotImplementedError

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the same model and loss as ``train``, without an update.

        Running statistics may change; the caller loads them again. A task has its own type of the result.
        """
        raise NotImplementedError

    # Optional observations of the steps after the window; missing ones are null in the events.

    COUNTS_UPDATES = True
    """Whether ``steps_taken`` excludes the steps that overflowed, which changed no weight."""

    def steps_taken(self) -> Optional[int]:
        """Return the model's or the optimizer's own count of steps."""
        return None

    def updates_taken(self) -> Optional[int]:
        """Return the optimizer's own count of its updates; forward passes must not raise it."""
        return None

    def look_at_weights(self) -> Dict[str, Any]:
        """Return the weights to verify: all, or for a large model some rows of each parameter, always the same.

        ``read_moments`` and ``own_pass`` then return the same rows, and ``share_looked_at`` their share.
        """
        return self.read_weights()

    def share_looked_at(self) -> float:
        """Return the share of the parameters' elements that ``look_at_weights`` returns."""
        return 1.0

    def read_moments(self) -> Optional[Moments]:
        """Return the moments of an adaptive optimizer."""
        return None

    def watched_step(self, index: int) -> Any:
        """Run step ``index``, and return the observations of its layers for ``Task.looked``."""
        self.step(index)
        return None

    def own_pass(self) -> Optional[Gradients]:
        """Pass this rank's current batch forward and backward alone, without an exchange of gradients.

        Running statistics may change; the caller loads them again.
        """
        if self.ranks.place.world_size > 1 or self.settings.compiler != NONE:
            return None
        return self.observe()

    def read_batch(self) -> Optional[Tuple[Any, ...]]:
        """Return this rank's current batch as numpy arrays."""
        import numpy as np

        return tuple(
            array.asnumpy() if hasattr(array, "asnumpy") else np.asarray(array) for array in self.batch
        )

    def loader_path(self) -> Optional[Tuple[Dict[str, Any], List[Tuple[str, str]]]]:
        """Return the loader's output for a known sample, for the events, and doubts; None if it cannot be observed."""
        return None

    def products(self, _size: int) -> Optional[Callable[[int], None]]:
        """Return a function that multiplies two matrices in the run's type a given number of times, and waits.

        They have ``size`` rows and columns, on this rank's device. None: the framework has no such probe.
        """
        return None

    def sums(self, _values: int) -> Optional[Callable[[int], None]]:
        """Return a function that adds one array to another in place a given number of times, and waits.

        The values have four bytes, on this rank's device: two are read and one is written each time. None: the
        framework has no such probe.
        """
        return None

    def alone(self) -> Optional[Callable[[], None]]:
        """Return a function that passes the current batch forward and backward like the step, without exchange.

        It may launch everything without waiting, and must leave no gradient behind. None: there is no such pass.
        """
        return None

    def all_reduce(self) -> Optional[Tuple[int, Callable[[], None]]]:
        """Return the bytes of gradients that a step exchanges, and an all-reduce of that size; None without one."""
        return None

    def keeps_fp32_weights(self) -> bool:
        """Return whether the weights are of FP32, so that a small update is not rounded away."""
        return self.expected().weight_dtype == "float32"

    def peak_memory_bytes(self) -> int:
        """Return this rank's peak memory, of the kind in ``Facts.peak_memory_of`` (here: the process)."""
        return peak_resident_bytes()

    # The common part of all workers.

    def step(self, index: int) -> None:
        """Train on the current batch, then fetch the next one while the device still computes."""
        self.train(index)
        self.batch = self.feed.next()
        self.data_waits_s[index] = self.feed.wait_s

    def loading(self) -> Optional[Loading]:
        """Return the state of the loader; None for a batch that is used in every step."""
        return None if self.feed.ahead is None else self.feed.loading()

    def counted(self, _first: int, _last: int) -> Dict[str, int]:
        """Return this rank's work in these steps except the last, for counters that do not follow from the samples."""
        return {}

    def mark(self, slot: int) -> None:
        """Mark the time at which the device has finished everything launched so far."""
        self.marks.mark(slot)

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return self.marks.seconds_between(earlier, later)

    def barrier(self) -> None:
        """Wait for every rank."""
        self.ranks.barrier()

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's ``values`` (64-bit), by rank. All ranks call it."""
        return self.ranks.gather(values)

    def describe(self) -> Dict[str, Any]:
        """Return the facts of this run for the PARAMETER event; the recipe is added to the optimizer."""
        facts = self.facts()
        scale = (self.settings.recipe.loss_scale or "dynamic") if facts.loss_scaled else None
        loaders = {} if self.feed.workers is None else {"loader_workers": self.feed.workers}
        return {
            "framework_version": facts.framework_version,
            "device": facts.device,
            "device_name": facts.device_name,
            "parameters": facts.parameters,
            "threads": facts.threads,
            "decoder": self.feed.decoder,
            **loaders,
            **self.task.parameters(self.settings, self.epoch_samples),
            "backend": self.ranks.backend,
            "compiler_mode": facts.compiler_mode,
            "optimizer": {
                "name": facts.optimizer,
                "implementation": facts.implementation,
                "loss_scale": scale,
            },
            "peak_memory_of": facts.peak_memory_of,
            **facts.others,
        }

    def actual(self) -> Dict[str, Any]:
        """Return the observations of the first step; raise ``RunError`` (invalid) if they differ from the request."""
        settings, expected, facts = self.settings, self.expected(), self.facts()
        asked = {
            "compute_dtype": expected.compute_dtype,
            "weight_dtype": expected.weight_dtype,
            "tf32_matmul": expected.tf32,
            "tf32_convolution": expected.tf32,
            "batch_per_device": settings.batch_per_device,
            **self.task.asked(settings),
        }
        found = as_asked(self.seen(), asked, facts.device)
        ranks, there = self.ranks.counted(), self.ranks.place.world_size
        if ranks != there:
            raise RunError(INVALID, f"{settings.framework} counts {ranks} ranks, but {there} were started")
        return {**found, "parameters": facts.parameters, "world_size": ranks}

    def losses(self) -> List[float]:
        """Return the loss of every step, averaged over the ranks; NaN for steps not done. All ranks call it."""
        steps = self.settings.steps
        own = (self.own_losses() + [float("nan")] * steps)[:steps]
        # Ranks exchange integers, so a loss is sent as the bits of a double.
        bits = struct.unpack(f"<{steps}q", struct.pack(f"<{steps}d", *own))
        ranks = [struct.unpack(f"<{steps}d", struct.pack(f"<{steps}q", *part)) for part in self.gather(bits)]
        return [sum(step) / len(ranks) for step in zip(*ranks)]

    def digest(self) -> int:
        """Return 63 bits of a BLAKE2 digest over all trainable parameters, bit for bit."""
        digest = hashlib.blake2b(digest_size=8)
        for name, weight in self.read_weights().items():
            if self.task.is_trainable(name):
                digest.update(weight.tobytes())
        return int.from_bytes(digest.digest(), "big") >> 1

    def set_batch(self, *arrays: Any) -> None:
        """Train on this batch from now on: the task's numpy arrays."""
        self.feed.close()
        self.feed = FixedFeed(self._to_batch(*arrays), self.epoch_samples)
        self.batch = self.feed.next()

    def close(self) -> None:
        """End the loader, and leave together with the other ranks."""
        self.feed.close()
        self.ranks.leave()
