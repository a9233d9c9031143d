"""A rank's training in JAX, whatever it trains: one step after another, and what the run is made of."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..core.facts import Expected, Facts
from ..core.feed import Feed
from ..core.gaps import refuse_gaps
from ..core.place import Place
from ..core.settings import Settings
from ..core.training import Training
from ..core.window import slots_for
from .compiling import NONE, CompileClock, check_compiler
from .device import (
    bound_threads,
    choose_platform,
    compute_threads,
    device_name,
    own_device,
    peak_memory_bytes,
    peak_memory_of,
)
from .marks import CompletionMarks
from .precision import Precision, check_generation, choose_precision, loss_scale
from .ranks import RANKS, Group, meet
from .state import Batch, TrainState, make_step, over_ranks
from .weights import count_parameters


class Machine(NamedTuple):
    """What a rank computes on, and in which types."""

    platform: str
    precision: Precision


def choose_machine(settings: Settings, place: Place) -> Machine:
    """Return this rank's platform and the precision.

    What this worker cannot do raises ``RunError`` (unsupported): before the ranks meet, so that no rank waits for one
    that has left. Only a GPU that is too old is seen later, because JAX may not start before the ranks have met.
    """
    platform = choose_platform(settings.device, place)
    refuse_gaps(settings, place, platform)
    precision = choose_precision(settings.precision)
    check_compiler(settings.compiler)
    return Machine(platform, precision)


def meet_ranks(settings: Settings, place: Place, machine: Machine) -> Group:
    """Meet the other ranks, start JAX, and return the ranks."""
    bound_threads(settings.threads)
    meet(place, machine.platform)
    check_generation(settings.precision, own_device())
    return Group(place, machine.platform)


def batches_of(group: Group) -> Callable[..., Tuple[Any, ...]]:
    """Return what makes global batches of this rank's arrays, whole numbers in 32 bits."""
    return lambda *arrays: tuple(
        group.part(array.astype(np.int32) if array.dtype.kind == "i" else array) for array in arrays
    )


