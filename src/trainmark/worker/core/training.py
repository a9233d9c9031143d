"""What a framework's worker has to offer, and what is the same for all of them."""

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

NONE = "none"
"""The compiler that compiles nothing, in every framework."""


class Gradients(Protocol):
    """A rank's batch by itself; it may have ``layers`` too, as ``Task.looked`` takes what was seen."""

    @property
    def gradients(self) -> Mapping[str, Any]:
        """Return the gradient of each parameter."""


class OwnPass(NamedTuple):
    """One rank's batch by itself: gradients of the loss alone by the shared names, and what was seen of the layers."""

    gradients: Mapping[str, Any]
    layers: Any = None


class Observation(Protocol):
    """One forward and backward pass without an update, in training mode; arrays are numpy's, float32.

    ``gradients`` are those of the loss alone (no weight decay in them), by the shared names and in their shapes. What
    else there is to see, a task says in a type of its own.
    """

    @property
    def loss(self) -> float:
        """Return the loss of the batch."""

    @property
    def gradients(self) -> Mapping[str, Any]:
        """Return the gradient of each parameter."""


class Training(Steps):
    """One rank that is ready to train; a framework's folder for a task has ``open_training(settings, place)``.

    See ``docs/worker.md`` for how to add a framework or a task: the methods that are not implemented here are those
    that it writes.
    """

    task: Task
    """What is trained; set by the class."""

    epoch_samples: int
    """Samples in an epoch: of the data set, or as many as the settings say for synthetic data."""

    data_waits_s: List[float]
    """For each step, how long the host waited for the loader in it (seconds)."""

    def __init__(
        self,
        settings: Settings,
        ranks: Ranks,
        marks: Marks,
        to_batch: Callable[..., Any],
        feed: Optional[Feed] = None,
    ) -> None:
        """Fetch the first batch: from ``feed``, or the synthetic one.

        ``to_batch`` makes a batch of the task's numpy arrays: on the device, and as the step takes it.
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
            self.rates[-settings.witness_steps :] = [settings.recipe.learning_rate] * settings.witness_steps
        self.batch = self.feed.next()

    # What a framework's worker writes, besides ``synchronize``.

    def train(self, index: int) -> None:
        """Hand step ``index`` over to the device, all of it: the rate, forward, backward, update, keeping the loss.

        The batch is ``self.batch``, the rate ``self.rates[index]``. What is timed is this, and fetching the next
        batch; write it as a good user of the framework would.
        """
        raise NotImplementedError

    def facts(self) -> Facts:
        """Return what the run is made of."""
        raise NotImplementedError

    def seen(self) -> Seen:
        """Return what the first step really computed with. Called once, after it; hooks may be taken away here."""
        raise NotImplementedError

    def expected(self) -> Expected:
        """Return what the first step should have computed with."""
        raise NotImplementedError

    def own_losses(self) -> List[float]:
        """Return the losses of this rank's steps so far, in their order."""
        raise NotImplementedError

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics (numpy, float32), and leave the optimizer's state as it is.

        Names and shapes are those of the task's ``Check``; all of them are given.
        """
        raise NotImplementedError

    def read_weights(self) -> Dict[str, Any]:
        """Return copies of the parameters and running statistics, as ``load_weights`` takes them."""
        raise NotImplementedError

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the very model and loss of ``train``, and update no parameter.

        Running statistics may change; the caller loads them again. A task has its own type of what is returned.
        """
        raise NotImplementedError

    # What a framework's worker may show of the steps after the window; what it does not is null in the events.

    COUNTS_UPDATES = True
    """Whether ``steps_taken`` leaves out the steps that overflowed, which changed no weight."""

    def steps_taken(self) -> Optional[int]:
        """Return how many steps the model or the optimizer has counted itself."""
        return None

    def look_at_weights(self) -> Dict[str, Any]:
        """Return what ``read_weights`` does; of a large model it may be some rows of each parameter, always the same.

        Then ``read_moments`` and ``own_pass`` return those rows too, and ``share_looked_at`` tells their share.
        """
        return self.read_weights()

    def share_looked_at(self) -> float:
        """Return the share of the parameters' elements that ``look_at_weights`` returns."""
        return 1.0

    def read_moments(self) -> Optional[Moments]:
        """Return what an adaptive optimizer keeps of the gradients so far."""
        return None

    def watched_step(self, index: int) -> Any:
        """Do step ``index``, and return what was seen of its layers, as ``Task.looked`` takes it."""
        self.step(index)
        return None

    def own_pass(self) -> Optional[Gradients]:
        """Pass this rank's batch at hand forward and backward, alone: its gradients are exchanged with nobody.

        Running statistics may change; the caller loads them again.
        """
        if self.ranks.place.world_size > 1 or self.settings.compiler != NONE:
            return None
        return self.observe()

    def read_batch(self) -> Optional[Tuple[Any, ...]]:
        """Return this rank's batch at hand as numpy arrays."""
        import numpy as np

        return tuple(
            array.asnumpy() if hasattr(array, "asnumpy") else np.asarray(array) for array in self.batch
        )

    def loader_path(self) -> Optional[Tuple[Dict[str, Any], List[Tuple[str, str]]]]:
        """Return what the run's loader makes of a known sample, for the events, and doubts; None: it is not shown."""
        return None

    def products(self, _size: int) -> Optional[Callable[[int], None]]:
        """Return what does a product of two matrices in the type of the run, as often as asked, and waits for it.

        They have ``size`` rows and columns and lie on this rank's device. None: the framework has no such probe.
        """
        return None

    def sums(self, _values: int) -> Optional[Callable[[int], None]]:
        """Return what adds one row of values to another in place, as often as asked, and waits for it.

        The values, four bytes each, lie on this rank's device: two are read and one is written each time. None: the
        framework has no such probe.
        """
        return None

    def alone(self) -> Optional[Callable[[], None]]:
        """Return what passes the batch at hand forward and backward as the step does, with nothing exchanged.

        It may hand all of it over without waiting, and must leave no gradient behind. None: there is no such pass.
        """
        return None

    def all_reduce(self) -> Optional[Tuple[int, Callable[[], None]]]:
        """Return how many bytes of gradients a step exchanges, and an all-reduce of as many; None: there is none."""
        return None

    def keeps_fp32_weights(self) -> bool:
        """Return whether the weights are of FP32, so that a small update is not rounded away."""
        return self.expected().weight_dtype == "float32"

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held, of what ``Facts.peak_memory_of`` says: here, the process."""
        return peak_resident_bytes()

    # What is the same for all.

    def step(self, index: int) -> None:
        """Train on the batch at hand, then fetch the next one while the device still computes."""
        self.train(index)
        self.batch = self.feed.next()
        self.data_waits_s[index] = self.feed.wait_s

    def loading(self) -> Optional[Loading]:
        """Return the state of the loader; None for a batch that is used in every step."""
        return None if self.feed.ahead is None else self.feed.loading()

    def counted(self, _first: int, _last: int) -> Dict[str, int]:
        """Return this rank's work in these steps, less the last of them, by counters that the samples do not tell."""
        return {}

    def mark(self, slot: int) -> None:
        """Note when the device is done with everything handed over so far."""
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
        """Return what this run is made of, for the PARAMETER event; the recipe is added to the optimizer."""
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
        """Return what the first step really used; raise ``RunError`` (invalid) if it was not what was asked."""
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
        # Ranks exchange whole numbers: a loss goes as the bits of a double.
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
