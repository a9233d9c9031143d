"""What a framework's worker has to offer, and what is the same for all of them."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .architectures import is_trainable
from .arguments import Settings
from .facts import Expected, Facts, Seen, as_asked
from .feed import Feed, FixedFeed, noise
from .host import peak_resident_bytes
from .outcomes import INVALID, RunError
from .ranks import Ranks
from .schedule import learning_rates
from .window import Marks, Steps


class ConvolutionSeen(NamedTuple):
    """What the framework's own objects say of a convolution, and what came out of it.

    ``padding`` is ((top, bottom), (left, right)); ``output`` is (batch, channels, height, width) whatever the
    layout; ``output_norm`` is the square root of the sum of the squares of all output values.
    """

    name: str
    kernel: Tuple[int, int]
    stride: Tuple[int, int]
    padding: Tuple[Tuple[int, int], Tuple[int, int]]
    groups: int
    output: Tuple[int, int, int, int]
    output_norm: float


class Observation(NamedTuple):
    """One forward and backward pass without an update, in training mode; arrays are numpy's, float32.

    ``gradients`` are those of the loss alone (no weight decay in them), by the names and in the shapes of
    ``architectures.Architecture.shapes``; ``logits`` is (batch, classes); ``convolutions`` are in forward order.
    """

    logits: Any
    loss: float
    gradients: Mapping[str, Any]
    convolutions: Sequence[ConvolutionSeen]


class Training(Steps):
    """One rank that is ready to train; a framework's package makes one with ``open_training(settings, place)``.

    The package also has ``stopped_by(error)``, which turns an exception of its framework into a ``RunError``, or
    returns None for one that it does not know. See ``docs/worker.md`` for how to add a framework: the methods that
    are not implemented here are those that it writes.
    """

    epoch_images: int
    """Images in an epoch: of the data set, or of ImageNet for synthetic data."""

    data_waits_s: List[float]
    """For each step, how long the host waited for the loader in it (seconds)."""

    def __init__(
        self,
        settings: Settings,
        ranks: Ranks,
        marks: Marks,
        to_batch: Callable[[Any, Any], Any],
        feed: Optional[Feed] = None,
    ) -> None:
        """Fetch the first batch: from ``feed``, or the synthetic one.

        ``to_batch(images, labels)`` makes a batch of numpy arrays, (batch, 3, size, size) in float32 and (batch,) in
        int64: on the device, in the layout, and in the type that the step takes.
        """
        self.settings, self.ranks, self.marks, self._to_batch = settings, ranks, marks, to_batch
        self.feed: Feed = feed or FixedFeed(
            to_batch(*noise(settings, ranks.place.rank)), settings.epoch_images
        )
        self.epoch_images = self.feed.epoch_images
        self.data_waits_s = [0.0] * settings.steps
        global_batch = settings.batch_per_device * ranks.place.world_size
        self.rates = learning_rates(settings.recipe, settings.steps, self.epoch_images, global_batch)
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

        Names and shapes are those of ``architectures.Architecture.shapes``; all of them are given.
        """
        raise NotImplementedError

    def read_weights(self) -> Dict[str, Any]:
        """Return copies of the parameters and running statistics, as ``load_weights`` takes them."""
        raise NotImplementedError

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the very model and loss of ``train``, and update no parameter.

        Running statistics may change; the caller loads them again.
        """
        raise NotImplementedError

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held, of what ``Facts.peak_memory_of`` says: here, the process."""
        return peak_resident_bytes()

    # What is the same for all.

    def step(self, index: int) -> None:
        """Train on the batch at hand, then fetch the next one while the device still computes."""
        self.train(index)
        self.batch = self.feed.next()
        self.data_waits_s[index] = self.feed.wait_s

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
            "epoch_images": self.epoch_images,
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
            "activation_layout": settings.layout,
            "weight_layout": settings.layout,
            "batch_per_device": settings.batch_per_device,
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
            if is_trainable(name):
                digest.update(weight.tobytes())
        return int.from_bytes(digest.digest(), "big") >> 1

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on: numpy, (batch, 3, height, width) in float32, and (batch,) in int64."""
        self.feed.close()
        self.feed = FixedFeed(self._to_batch(images, labels), self.epoch_images)
        self.batch = self.feed.next()

    def close(self) -> None:
        """End the loader, and leave together with the other ranks."""
        self.feed.close()
        self.ranks.leave()
