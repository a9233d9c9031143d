"""A rank's training in JAX: builds everything before the first step, then hands one step after another over."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import flax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from ..arguments import Settings
from ..feed import Feed
from ..outcomes import UNSUPPORTED, RunError, require_as_asked
from ..place import Place
from ..schedule import learning_rates
from ..training import Observation, Training
from ..window import slots_for
from . import observing
from .compiling import NONE, CompileClock, CompiledConvolutions, check_compiler, compiled_convolutions
from .device import (
    bound_threads,
    choose_platform,
    compute_threads,
    device_name,
    own_device,
    peak_memory_bytes,
    peak_memory_of,
)
from .feed import FixedFeed, normalise, synthetic_feed
from .loaders import check_loader, open_loader
from .marks import CompletionMarks
from .models import build_model, count_parameters, init
from .precision import Precision, check_generation, choose_precision, loss_scale
from .ranks import Ranks, meet
from .state import RANKS, Batch, TrainState, make_loss, make_step, optimizer
from .witness import Witness


def open_training(settings: Settings, place: Place) -> JaxTraining:
    """Return the training, ready for its first step.

    What this worker cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no rank waits for one
    that has left. Only a GPU that is too old is seen later, because JAX may not start before the ranks have met.
    """
    if settings.layout != "nhwc":
        raise RunError(UNSUPPORTED, "Flax's convolutions take images as nhwc alone; ask for that layout")
    platform = choose_platform(settings.device, place)
    precision = choose_precision(settings.precision, platform)
    check_compiler(settings.compiler, place.world_size)
    if not settings.synthetic:
        check_loader(settings.loader)
    bound_threads(settings.threads)
    meet(place, platform)
    check_generation(settings.precision, own_device())
    return JaxTraining(settings, Ranks(place, platform), precision)


class JaxTraining(Training):
    """State, step, batches and marks of one rank."""

    def __init__(self, settings: Settings, ranks: Ranks, precision: Precision) -> None:
        """Make the state on the device, and fetch the first batch."""
        self._settings, self._ranks, self._precision = settings, ranks, precision
        self._device = own_device()
        self._feed = open_feed(settings, ranks, precision)
        self.epoch_images = self._feed.epoch_images
        self.data_waits_s: List[float] = [0.0] * settings.steps

        global_batch = settings.batch_per_device * ranks.place.world_size
        rates = learning_rates(settings.recipe, settings.steps, self.epoch_images, global_batch)
        self.model = build_model(settings.model, settings.classes, precision)
        self._update = optimizer(settings.recipe)
        self._loss_of = make_loss(
            self.model, settings.recipe, lambda images: normalise(images, precision.compute)
        )
        self._step = make_step(self._loss_of, self._update, rates, None if ranks.alone else RANKS)
        self.state = self._fresh_state()
        self._parameters = count_parameters(self.state.params)

        self._run: Optional[Callable[[TrainState, Batch], Any]] = None
        self._compiled: Optional[CompiledConvolutions] = None
        self._witness = Witness()
        run_as = as_it_is if settings.compiler == NONE else jax.jit
        self._observer = observing.Observer(self._loss_of, settings.model, run_as)
        self._marks = CompletionMarks(slots_for(settings.steps))
        # The losses stay on the device until the window is over.
        self._losses: List[Any] = []
        self.batch = self._feed.next()
        # From here on: what made the weights is none of the training's compilation.
        self._clock = CompileClock()

    def _fresh_state(self) -> TrainState:
        """Return the state before the first step, made by one program, the same on every rank.

        Running statistics are each rank's own, so with several ranks they have a first axis for them.
        """
        settings, ranks = self._settings, self._ranks
        scale = loss_scale(self._precision, settings.recipe)

        def fresh() -> TrainState:
            params, batch_stats = init(self.model, settings.model, settings.image_size, settings.seed)
            if not ranks.alone:
                world_size = ranks.place.world_size
                batch_stats = jax.tree.map(lambda s: jnp.broadcast_to(s, (world_size, *s.shape)), batch_stats)
            return TrainState(
                step=jnp.zeros((), jnp.int32),
                params=params,
                batch_stats=batch_stats,
                opt_state=self._update.init(params),
                scale=scale,
            )

        placed = TrainState(ranks.shared, ranks.shared, ranks.split, ranks.shared, ranks.shared)
        return jax.jit(fresh, out_shardings=None if ranks.alone else placed)()

    def step(self, index: int) -> None:
        """Hand the training on the batch at hand over, then fetch the next batch while the device computes."""
        if self._run is None:
            with self._witness.watching():
                self._run = self._prepare()
                self.state, loss = self._run(self.state, self.batch)
        else:
            self.state, loss = self._run(self.state, self.batch)
        self._losses.append(loss)
        self._marks.hand_over(loss)
        self.batch = self._feed.next()
        self.data_waits_s[index] = self._feed.wait_s

    def _prepare(self) -> Callable[[TrainState, Batch], Any]:
        """Return the step as it will be called: itself, or compiled for this very state and batch."""
        if self._settings.compiler == NONE:
            return self._step
        step: Any = self._step
        if not self._ranks.alone:
            step = over_ranks(step, self._ranks.mesh)
        program = jax.jit(step, donate_argnums=0).lower(self.state, self.batch).compile()
        self._compiled = compiled_convolutions(program.as_text() or "")
        return program

    def mark(self, slot: int) -> None:
        """Note when the step before the last was done; see ``CompletionMarks``."""
        self._marks.mark(slot)

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return self._marks.seconds_between(earlier, later)

    def synchronize(self) -> None:
        """Wait until all that was handed over is done."""
        self._marks.catch_up()
        jax.block_until_ready(self.state)

    def barrier(self) -> None:
        """Wait for every rank."""
        self._ranks.barrier()

    def describe(self) -> Dict[str, Any]:
        """Return what the run is made of."""
        recipe, precision = self._settings.recipe, self._precision
        cuda = self._device.platform != "cpu"
        return {
            "framework_version": jax.__version__,
            "flax": flax.__version__,
            "device": "cuda" if cuda else "cpu",
            "device_name": device_name(self._device),
            "parameters": self._parameters,
            "threads": compute_threads(),
            "decoder": self._feed.decoder,
            "epoch_images": self.epoch_images,
            "backend": self._ranks.backend,
            "compiler_mode": None,
            "platform_version": self._device.client.platform_version if cuda else None,
            "optimizer": {
                "name": "SGD",
                "implementation": "optax",
                "loss_scale": (recipe.loss_scale or "dynamic") if precision.scaled else None,
            },
            "peak_memory_of": peak_memory_of(self._device),
        }

    def actual(self) -> Dict[str, Any]:
        """Compare what the first step computed with to what was asked for, and return it."""
        settings, precision, compiled = self._settings, self._precision, self._compiled
        tf32 = jax.config.jax_default_matmul_precision == "tensorfloat32"
        seen = {
            "compute_dtype": self._witness.compute_dtype(),
            "weight_dtype": str(self.state.params["stem"]["conv"]["kernel"].dtype),
            "tf32_matmul": tf32,
            "tf32_convolution": tf32,
            "activation_layout": "nhwc",
            "compiled_dtype": compiled.dtype if compiled else None,
            "compiled_layout": compiled.layout if compiled else None,
            "batch_per_device": self._witness.batch(),
            "parameters": self._parameters,
            "world_size": jax.process_count(),
            "compile_cache_hits": self._clock.cache_hits,
        }
        asked = {
            "compute_dtype": jnp.dtype(precision.compute).name,
            "weight_dtype": jnp.dtype(precision.weights).name,
            "batch_per_device": settings.batch_per_device,
            "world_size": self._ranks.place.world_size,
        }
        require_as_asked(seen, asked)
        return seen

    def compile_s(self) -> Optional[float]:
        """Return the seconds that XLA has spent compiling so far, whatever it was for."""
        return self._clock.seconds

    def losses(self) -> List[float]:
        """Return the losses of the global batch."""
        own = [np.asarray(loss.addressable_data(0)).item() for loss in self._losses]
        return [float(loss) for loss in self._ranks.mean(own)]

    def digest(self) -> int:
        """Return the parameters' bit patterns, weighted by their positions and summed modulo 2 ** 63.

        The weights are odd, so a change of one value always changes the sum.
        """
        total = 0
        for leaf in jax.tree.leaves(self.state.params):
            values = np.asarray(leaf.addressable_data(0)).ravel()
            bits = values.view(np.int32 if values.itemsize == 4 else np.int16).astype(np.int64)
            total = total * 31 + int((bits * (2 * np.arange(bits.size) + 1)).sum())
        return total % (1 << 63)

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's values."""
        return self._ranks.gather(values)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        self.state = self.state.replace(
            params=observing.from_shared(self.state.params, weights),
            batch_stats=observing.from_shared(self.state.batch_stats, weights),
        )

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return {**observing.to_shared(self.state.params), **observing.to_shared(self.state.batch_stats)}

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on."""
        self._feed.close()
        images = images.transpose(0, 2, 3, 1)
        self._feed = FixedFeed(images, labels, self.epoch_images, self._ranks, self._precision)
        self.batch = self._feed.next()

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the function that the step differentiates."""
        return self._observer(self.state.params, self.state.batch_stats, self.batch)

    def close(self) -> None:
        """End the loader, and leave with the others."""
        self._feed.close()
        self._ranks.leave()


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: each of its operations is dispatched by itself."""
    return function


def over_ranks(step: Callable[[TrainState, Batch], Any], mesh: Any) -> Callable[[TrainState, Batch], Any]:
    """Return the step over all ranks' devices, each with its part of the batch and its own running statistics.

    Weights are declared equal on all ranks, and JAX proves at tracing time that the step leaves them so.
    """

    def own_part(state: TrainState, batch: Batch) -> Any:
        batch_stats = jax.tree.map(lambda s: s[0], state.batch_stats)
        state, loss = step(state.replace(batch_stats=batch_stats), batch)
        return state.replace(batch_stats=jax.tree.map(lambda s: s[None], state.batch_stats)), loss[None]

    whole, part = P(), P(RANKS)
    specs = TrainState(step=whole, params=whole, batch_stats=part, opt_state=whole, scale=whole)
    return jax.shard_map(own_part, mesh=mesh, in_specs=(specs, part), out_specs=(specs, part))


def open_feed(settings: Settings, ranks: Ranks, precision: Precision) -> Feed:
    """Return where the batches come from."""
    if settings.synthetic:
        return synthetic_feed(settings, ranks, precision)
    return open_loader(settings, ranks)
