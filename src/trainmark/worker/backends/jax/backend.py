"""JAX as a backend, with Optax for the optimizer: precision, compiler, the step as a pure function, weights."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from flax.training.dynamic_scale import DynamicScale

from ...core.backend import Observation
from ...core.choices import find_precision, one_of, refuse_gaps
from ...core.facts import PROCESS, Facts, assert_parameters, count_parameters, cpu_name
from ...core.optimizers import Moments
from ...core.place import Place
from ...core.precision import FP32, Precision, require_capability
from ...core.settings import LAMB, AdamRecipe, Recipe, Settings
from ...core.training import Training
from ...tasks.products import NamedProductTraining, observe_product
from . import collectives
from .collectives import CPU, RANKS, SPLIT, WHOLE, CompletionTimers, Group

# The compilers. ``none`` calls the step as it is written: each operation is sent to the device as a separate program,
# which is compiled at its first use. ``xla`` makes the whole step one program.
NONE, XLA = "none", "xla"

PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16", "bf16")


def choose_precision(name: str) -> Precision:
    """Return the precision, and let all of JAX's products follow it; raise ``RunError`` where there is none.

    JAX has its own word for what an FP32 product or convolution may round its inputs to on a GPU; a CPU computes as it
    is written. Products of 16 bits are left to JAX's default: ``highest`` would apply to them too.
    """
    precision = find_precision("JAX", name, PRECISIONS)
    exact = "tensorfloat32" if precision.tf32 else "highest"
    jax.config.update("jax_default_matmul_precision", exact if precision.compute == FP32 else None)
    return precision


def loss_scale(precision: Precision, recipe: Recipe) -> DynamicScale | None:
    """Return Flax's loss scaling, or None for the precisions that do not scale.

    Its scale, the test for overflow and the choice between old and new weights stay on the device. The defaults
    (65536, doubled after 2000 good steps, halved after a bad one) are also torch's. A fixed scale never grows.
    """
    if not precision.scaled:
        return None
    grows = {} if recipe.loss_scale is None else {"growth_interval": 2_000_000_000}
    scale = jnp.float32(65536.0 if recipe.loss_scale is None else recipe.loss_scale)
    return DynamicScale(fin_steps=jnp.zeros((), jnp.int32), scale=scale, **grows)


Batch = tuple[Any, ...]  # this rank's part of global arrays


class TrainState(struct.PyTreeNode):
    """Everything that a step reads and replaces; its memory is donated, so that the new one is written over it."""

    step: Any
    params: Any
    batch_stats: Any
    opt_state: Any
    scale: DynamicScale | None
    taken: Any = 0  # steps that changed the weights: one that overflowed counts in ``step`` alone


def optimizer(recipe: Recipe, decays: Callable[[Any], Any] | None = None) -> optax.GradientTransformation:
    """Return SGD with momentum without its learning rate: from gradients to ``v = m v + (g + d w)``.

    The rate is multiplied in afterwards, so that the momentum holds none, as in torch: with a rate that changes,
    that is another optimizer than one that keeps ``rate * gradient``. ``decays`` maps a tree of parameters to one of
    truths; without it all of them decay.
    """
    if not recipe.momentum and not recipe.weight_decay:
        # Without a velocity beside each weight, which would be the gradient of the last step.
        return optax.identity()
    return optax.chain(optax.add_decayed_weights(recipe.weight_decay, decays), optax.trace(recipe.momentum))


def adaptive(recipe: AdamRecipe, decays: Callable[[Any], Any]) -> optax.GradientTransformation:
    """Return AdamW or LAMB without its learning rate: from gradients to ``a + d w``; ``decays`` is as for SGD.

    LAMB scales what moves a parameter by ``norm(w) / norm(r)``, where that parameter decays.
    """
    rules = [] if recipe.clip_norm is None else [optax.clip_by_global_norm(recipe.clip_norm)]
    rules += [
        optax.scale_by_adam(recipe.momentum, recipe.second_momentum, recipe.epsilon),
        optax.add_decayed_weights(recipe.weight_decay, decays),
    ]
    if recipe.optimizer == LAMB:
        rules.append(optax.masked(optax.scale_by_trust_ratio(), decays))
    return optax.chain(*rules)


def moments_of(opt_state: Any) -> Any:
    """Return Adam's part of the state of ``adaptive``."""
    return next(state for state in opt_state if isinstance(state, optax.ScaleByAdamState))