class JaxTraining(Training):
    """State, step, batches and marks of one rank.

    A task's subclass says by ``take_over`` how fresh weights and the loss are made; it may watch the first call of the
    step, and look at the compiled program.
    """

    ranks: Group
    marks: CompletionMarks

    parts = 1
    """How often the model is passed in one step."""

    def __init__(
        self,
        settings: Settings,
        group: Group,
        precision: Precision,
        to_batch: Callable[..., Any],
        feed: Optional[Feed],
    ) -> None:
        """Fetch the first batch."""
        super().__init__(settings, group, CompletionMarks(slots_for(settings.steps)), to_batch, feed)
        self._precision, self._device = precision, own_device()

    def take_over(
        self,
        weights: Callable[[], Tuple[Any, Any]],
        loss_of: Callable[..., Any],
        update: optax.GradientTransformation,
    ) -> None:
        """Make the state on the device: ``weights`` returns parameters and running statistics, and may be traced.

        ``loss_of`` is as ``make_step`` takes it.
        """
        self._loss_of, self._update = loss_of, update
        axis = None if self.ranks.alone else RANKS
        self._step = make_step(loss_of, update, self.rates, axis, self.parts, self.prepared)
        self.state = self._fresh_state(weights)
        self._run: Optional[Callable[[TrainState, Batch], Any]] = None
        # What the program that is run was traced to be.
        self._traced: Any = None
        # The losses stay on the device until the window is over.
        self._losses: List[Any] = []
        # From here on: what made the weights is none of the training's compilation.
        self._clock = CompileClock()

    def prepared(self, batch: Batch, _parts: int, _axis: Optional[str]) -> Batch:
        """Return a batch as the loss takes it, to be cut into so many parts; part of the step, and traced."""
        return batch

    def watching(self) -> "AbstractContextManager[Any]":
        """Return the context of the first call of the step, in which it is traced."""
        return nullcontext()

    def note_program(self, text: str) -> None:
        """Take the text of the compiled step."""

    def of_ranks(self, batch_stats: Any, world_size: int) -> Any:
        """Return what each rank keeps of its own, with a first axis for the ranks: at first the same."""
        return jax.tree.map(lambda s: jnp.broadcast_to(s, (world_size, *s.shape)), batch_stats)

    def _fresh_state(self, weights: Callable[[], Tuple[Any, Any]]) -> TrainState:
        """Return the state before the first step, made by one program, the same on every rank.

        Running statistics are each rank's own, so with several ranks they have a first axis for them.
        """
        group, scale = self.ranks, loss_scale(self._precision, self.settings.recipe)

        def fresh() -> TrainState:
            params, batch_stats = weights()
            if not group.alone:
                batch_stats = self.of_ranks(batch_stats, group.place.world_size)
            return TrainState(
                step=jnp.zeros((), jnp.int32),
                params=params,
                batch_stats=batch_stats,
                opt_state=self._update.init(params),
                scale=scale,
                taken=jnp.zeros((), jnp.int32),
            )

        placed = TrainState(group.shared, group.shared, group.split, group.shared, group.shared, group.shared)
        return jax.jit(fresh, out_shardings=None if group.alone else placed)()

    def train(self, _index: int) -> None:
        """Hand the training on the batch at hand over; its rate is looked up on the device."""
        if self._run is None:
            with self.watching():
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
        self._traced = jax.jit(step, donate_argnums=0).trace(self.state, self.batch)
        program = self._traced.lower().compile()
        self.note_program(program.as_text() or "")
        return program

    def operations(self) -> Any:
        """Return the operations of the step that is run, as a jaxpr: those that its program was compiled from."""
        if self._traced is not None:
            return self._traced.jaxpr.jaxpr
        return jax.make_jaxpr(self._run)(self.state, self.batch).jaxpr

    def own_gradients(self) -> Tuple[Any, Any]:
        """Return the loss of this rank's batch at hand and its gradients, which nobody has exchanged, as a tree."""
        params, batch_stats = self._own_weights()
        batch = tuple(np.asarray(array.addressable_data(0)) for array in self.batch)
        # Scaled as the step's, so that what FP16 rounds away is the same.
        state = self.state.scale
        scale = 1.0 if state is None else float(np.asarray(self.ranks.own_whole(state.scale)))

        def scaled(params: Any) -> Any:
            loss, _ = self._loss_of(params, batch_stats, batch)
            return loss * scale

        loss, gradients = jax.jit(jax.value_and_grad(scaled))(params)
        return loss / scale, jax.tree.map(
            lambda gradient: np.asarray(gradient, np.float32) / scale, gradients
        )

    def read_batch(self) -> Tuple[Any, ...]:
        """Return this rank's batch at hand as numpy arrays."""
        return tuple(np.asarray(array.addressable_data(0)) for array in self.batch)

    def synchronize(self) -> None:
        """Wait until all that was handed over is done."""
        self.marks.synchronize()
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
            optimizer=self.settings.recipe.optimizer_name,
            implementation="optax",
            loss_scaled=self._precision.scaled,
            peak_memory_of=peak_memory_of(self._device),
            others={
                "flax": flax.__version__,
                "platform_version": self._device.client.platform_version if cuda else None,
            },
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

    def steps_taken(self) -> int:
        """Return how many steps have changed the weights: those that overflowed are not among them."""
        return int(np.asarray(self.ranks.own_whole(self.state.taken)))

    def products(self, size: int) -> Callable[[int], None]:
        """Return products on this rank's own device, by one compiled program."""
        keys = jax.random.split(jax.random.key(0), 2)
        one, other = (
            jax.device_put(jax.random.normal(key, (size, size), self._precision.compute), self._device)
            for key in keys
        )
        product = jax.jit(jnp.matmul)

        def times(count: int) -> None:
            results = [product(one, other) for _ in range(count)]
            jax.block_until_ready(results)

        return times

    def sums(self, values: int) -> Callable[[int], None]:
        """Return sums by one compiled program, which writes where it reads."""
        one, other = (jax.device_put(np.zeros(values, np.float32), self._device) for _ in range(2))
        kept, added = [one], jax.jit(jnp.add, donate_argnums=0)

        def times(count: int) -> None:
            for _ in range(count):
                kept[0] = added(kept[0], other)
            jax.block_until_ready(kept)

        return times

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def _own_weights(self) -> Any:
        """Return parameters and running statistics as this rank has them."""
        return self.ranks.own_whole(self.state.params), self.ranks.own_part(self.state.batch_stats)
