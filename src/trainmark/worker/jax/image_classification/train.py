"""A rank's training in JAX: builds everything before the first step, then hands one step after another over."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional

import flax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from ...core.choices import one_of
from ...core.facts import Expected, Facts
from ...core.feed import Feed
from ...core.place import Place
from ...core.window import slots_for
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ..compiling import NONE, CompileClock, CompiledConvolutions, check_compiler, compiled_convolutions
from ..device import (
    bound_threads,
    choose_platform,
    compute_threads,
    device_name,
    own_device,
    peak_memory_bytes,
    peak_memory_of,
)
from ..marks import CompletionMarks
from ..precision import Precision, check_generation, choose_precision, loss_scale
from ..ranks import RANKS, Group, meet
from . import observing
from .feed import ToDevice, normalise
from .loaders import LOADERS, open_loader
from .models import build_model, count_parameters, init
from .state import Batch, TrainState, make_loss, make_step, optimizer
from .witness import Witness


def open_training(settings: ImageSettings, place: Place) -> JaxTraining:
    """Return the training, ready for its first step.

    What this worker cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no rank waits for one
    that has left. Only a GPU that is too old is seen later, because JAX may not start before the ranks have met.
    """
    one_of("Flax", "layout", settings.layout, ("nhwc",))
    platform = choose_platform(settings.device, place)
    precision = choose_precision(settings.precision, platform)
    check_compiler(settings.compiler, place.world_size)
    if not settings.synthetic:
        one_of("JAX", "loader", settings.loader, LOADERS)
    bound_threads(settings.threads)
    meet(place, platform)
    check_generation(settings.precision, own_device())
    group = Group(place, platform)
    feed = None if settings.synthetic else open_loader(settings, group)
    return JaxTraining(settings, group, precision, feed)


class JaxTraining(ImageTraining):
    """State, step, batches and marks of one rank."""

    ranks: Group
    marks: CompletionMarks

    def __init__(
        self, settings: ImageSettings, group: Group, precision: Precision, feed: Optional[Feed]
    ) -> None:
        """Make the state on the device, and fetch the first batch."""
        marks = CompletionMarks(slots_for(settings.steps))
        super().__init__(settings, group, marks, ToDevice(group, precision.compute), feed)
        self._precision, self._device = precision, own_device()
        self.model = build_model(settings.model, settings.classes, precision)
        self._update = optimizer(settings.recipe)
        self._loss_of = make_loss(
            self.model, settings.recipe, lambda images: normalise(images, precision.compute)
        )
        self._step = make_step(self._loss_of, self._update, self.rates, None if group.alone else RANKS)
        self.state = self._fresh_state()

        self._run: Optional[Callable[[TrainState, Batch], Any]] = None
        self._compiled: Optional[CompiledConvolutions] = None
        self._witness = Witness(settings.model)
        # The losses stay on the device until the window is over.
        self._losses: List[Any] = []
        # From here on: what made the weights is none of the training's compilation.
        self._clock = CompileClock()

    def _fresh_state(self) -> TrainState:
        """Return the state before the first step, made by one program, the same on every rank.

        Running statistics are each rank's own, so with several ranks they have a first axis for them.
        """
        settings, group = self.settings, self.ranks
        scale = loss_scale(self._precision, settings.recipe)

        def fresh() -> TrainState:
            params, batch_stats = init(self.model, settings.model, settings.image_size, settings.seed)
            if not group.alone:
                world_size = group.place.world_size
                batch_stats = jax.tree.map(lambda s: jnp.broadcast_to(s, (world_size, *s.shape)), batch_stats)
            return TrainState(
                step=jnp.zeros((), jnp.int32),
                params=params,
                batch_stats=batch_stats,
                opt_state=self._update.init(params),
                scale=scale,
            )

        placed = TrainState(group.shared, group.shared, group.split, group.shared, group.shared)
        return jax.jit(fresh, out_shardings=None if group.alone else placed)()

    def train(self, _index: int) -> None:
        """Hand the training on the batch at hand over; its rate is looked up on the device."""
        if self._run is None:
            with self._witness.watching():
                self._run = self._prepare()
                self.state, loss = self._run(self.state, self.batch)
        else:
            self.state, loss = self._run(self.state, self.batch)
        self._losses.append(loss)
        self.marks.hand_over(loss)

    def _prepare(self) -> Callable[[TrainState, Batch], Any]:
        """Return the step as it will be called: itself, or compiled for this very state and batch."""
        if self.settings.compiler == NONE:
            return self._step
        step: Any = self._step
        if not self.ranks.alone:
            step = over_ranks(step, self.ranks.mesh)
        program = jax.jit(step, donate_argnums=0).lower(self.state, self.batch).compile()
        self._compiled = compiled_convolutions(program.as_text() or "")
        return program

    def synchronize(self) -> None:
        """Wait until all that was handed over is done."""
        self.marks.catch_up()
        jax.block_until_ready(self.state)

    def facts(self) -> Facts:
        """Return what the run is made of."""
        cuda = self._device.platform != "cpu"
        return Facts(
            framework_version=jax.__version__,
            device="cuda" if cuda else "cpu",
            device_name=device_name(self._device),
            parameters=count_parameters(self.state.params),
            threads=compute_threads(),
            implementation="optax",
            loss_scaled=self._precision.scaled,
            peak_memory_of=peak_memory_of(self._device),
            others={
                "flax": flax.__version__,
                "platform_version": self._device.client.platform_version if cuda else None,
            },
        )

    def seen(self) -> Seen:
        """Return what the witness saw in the step as it was written, and what XLA made of it."""
        compiled = self._compiled
        return self._witness.told(
            self.state.params["stem"]["conv"]["kernel"],
            compiled_dtype=compiled.dtype if compiled else None,
            compiled_layout=compiled.layout if compiled else None,
            compile_cache_hits=self._clock.cache_hits,
        )

    def expected(self) -> Expected:
        """Return the precision in words."""
        compute, weights, matmul, _ = self._precision
        return Expected(jnp.dtype(compute).name, jnp.dtype(weights).name, matmul == "tensorfloat32")

    def compile_s(self) -> Optional[float]:
        """Return the seconds that XLA has spent compiling so far, whatever it was for."""
        return self._clock.seconds

    def compilations(self) -> int:
        """Return how many programs XLA has compiled so far."""
        return self._clock.programs

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(np.asarray(loss.addressable_data(0)).item()) for loss in self._losses]

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        params, batch_stats = (observing.from_shared(tree, weights) for tree in self._own_weights())
        self.state = self.state.replace(
            params=self.ranks.whole(params), batch_stats=self.ranks.parts(batch_stats)
        )

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics, those of this rank."""
        params, batch_stats = self._own_weights()
        return {**observing.to_shared(params), **observing.to_shared(batch_stats)}

    def _own_weights(self) -> Any:
        """Return parameters and running statistics as this rank has them."""
        return self.ranks.own_whole(self.state.params), self.ranks.own_part(self.state.batch_stats)

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the function that the step differentiates."""
        return observing.observe(
            self._loss_of, self.settings.model, self.state.params, self.state.batch_stats, self.batch
        )


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