# Equal on all ranks, but for each rank's own running statistics.
STATE_OF_RANKS = TrainState(WHOLE, WHOLE, SPLIT, WHOLE, WHOLE, WHOLE)


def in_parts(grad: Callable[..., Any], parts: int) -> Callable[..., Any]:
    """Return a function like ``grad`` that passes the batch in equal parts, one after another.

    ``grad(params, batch_stats, batch)`` gives ((loss, (outputs, changed)), gradients); loss and gradients are their
    means over the parts, and of outputs there are none.
    """
    if parts == 1:
        return grad

    def accumulated(params: Any, batch_stats: Any, batch: Batch) -> Any:
        def one(carry: Any, part: Batch) -> Any:
            total, summed, stats = carry
            (loss, (_, changed)), gradients = grad(params, stats, part)
            return (total + loss, jax.tree.map(jnp.add, summed, gradients), changed["batch_stats"]), None

        cut = jax.tree.map(lambda array: array.reshape(parts, -1, *array.shape[1:]), batch)
        # Of the parameters' own, so that over several ranks these zeros vary as the gradients do.
        zeros = jax.tree.map(lambda leaf: leaf * 0, params)
        nothing = sum(jnp.sum(leaf.reshape(-1)[:1]) for leaf in jax.tree.leaves(zeros)).astype(jnp.float32)
        (total, summed, stats), _ = jax.lax.scan(one, (nothing, zeros, batch_stats), cut)
        gradients = jax.tree.map(lambda leaf: leaf / parts, summed)
        return (total / parts, (None, {"batch_stats": stats})), gradients

    return accumulated


def make_step(
    loss_of: Callable[..., Any],
    update: optax.GradientTransformation,
    rates: list[float],
    axis: str | None,
    parts: int = 1,
    prepared: Callable[[Batch, int, str | None], Batch] = lambda batch, _parts, _axis: batch,
) -> Callable[[TrainState, Batch], tuple[TrainState, Any]]:
    """Return the training step: (state, batch) to (next state, this rank's loss).

    With an ``axis`` it is one rank's part, and gradients are averaged over that axis. ``rates`` is looked up on the
    device by the step's number, so that the host sends nothing. The batch is passed in ``parts``, which a scaled loss
    has not; before, ``prepared`` gets it with that number and the axis.
    """
    table = jnp.asarray(rates, jnp.float32)

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, Any]:
        params, batch = state.params, prepared(batch, parts, axis)
        if axis is not None:
            # As this rank's own: gradients with respect to shared ones would be summed over the ranks unasked.
            params = jax.lax.pcast(params, axis, to="varying")
        scale, finite = state.scale, None
        if scale is None:
            grad = in_parts(jax.value_and_grad(loss_of, has_aux=True), parts)
            (loss, (_, changed)), gradients = grad(params, state.batch_stats, batch)
            if axis is not None:
                gradients = jax.lax.pmean(gradients, axis)
        else:
            scaled = scale.value_and_grad(loss_of, has_aux=True, axis_name=axis)
            scale, finite, (loss, (_, changed)), gradients = scaled(params, state.batch_stats, batch)
        direction, opt_state = update.update(gradients, state.opt_state, state.params)
        rate = table[state.step]
        updates = jax.tree.map(lambda v: -rate * v, direction)
        params = optax.apply_updates(state.params, updates)
        if finite is not None:
            # After an overflow the step leaves weights and momentum as they were.
            params, opt_state = jax.tree.map(
                lambda new, old: jnp.where(finite, new, old),
                (params, opt_state),
                (state.params, state.opt_state),
            )
        return state.replace(
            step=state.step + 1,
            params=params,
            batch_stats=changed["batch_stats"],
            opt_state=opt_state,
            scale=scale,
            taken=state.taken + (1 if finite is None else finite.astype(jnp.int32)),
        ), loss

    return step


