"""One rank's training: the parts that are the same in every framework, around a backend (``backend.py``)."""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .backend import Backend, Observation
from .facts import as_requested
from .feed import Feed, FixedFeed, LoadedFeed, Numbered
from .folders import import_backend
from .optimizers import learning_rates
from .outcomes import INVALID, RunError
from .place import Place, Ranks
from .precision import Precision
from .queues import Loading
from .settings import Settings
from .task import Task
from .window import DeviceTimers, HostTimers

WITNESS_STEPS, WITNESS_RATE = 2, 0.7  # that move the weights, at this part of the recipe's rate
DROPOUT_STEPS, ISOLATION_STEPS = 4, 3  # at a rate of 0 after these, for dropout, and for parts to be isolated
NONE = "none"  # the value of the compiler for no compiler, in every framework


def steps_after_window(settings: Settings) -> int:
    """Return the number of steps that verify a run after its window."""
    isolation = ISOLATION_STEPS if settings.isolated else 0
    return WITNESS_STEPS + (DROPOUT_STEPS if settings.dropout else 0) + isolation


class Training(Backend):
    """One rank that is ready to train; a framework's backend inherits from it and implements what is left.

    The class sets its ``task``, and the ``precision`` before the base's constructor.
    ``docs/reference/worker.md`` describes how to add a framework or a task.
    """

    task: Task[Any]
    model: Any  # the framework's own, if ``build`` makes one
    precision: Precision
    epoch_samples: int  # those of the data set, or from the settings for synthetic data
    data_waits_s: list[float]  # the host's wait for the loader in each step
    REPEATS_DROPOUT = False  # whether another pass without a compiler drops the same values again
    OBSERVES_COMPILED = False  # ``observe`` passes the batch with a compiler too as the step does

    def __init__(
        self,
        settings: Settings,
        ranks: Ranks,
        feed: Feed | None = None,
        marks: DeviceTimers | None = None,
    ) -> None:
        """Fetch the first batch: from ``feed``, or the synthetic one.

        Without ``marks`` steps are timed by the host's clock.
        """
        self.settings, self.ranks = settings, ranks
        self.marks = marks or HostTimers(settings.steps)
        if feed is None:
            synthetic = self.to_batch(*self.task.synthetic(settings, ranks.place.rank))
            feed = FixedFeed(synthetic, settings.epoch_samples)
        self.feed: Feed = feed
        self.epoch_samples = self.feed.epoch_samples
        self.data_waits_s = [0.0] * settings.steps
        # Of one number a step, which stays on the device until the window is over.
        self._losses: Any = []
        self.rates = learning_rates(settings.recipe, settings.steps, self.epoch_samples, self.global_batch)
        if settings.witness_steps:
            # Another rate than the recipe's: a step that ignores its rate shows.
            rate = WITNESS_RATE * settings.recipe.learning_rate
            still = [0.0] * (settings.witness_steps - WITNESS_STEPS)
            self.rates[-settings.witness_steps :] = [rate] * WITNESS_STEPS + still
        self.batch = self.feed.next()

    def build(self) -> None:
        """Build the model, its loss and its optimizer, and pass them to the backend's ``take_over``."""
        raise NotImplementedError

    @property
    def global_batch(self) -> int:
        """Return the samples of one step of all ranks."""
        return self.settings.batch_per_device * self.ranks.place.world_size

    def open_numbers(self, data: Numbered, settings: Any, place: Place) -> LoadedFeed:
        """Start this rank's loader of data whose ``ready`` is ``from_loader``, or calls it; return its feed."""
        # Imported where it is needed: a loader's packages take long to import, and synthetic data have none.
        feed: LoadedFeed = import_backend(settings.framework, "loading").open_numbers(data, settings, place)
        return feed

    def from_loader(self, batch: Any) -> Any:
        """Return a batch of ``open_numbers``' loader in the form for the step."""
        return self.to_batch(*batch)

    def to_batch(self, *arrays: Any) -> tuple[Any, ...]:
        """Return a batch on the device, in the form for the step, of the task's numpy arrays; here these."""
        return arrays

    def expected(self) -> Precision:
        """Return the expected observations of the first step."""
        return self.precision

    def observed_step(self, index: int) -> Any:
        """Run step ``index``; return the observations of its layers for ``Task.verify_layers``, here none."""
        self.step(index)
        return None

    def own_pass(self) -> Observation | None:
        """Pass this rank's current batch alone, without an exchange of gradients: ``observe`` in a run of one rank.

        Running statistics may change; the caller loads them again.
        """
        compiled = self.settings.compiler != NONE and not self.OBSERVES_COMPILED
        return None if self.ranks.place.world_size > 1 or compiled else self.observe()

    def read_batch(self) -> tuple[Any, ...] | None:
        """Return this rank's current batch as numpy arrays."""
        return tuple(one.asnumpy() if hasattr(one, "asnumpy") else np.asarray(one) for one in self.batch)

    def step(self, index: int) -> None:
        """Train on the current batch, then fetch the next one while the device still computes."""
        self.train(index)
        self.batch = self.feed.next()
        self.data_waits_s[index] = self.feed.wait_s

    def loading(self) -> Loading | None:
        return None if self.feed.ahead is None else self.feed.loading()

    def counted(self, _first: int, _last: int) -> dict[str, int]:
        """Return this rank's work in these steps except the last, for counters that do not follow from the samples."""
        return {}

    def barrier(self) -> None:
        self.ranks.barrier()

    def gather(self, values: Sequence[int]) -> list[list[int]]:
        """Return every rank's ``values`` (64-bit), by rank. All ranks call it."""
        return self.ranks.gather(values)

    def gather_one(self, value: int) -> list[int]:
        """Return every rank's ``value``, by rank. All ranks call it."""
        return [values[0] for values in self.gather([int(value)])]

    def mean_over_ranks(self, values: Sequence[float]) -> list[float]:
        """Return the mean over the ranks of each value. All ranks call it."""
        # Ranks exchange integers, so a number is sent as the bits of a double.
        doubles, integers = f"<{len(values)}d", f"<{len(values)}q"
        bits = struct.unpack(integers, struct.pack(doubles, *values))
        ranks = [struct.unpack(doubles, struct.pack(integers, *part)) for part in self.gather(bits)]
        return [sum(own) / len(ranks) for own in zip(*ranks)]

    def describe(self) -> dict[str, Any]:
        """Return the facts of this run for the PARAMETER event; the recipe is added to the optimizer."""
        facts, workers = self.facts(), self.feed.workers
        scale = (self.settings.recipe.loss_scale or "dynamic") if self.expected().scaled else None
        optimizer = {"name": facts.optimizer, "implementation": facts.implementation, "loss_scale": scale}
        own = ("framework_version", "device", "device_name", "parameters", "threads")
        return {
            **{name: getattr(facts, name) for name in own},
            "decoder": self.feed.decoder,
            **({} if workers is None else {"loader_workers": workers}),
            **self.task.parameters(self.settings, self.epoch_samples),
            "backend": self.ranks.backend,
            "compiler_mode": facts.compiler_mode,
            "optimizer": optimizer,
            "peak_memory_of": facts.peak_memory_of,
            **facts.others,
        }

    def tf32_switches(self) -> dict[str, Any]:
        """Return whether the framework lets a GPU use TF32, by the names of ``ObservedConfig``; empty if unknown."""
        return {}

    def compiled_facts(self) -> dict[str, Any]:
        """Return what the first step shows of its compiled programs; raise ``RunError`` for what it must not."""
        return {}

    def actual(self) -> dict[str, Any]:
        """Return the observations of the first step; raise ``RunError`` (invalid) if they differ from the request."""
        settings, expected, facts = self.settings, self.expected(), self.facts()
        requested = {
            "compute_dtype": expected.compute,
            "weight_dtype": expected.weights,
            "tf32_matmul": expected.tf32,
            "tf32_convolution": expected.tf32,
            "batch_per_device": settings.batch_per_device,
            **self.task.requested(settings),
        }
        observed = self.observed_config()
        others = {**observed.others, **self.compiled_facts()}
        observed = replace(observed, **self.tf32_switches(), others=others)
        found = as_requested(observed, requested, facts.device)
        ranks, there = self.ranks.counted(), self.ranks.place.world_size
        if ranks != there:
            raise RunError(INVALID, f"{settings.framework} counts {ranks} ranks, but {there} were started")
        return {**found, "parameters": facts.parameters, "world_size": ranks}

    def own_losses(self) -> list[float]:
        return [float(loss) for loss in self._losses]

    def named_tensors(self) -> dict[str, Any]:
        """Return the framework's own parameters and running statistics, by the shared names; here the model's."""
        tensors: dict[str, Any] = self.model.named_tensors()
        return tensors

    def losses(self) -> list[float]:
        """Return the loss of every step, averaged over the ranks; NaN for steps not done. All ranks call it."""
        steps = self.settings.steps
        return self.mean_over_ranks((self.own_losses() + [float("nan")] * steps)[:steps])

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
        self.batch = self.to_batch(*arrays)
        self.feed = FixedFeed(self.batch, self.epoch_samples)

    def close(self) -> None:
        """End the loader, and leave together with the other ranks."""
        self.feed.close()
        self.ranks.leave()