class JaxTraining(Training):
    """One rank; a model's subclass has ``fresh`` and ``loss_of``, and passes its optimizer to ``take_over``.

    It may observe the first call of the step, and the compiled program.
    """

    ranks: Group
    marks: CompletionTimers
    OBSERVES_COMPILED = True
    parts = 1  # how often the model is passed in one step
    loaders: tuple[str, ...] = ()  # of the task's data, if the name must be known before the ranks meet

    def __init__(self, settings: Settings, place: Place) -> None:
        """Meet the other ranks before JAX may start: only then a GPU that is too old for the precision is found."""
        self.platform = collectives.choose_platform(settings.device, place)
        refuse_gaps(settings, place, self.platform)
        self.precision = choose_precision(settings.precision)
        one_of("JAX", "compiler", settings.compiler, (NONE, XLA))
        if self.loaders and not settings.synthetic:
            one_of("JAX", "loader", settings.loader, self.loaders)
        if settings.threads:
            # XLA sizes its pool by this variable, else by the processors that this process may use.
            os.environ["PJRT_NPROC"] = str(settings.threads)
        if settings.equivalence is not None:
            # Checks share a GPU's memory.
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        collectives.meet(place, self.platform)
        self.device = collectives.own_device()
        if self.device.platform != CPU:
            major, _, minor = str(self.device.compute_capability).partition(".")
            require_capability(settings.precision, (int(major), int(minor or 0)))
        self.ranks = Group(place, self.platform)
        self.destination: tuple[Any, ...] = (self.ranks,)
        feed = None if settings.synthetic else self.open_loader(settings, place)
        super().__init__(settings, self.ranks, feed, CompletionTimers(settings.steps))
        self.build()

    def to_batch(self, *arrays: Any) -> Batch:
        """Return global batches of this rank's arrays, whole numbers in 32 bits."""
        narrow = (array.astype(np.int32) if array.dtype.kind == "i" else array for array in arrays)
        return tuple(map(self.ranks.part, narrow))

    def fresh(self) -> tuple[Any, Any]:
        """Return fresh parameters, and running statistics or another state besides them. May be traced."""
        raise NotImplementedError

    def loss_of(self, *given: Any, **observing: Any) -> tuple[Any, tuple[Any, Any]]:
        """Map parameters, running statistics and a batch to (loss, (logits, what the layers changed)), in FP32."""
        raise NotImplementedError

    def take_over(self, update: optax.GradientTransformation) -> None:
        """Make the state on the device, by one program.

        It is the same on every rank, but running statistics are each rank's own: with several they have a first axis
        for the ranks.
        """
        group, scale = self.ranks, loss_scale(self.precision, self.settings.recipe)
        self._update, axis = update, None if group.alone else RANKS
        self._step = make_step(self.loss_of, update, self.rates, axis, self.parts, self.prepared)

        def fresh() -> TrainState:
            params, batch_stats = self.fresh()
            if not group.alone:
                batch_stats = self.of_ranks(batch_stats, group.place.world_size)
            step, taken = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
            return TrainState(step, params, batch_stats, update.init(params), scale, taken)

        placed = TrainState(group.shared, group.shared, group.split, group.shared, group.shared, group.shared)
        self.state = jax.jit(fresh, out_shardings=None if group.alone else placed)()
        self._run: Callable[[TrainState, Batch], Any] | None = None
        # The trace of the program that is run.
        self._traced: Any = None
        # From here on: the program that made the weights is not part of the training.
        self._clock = collectives.CompileClock()

    def prepared(self, batch: Batch, _parts: int, _axis: str | None) -> Batch:
        """Return a batch as the loss takes it, to be cut into so many parts; part of the step, and traced."""
        return batch

    def observing_trace(self) -> AbstractContextManager[Any]:
        """Return the context of the first call of the step, in which it is traced."""
        return nullcontext()

    def note_program(self, text: str) -> None:
        """Take the text of the compiled step."""

    def of_ranks(self, batch_stats: Any, world_size: int) -> Any:
        """Return the state that each rank has of its own, with a first axis for the ranks: at first the same."""
        return jax.tree.map(lambda s: jnp.broadcast_to(s, (world_size, *s.shape)), batch_stats)

    def scale_of_loss(self) -> float:
        """Return the factor of the loss in the step's backward pass; 1 for the precisions that do not scale."""
        return 1.0 if self.state.scale is None else float(self.ranks.own_whole(self.state.scale.scale))

    def train(self, _index: int) -> None:
        """Hand the training on the current batch over; its rate is looked up on the device."""
        if self._run is None:
            with self.observing_trace():
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
            step = collectives.over_ranks(step, self.ranks.mesh, STATE_OF_RANKS)
        self._traced = jax.jit(step, donate_argnums=0).trace(self.state, self.batch)
        program = self._traced.lower().compile()
        self.note_program(program.as_text() or "")
        return program

    def operations(self) -> Any:
        """Return the operations of the step that is run, as a jaxpr: those that its program was compiled from."""
        if self._traced is not None:
            return self._traced.jaxpr.jaxpr
        return jax.make_jaxpr(self._run)(self.state, self.batch).jaxpr

    def read_batch(self) -> tuple[Any, ...]:
        return tuple(np.asarray(array.addressable_data(0)) for array in self.batch)

    def synchronize(self) -> None:
        self.marks.synchronize()
        jax.block_until_ready(self.state)

    @contextmanager
    def profiling(self, folder: Path) -> Iterator[Callable[[str], AbstractContextManager[Any]]]:
        """Trace the work of XLA's threads and of the GPU; tracing Python's functions would slow the steps down."""
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        jax.profiler.start_trace(str(folder), profiler_options=options)
        try:
            yield jax.profiler.TraceAnnotation
        finally:
            jax.profiler.stop_trace()

    def facts(self) -> Facts:
        cuda, client = self.device.platform != CPU, self.device.client
        return Facts(
            framework_version=jax.__version__,
            device="cuda" if cuda else "cpu",
            device_name=str(self.device.device_kind) if cuda else cpu_name(),
            parameters=count_parameters(jax.tree.leaves(self.state.params)),
            threads=collectives.compute_threads(),
            optimizer=self.settings.recipe.optimizer_name,
            implementation="optax",
            peak_memory_of="device, in use by JAX" if cuda else PROCESS,
            others={"flax": flax.__version__, "platform_version": client.platform_version if cuda else None},
        )

    def tf32_switches(self) -> dict[str, Any]:
        """Return JAX's one switch for both."""
        tf32 = jax.config.jax_default_matmul_precision == "tensorfloat32"
        return {"tf32_matmul": tf32, "tf32_convolution": tf32}

    def compiled_facts(self) -> dict[str, Any]:
        return {"compile_cache_hits": self._clock.cache_hits}

    def compile_s(self) -> float | None:
        """Return the seconds that XLA has spent compiling so far, whatever it was for."""
        return self._clock.seconds

    def compilations(self) -> int:
        return self._clock.programs

    def own_losses(self) -> list[float]:
        return [float(np.asarray(loss.addressable_data(0)).item()) for loss in self._losses]

    def steps_taken(self) -> int:
        """Return how many steps have changed the weights: those that overflowed are not among them."""
        return int(np.asarray(self.ranks.own_whole(self.state.taken)))

    def products(self, size: int) -> Callable[[int], None]:
        """Return products on this rank's own device, by one compiled program."""
        keys, kind = jax.random.split(jax.random.key(0), 2), self.precision.compute
        drawn = (jax.random.normal(key, (size, size), kind) for key in keys)
        one, other = (jax.device_put(matrix, self.device) for matrix in drawn)
        product = jax.jit(jnp.matmul)

        return lambda count: jax.block_until_ready([product(one, other) for _ in range(count)])

    def sums(self, values: int) -> Callable[[int], None]:
        """Return sums by one compiled program, which writes where it reads."""
        one, other = (jax.device_put(np.zeros(values, np.float32), self.device) for _ in range(2))
        total, added = [one], jax.jit(jnp.add, donate_argnums=0)

        def times(count: int) -> None:
            for _ in range(count):
                total[0] = added(total[0], other)
            jax.block_until_ready(total)

        return times

    def peak_memory_bytes(self) -> int:
        if self.device.platform != CPU:
            return int(self.device.memory_stats()["peak_bytes_in_use"])
        return super().peak_memory_bytes()

    def _own_weights(self) -> Any:
        """Return parameters and running statistics as this rank has them."""
        return self.ranks.own_whole(self.state.params), self.ranks.own_part(self.state.batch_stats)


# Parameters by the names and in the shapes of a model's description: XLA takes products in either order of axes.
Params = dict[str, Any]

Tap = Callable[[str, Any], None]  # gets the name and the result of each product, and of the first block


def biased(product: Any, bias: Any) -> Any:
    """Return the product with its bias, added in FP32: the bias's gradient is a long sum, which 16 bits lose."""
    return (product.astype(jnp.float32) + bias).astype(product.dtype)


def products(params: Params, compute: Any, tap: Tap, axes: str = "bti,oi->bto") -> Callable[[str, Any], Any]:
    """Return the product of a name with what is in the compute type, and with its bias if it has one."""

    def product(name: str, given: Any) -> Any:
        result = jnp.einsum(axes, given, params[f"{name}.weight"].astype(compute))
        if f"{name}.bias" in params:
            result = biased(result, params[f"{name}.bias"])
        tap(name, result)
        return result

    return product


def norms(params: Params, compute: Any, epsilon: float, centred: bool = True) -> Callable[[str, Any], Any]:
    """Return the norm of a name, of the last axis and in FP32: a layer norm, or not ``centred`` an RMSNorm."""

    def norm(name: str, given: Any) -> Any:
        wide = given.astype(jnp.float32)
        if centred:
            wide = wide - wide.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + epsilon)
        result = wide * scale * params[f"{name}.weight"].astype(jnp.float32)
        if f"{name}.bias" in params:
            result = result + params[f"{name}.bias"].astype(jnp.float32)
        return result.astype(compute)

    return norm


KEY = "dropout"  # the state besides the parameters: the key of the random numbers of the next pass


class NamedTraining(JaxTraining, NamedProductTraining):
    """Weights, moments and gradients by name, of a loss that tells a ``Tap``, its last argument, each product."""

    description: Any  # of the model: it has the ``shapes`` of its weights and its ``products``
    draw: Callable[..., Any]  # draws a parameter, by the description, a key, a name and a shape
    GENERATOR: str | None = None  # JAX's name of the random numbers of dropout; None: its default

    def __init__(self, settings: Settings, place: Place) -> None:
        self.first = {}
        super().__init__(settings, place)

    def _trace(self, name: str, result: Any) -> None:
        self.first.setdefault(name, (str(result.dtype), tuple(result.shape)))

    def fresh(self) -> tuple[Any, Any]:
        description, dtype, shapes = self.description, self.precision.weights, self.description.shapes()
        keys = jax.random.split(jax.random.key(self.settings.seed, impl="rbg"), len(shapes))
        drawn = zip(keys, shapes.items())
        params = {
            name: self.draw(description, key, name, shape).astype(dtype) for key, (name, shape) in drawn
        }
        assert_parameters(count_parameters(params.values()), description.parameters())
        if not hasattr(self.settings.recipe, "dropout"):
            return params, {}
        # The key of the first pass.
        return params, {KEY: jax.random.key_data(jax.random.key(self.settings.seed, impl=self.GENERATOR))}

    def of_ranks(self, state: Any, world_size: int) -> Any:
        """Return a key of its own for each rank, so that they drop different places."""
        if not state:
            return state
        key = jax.random.wrap_key_data(state[KEY], impl=self.GENERATOR)
        return {KEY: jax.random.key_data(jax.random.split(key, world_size))}

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        before = self.state.params
        params = {name: np.asarray(weights[name]).astype(before[name].dtype) for name in before}
        self.state = self.state.replace(params=self.ranks.whole(params))

    def read_weights(self) -> dict[str, Any]:
        return self._read(self.state.params)

    def _read(self, tree: Any) -> dict[str, Any]:
        own = self.ranks.own_whole(tree)
        return {name: np.asarray(own[name], np.float32) for name in self.description.shapes()}

    def read_moments(self) -> Moments | None:
        if not isinstance(self.settings.recipe, AdamRecipe):
            return None
        adam = moments_of(self.state.opt_state)
        return Moments(int(self.ranks.own_whole(adam.count)), self._read(adam.mu), self._read(adam.nu))

    def observe(self) -> Observation:

        def collecting(params: Any, stats: Any, batch: Any) -> Any:
            results: dict[str, Any] = {}
            batch = self.prepared(batch, 1, None)
            loss, (logits, _) = self.loss_of(params, stats, batch, results.setdefault)
            return loss * scale, (loss, logits, results)

        scale, state = self.scale_of_loss(), self.state
        passes = jax.jit(jax.value_and_grad(collecting, has_aux=True))
        (_, (loss, logits, results)), scaled = passes(state.params, state.batch_stats, self.batch)
        gradients = jax.tree.map(lambda gradient: gradient / scale, scaled)
        products = []
        for name in self.description.products():
            outputs, inputs = state.params[f"{name}.weight"].shape
            biased = f"{name}.bias" in state.params
            values = np.asarray(results[name], np.float32)
            products.append(observe_product(name, inputs, outputs, biased, values))
        return Observation(self._read(gradients), float(loss), np.asarray(logits), products)
