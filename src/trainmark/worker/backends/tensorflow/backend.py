"""TensorFlow as a backend, with Keras for the layers: precision, compiler, optimizer, the step, weights."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ...core.backend import Observation, repeated
from ...core.choices import find_precision, one_of, refuse_gaps, require_version
from ...core.facts import PROCESS, Facts, assert_parameters, count_parameters, cpu_name
from ...core.optimizers import Moments
from ...core.place import Place
from ...core.precision import Precision, require_capability
from ...core.settings import LAMB, AdamRecipe, Recipe, Settings
from ...core.training import Training
from ...tasks.products import NamedProductTraining, observe_product
from .collectives import Device, Group, choose_device, limit_threads

PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16")


def choose_precision(name: str, device: Device) -> Precision:
    """Return the precision, as the default of Keras and TensorFlow; raise ``RunError`` for an unsupported one."""
    precision = find_precision("TensorFlow", name, PRECISIONS)
    if device.gpu is not None:
        found = tf.config.experimental.get_device_details(device.gpu).get("compute_capability", (0, 0))
        require_capability(name, found)
    tf.config.experimental.enable_tensor_float_32_execution(precision.tf32)
    keras.config.set_dtype_policy(f"mixed_{precision.compute}" if precision.mixed else precision.compute)
    return precision


Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


_graph: Wrapper = partial(tf.function, autograph=False)
_xla: Wrapper = partial(tf.function, jit_compile=True, autograph=False)


class Compiler(NamedTuple):
    """The compiled step: as a whole, and its two parts before and after the ranks' sum of gradients.

    XLA has no collectives between processes, so it gets the parts, inside a graph. ``pack_bytes`` is
    how much of the gradients the ranks sum in one operation; 0 is all of them.
    """

    mode: str
    whole: Wrapper
    part: Wrapper
    pack_bytes: int


# As PyTorch's DistributedDataParallel does: the last layers' gradients go out while the first ones' are computed. XLA's
# program gives all of them at its end, and eager TensorFlow sums each by itself.
PACK_BYTES = 25 << 20

COMPILERS: dict[str, Compiler] = {
    "none": Compiler("eager", _eager, _eager, 0),
    "graph": Compiler("tf.function", _graph, _eager, PACK_BYTES),
    "xla": Compiler("tf.function(jit_compile=True)", _graph, _xla, 0),
}


FIRST_SCALE = 65536.0
GROWTH_STEPS = 2000  # steps without an overflow after which the scale is doubled, as in PyTorch and Keras


class Momentum:
    """v = m v + (g + d w); w = w - lr v.

    Not ``keras.optimizers.SGD``: its velocity holds the learning rate (v = m v - lr g), which is another update when
    the rate changes, and its weight decay is not part of the gradient. The kernel is the one of TensorFlow 1's
    MomentumOptimizer; velocity and weights are updated in one pass.
    """

    name, kernel = "SGD", "ResourceApplyMomentum"

    def __init__(self, variables: Sequence[Any], decays: Sequence[float], recipe: Recipe) -> None:
        """Take the Keras variables, and the weight decay of each; make the velocities, zero."""
        self._variables, self._velocities = list(variables), _zeros(variables)
        self._decays, self._momentum = decays, recipe.momentum

    def apply(self, gradients: Sequence[Any], rate: Any) -> None:
        """Update the variables at the learning rate ``rate`` (scalar, FP32)."""
        parts = zip(self._variables, self._velocities, self._decays, gradients)
        for variable, velocity, decay, gradient in parts:
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=velocity.handle,
                lr=rate,
                grad=gradient + decay * variable.value if decay else gradient,
                momentum=self._momentum,
            )


def _zeros(variables: Sequence[Any]) -> list[Any]:
    return [tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False) for variable in variables]


class AdamW:
    """w = w - lr (a + d w), with a of Adam in its first form: epsilon is added to the root of the corrected moment.

    Not ``keras.optimizers.AdamW``, which adds epsilon before the correction, as the kernel does too: here the kernel
    gets an epsilon that is corrected as well. It updates moments and weights in one pass. Adam is this without a decay.
    """

    kernel = "ResourceApplyAdam"

    def __init__(self, variables: Sequence[Any], decays: Sequence[float], recipe: AdamRecipe) -> None:
        """Take the Keras variables, and the weight decay of each; make the moments, zero."""
        self.name, self._recipe = recipe.optimizer_name, recipe
        self.first, self.second = _zeros(variables), _zeros(variables)
        self._parts = list(zip(variables, self.first, self.second, decays))
        self.steps = tf.Variable(0.0, trainable=False, dtype=tf.float32)

    def begin(self, gradients: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
        """Count a step; return the gradients, with the norm of all of them clipped, and the powers of the betas."""
        step, recipe = self.steps.assign_add(1.0), self._recipe
        if recipe.clip_norm is not None:
            gradients = tf.clip_by_global_norm(gradients, recipe.clip_norm)[0]
        betas = (recipe.momentum, recipe.second_momentum)
        return gradients, [tf.pow(tf.constant(beta, tf.float32), step) for beta in betas]

    def apply(self, gradients: Sequence[Any], rate: Any) -> None:
        """Update the variables at the learning rate ``rate`` (scalar, FP32)."""
        recipe, (gradients, powers) = self._recipe, self.begin(gradients)
        epsilon = recipe.epsilon * tf.sqrt(1.0 - powers[1])
        for (variable, first, second, decay), gradient in zip(self._parts, gradients):
            if decay:
                variable.value.assign_sub(rate * decay * variable.value)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=rate,
                beta1=recipe.momentum,
                beta2=recipe.second_momentum,
                epsilon=epsilon,
                grad=gradient,
            )


class Lamb(AdamW):
    """LAMB of You et al. (https://arxiv.org/abs/1904.00962), by TensorFlow's operations.

    What decays moves by the rate times ``norm(w) / norm(r)`` times r, with r Adam's direction and the decayed weight;
    what does not decay moves as by Adam.
    """

    kernel = "operations"

    def apply(self, gradients: Sequence[Any], rate: Any) -> None:
        gradients, powers = self.begin(gradients)
        beta1, beta2 = self._recipe.momentum, self._recipe.second_momentum
        left = [1.0 - power for power in powers]
        for (variable, first, second, decay), gradient in zip(self._parts, gradients):
            mean = first.assign(beta1 * first + (1 - beta1) * gradient)
            square = second.assign(beta2 * second + (1 - beta2) * tf.square(gradient))
            direction = mean / left[0] / (tf.sqrt(square / left[1]) + self._recipe.epsilon)
            if decay:
                direction += decay * variable.value
                own, its = tf.norm(variable.value), tf.norm(direction)
                direction *= tf.where((own > 0) & (its > 0), tf.math.divide_no_nan(own, its), 1.0)
            variable.value.assign_sub(rate * direction)


class LossScale:
    """A factor on the loss that prevents underflow of FP16 gradients, and is divided out of them.

    Not ``keras.optimizers.LossScaleOptimizer``: with several ranks it looks for an overflow in each rank's own
    gradients, before they are summed, so that one rank could skip an update that the others make.
    """

    def __init__(self, enabled: bool, recipe: Recipe) -> None:
        """Start with the recipe's scale; a fixed one is only ever halved, after an overflow."""
        self.enabled, self._grows = enabled, recipe.loss_scale is None
        if enabled:
            first = FIRST_SCALE if recipe.loss_scale is None else recipe.loss_scale
            self._scale = tf.Variable(first, trainable=False, dtype=tf.float32)
            self._good_steps = tf.Variable(0, trainable=False, dtype=tf.int32)

    def scaled(self, loss: Any) -> Any:
        """Return the loss times the scale."""
        return loss * self._scale.read_value() if self.enabled else loss

    def unscaled(self, gradients: list[Any]) -> list[Any]:
        """Return the gradients without the scale."""
        if not self.enabled:
            return gradients
        inverse = 1.0 / self._scale.read_value()
        return [gradient * inverse for gradient in gradients]

    def update(self, gradients: list[Any], apply: Callable[[list[Any]], None]) -> None:
        """Apply the gradients, the ranks' sums and still scaled, unless they overflowed; adapt the scale."""
        if not self.enabled:
            apply(gradients)
            return
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])

        def go_on() -> None:
            apply(self.unscaled(gradients))
            if self._grows:
                grown = tf.equal(self._good_steps + 1, GROWTH_STEPS)
                more = tf.where(grown, 0, self._good_steps + 1)
                self._scale.assign(tf.where(grown, self._scale * 2, self._scale))
                self._good_steps.assign(more)

        def back_off() -> None:
            self._scale.assign(self._scale * 0.5)
            self._good_steps.assign(0)

        tf.cond(finite, go_on, back_off)


class NamedVariable(NamedTuple):
    """A Keras variable, and the order of its axes in the form that the frameworks exchange."""

    variable: Any
    order: tuple[int, ...]

    def to_exchange(self, array: Any) -> Any:
        """Return an array of the variable's shape in the exchanged form, float32."""
        return np.ascontiguousarray(array.transpose(self.order), np.float32)


class TensorFlowTraining(Training):
    """One rank; a model's subclass builds the Keras model, passes it to ``take_over``, and has ``forward``."""

    ranks: Group
    OBSERVES_COMPILED = True
    parts = 1  # how often the model is passed in one step

    def __init__(self, settings: Settings, place: Place) -> None:
        require_version("TensorFlow", tf.__version__, (2, 16))
        # Its warnings (eager collectives are slow) would come once a step; errors are raised.
        tf.get_logger().setLevel(logging.ERROR)
        self.device = choose_device(settings.device, place)
        refuse_gaps(settings, place, self.device.type)
        limit_threads(settings.threads, self.device)
        self.precision = choose_precision(settings.precision, self.device)
        one_of("TensorFlow", "compiler", settings.compiler, COMPILERS)
        self._compiler = COMPILERS[settings.compiler]
        self.find_data(settings)
        group = Group(place, self.device)
        # Before the loader: its order is drawn from this seed too.
        keras.utils.set_random_seed(settings.seed)
        feed = None if settings.synthetic else self.open_loader(settings, place)
        super().__init__(settings, group, feed)
        with group.scope():
            self.build()

    def find_data(self, settings: Any) -> None:
        """Raise ``RunError`` for a data set that cannot be read, before the ranks meet."""

    def to_batch(self, *arrays: Any) -> tuple[Any, ...]:
        """Return numpy's arrays on the device, whole numbers in 32 bits."""
        with tf.device(self.device.path):
            kinds = (tf.int32 if array.dtype.kind == "i" else tf.float32 for array in arrays)
            return tuple(map(tf.constant, arrays, kinds))

    def take_over(self, model: Any, tensors: dict[str, NamedVariable], decays: Callable[[str], bool]) -> None:
        """Train this model; ``tensors`` are its variables by the shared names, ``decays`` whether one decays."""
        self.model, self.tensors = model, tensors
        self._variables = model.trainable_variables
        names, recipe = {id(tensors[name].variable): name for name in tensors}, self.settings.recipe
        decay = [recipe.weight_decay if decays(names[id(one)]) else 0.0 for one in self._variables]
        self.optimizer: AdamW | Momentum
        if isinstance(recipe, AdamRecipe):
            self.optimizer = (Lamb if recipe.optimizer == LAMB else AdamW)(self._variables, decay, recipe)
        else:
            self.optimizer = Momentum(self._variables, decay, recipe)
        self._scale = LossScale(self.precision.scaled, recipe)

        part, whole = self._compiler.part, self._compiler.whole
        self._pass, self._update = part(self._forward_and_backward), part(self._apply)
        self._train = whole(self._all_ranks)
        # Made beforehand: a scalar that is made in the step would have to be copied to the device in it.
        with tf.device(self.device.path):
            self._rates = [tf.constant(rate, tf.float32) for rate in self.rates]

    def forward(self, *batch: Any) -> tuple[Any, Any]:
        """Return the loss of a batch, the mean over its samples, and the outputs; in training mode."""
        raise NotImplementedError

    def train(self, index: int) -> None:
        self._losses.append(self._train(self._rates[index], *self.batch))

    def _all_ranks(self, rate: Any, *batch: Any) -> Any:
        return self.ranks.run(self._one_rank, rate, *batch)

    def _one_rank(self, rate: Any, *batch: Any) -> Any:
        """Do one step as this rank's replica; return the loss of its own batch."""
        loss, _, gradients = self._pass(*self.prepared(batch, self.parts, alone=False))
        self._update(self.ranks.total(gradients, self._compiler.pack_bytes), rate)
        return loss

    def prepared(self, batch: tuple[Any, ...], _parts: int, alone: bool) -> tuple[Any, ...]:  # noqa: ARG002
        """Return a batch as ``forward`` takes it, to be cut into so many parts; ``alone``: the other ranks do not."""
        return batch

    def _forward_and_backward(self, *batch: Any) -> tuple[Any, Any, list[Any]]:
        """Return loss, outputs, and the gradients of this rank's part of the global loss, times the loss scale."""
        with tf.GradientTape() as tape:
            loss, outputs = self.forward(*batch)
            part = self._scale.scaled(loss / self.ranks.place.world_size)
        return loss, outputs, tape.gradient(part, [variable.value for variable in self._variables])

    def _apply(self, gradients: list[Any], rate: Any) -> None:
        self._scale.update(gradients, lambda unscaled: self.optimizer.apply(unscaled, rate))

    def observed_pass(self) -> tuple[Any, Any, dict[str, Any]]:
        """Return this rank's own loss, outputs and gradients by name, by the function that ``train`` calls."""
        ranks = self.ranks.place.world_size

        def passed(*batch: Any) -> Any:
            return self.ranks.run(self._pass, *batch)

        # Eager replicas would wait for each other.
        whole = passed if ranks == 1 else tf.function(passed, autograph=False)
        loss, outputs, gradients = whole(*self.batch)
        return loss, outputs, self.by_name([gradient * ranks for gradient in self._scale.unscaled(gradients)])

    def by_name(self, arrays: list[Any]) -> dict[str, Any]:
        """Return arrays in the order of the trained variables as numpy arrays by the shared names."""
        found = dict(zip((id(variable) for variable in self._variables), arrays))
        return {
            name: tensor.to_exchange(found[id(tensor.variable)].numpy())
            for name, tensor in self.tensors.items()
            if id(tensor.variable) in found
        }

    def graph(self, index: int, batch: tuple[Any, ...]) -> Any:
        """Return the graph of the step that is run, with the functions in it."""
        whole: Any = self._train
        return whole.get_concrete_function(self._rates[index], *batch).graph.as_graph_def()

    def synchronize(self) -> None:
        """Wait for all that was handed over: the GPU's stream, and then what TensorFlow itself still queues.

        What ``tf.test.experimental.sync_devices`` does, which fails beside other ranks: it names their devices too. The
        end of ``async_scope`` waits for the queues.
        """
        with tf.experimental.async_scope(), tf.device(self.device.path):
            tf.raw_ops.SyncDevice()

    @contextmanager
    def profiling(self, folder: Path) -> Iterator[Callable[[str], AbstractContextManager[Any]]]:
        """Trace the operations of TensorFlow's threads and of the GPU, without Python's functions."""
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        with tf.profiler.experimental.Profile(str(folder), options):
            yield tf.profiler.experimental.Trace

    def facts(self) -> Facts:
        gpu, threads = self.device.gpu, int(tf.config.threading.get_intra_op_parallelism_threads())
        details = {} if gpu is None else tf.config.experimental.get_device_details(gpu)
        build = {} if gpu is None else tf.sysconfig.get_build_info()
        return Facts(
            framework_version=tf.__version__,
            device=self.device.type,
            device_name=cpu_name() if gpu is None else str(details.get("device_name", "GPU")),
            parameters=count_parameters(self._variables),
            threads=threads or len(os.sched_getaffinity(0)),
            optimizer=self.optimizer.name,
            implementation=self.optimizer.kernel,
            compiler_mode=self._compiler.mode,
            peak_memory_of="device, in use by TensorFlow" if self.device.gpu is not None else PROCESS,
            others={
                "keras_version": keras.__version__,
                # TensorFlow has no events to record in a GPU's stream.
                "step_marks": "done" if self.device.gpu is None else "handed over",
                "cuda": build.get("cuda_version"),
                "cudnn": build.get("cudnn_version"),
            },
        )

    def tf32_switches(self) -> dict[str, Any]:
        """Return TensorFlow's one switch for both."""
        tf32 = bool(tf.config.experimental.tensor_float_32_execution_enabled())
        return {"tf32_matmul": tf32, "tf32_convolution": tf32}

    def compilations(self) -> int:
        """Return how often the step was traced: shapes are static, so that XLA compiles for a new trace alone."""
        whole: Any = self._train
        return 0 if self._compiler.whole is _eager else int(whole.experimental_get_tracing_count())

    def steps_taken(self) -> int | None:
        """Return how many steps the optimizer has counted; SGD counts none."""
        return int(self.optimizer.steps.numpy()) if isinstance(self.optimizer, AdamW) else None

    def read_moments(self) -> Moments | None:
        adam = self.optimizer
        if not isinstance(adam, AdamW):
            return None
        return Moments(int(adam.steps.numpy()), self.by_name(adam.first), self.by_name(adam.second))

    def products(self, size: int) -> Callable[[int], None]:
        with tf.device(self.device.path):
            one, other = (tf.cast(tf.random.normal((size, size)), self.precision.compute) for _ in range(2))
        # Operations are done where their arrays are.
        return repeated(lambda: tf.matmul(one, other), self.synchronize)

    def sums(self, values: int) -> Callable[[int], None]:
        with tf.device(self.device.path):
            one, other = tf.Variable(tf.zeros(values), trainable=False), tf.zeros(values)
        return repeated(lambda: one.assign_add(other), self.synchronize)

    def peak_memory_bytes(self) -> int:
        if self.device.gpu is not None:
            return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
        return super().peak_memory_bytes()

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        for name, (variable, order) in self.tensors.items():
            variable.assign(np.transpose(weights[name], np.argsort(order)))

    def read_weights(self) -> dict[str, Any]:
        return {name: own.to_exchange(own.variable.numpy()).copy() for name, own in self.tensors.items()}


# Gets the name and the result of each product, and of ``STREAM`` what the first block of a language model gave.
Tap = Callable[[str, Any], None]


class NamedModel:
    """Variables by the shared names, (inputs, outputs) for products, and the pass through them in a type, with loss."""

    def __init__(self, description: Any, compute: str, drawn: Callable[[str, tuple[int, ...]], Any]) -> None:
        """Draw the weights by the initializer of each name and shape; their number is asserted."""
        self.description, self._compute = description, compute
        self.tensors: dict[str, NamedVariable] = {}
        products = {f"{product}.weight" for product in description.products()}
        for name, shape in description.shapes().items():
            order = (1, 0) if name in products else tuple(range(len(shape)))
            own = tuple(shape[axis] for axis in order)
            word = name.replace(".", "_")
            variable = keras.Variable(drawn(name, shape), shape=own, dtype="float32", name=word)
            self.tensors[name] = NamedVariable(variable, order)
        self.variables = {name: tensor.variable for name, tensor in self.tensors.items()}
        self.trainable_variables: list[Any] = list(self.variables.values())
        assert_parameters(count_parameters(self.trainable_variables), description.parameters())

    def batch_logits(self, batch: Any, tap: Tap) -> Any:
        """Return the logits of a batch."""
        raise NotImplementedError

    def loss(self, batch: Any, tap: Tap) -> Any:
        """Return the loss of a batch, in FP32."""
        raise NotImplementedError


class ProductTraining(TensorFlowTraining, NamedProductTraining):
    """A model by name, and the observation of its products."""

    model: NamedModel

    def train_model(self, model: NamedModel, decays: Callable[[str], bool]) -> None:
        """Take the model over; its products are observed in the first step, in a graph while it is traced."""
        # Ranks drop different places: only dropout draws from here on.
        tf.random.set_seed(self.settings.seed + 1 + self.ranks.place.rank)
        self._observing = False
        self.first = {}
        self.take_over(model, model.tensors, decays)

    def forward(self, *batch: Any) -> tuple[Any, Any]:
        return self.model.loss(batch, self._note), ()

    def _note(self, name: str, result: Any) -> None:
        if name not in self.first and not self._observing:
            self.first[name] = (result.dtype.name, tuple(result.shape))

    def pass_whole(self, *batch: Any) -> tuple[Any, Any, list[Any]]:
        """Return loss, nothing, and the gradients of a batch that is passed at once."""
        return self._forward_and_backward(*batch)

    def observe(self) -> Observation:
        self._observing = True
        loss, _, gradients = self.pass_whole(*self.prepared(self.batch, 1, alone=True))
        results: dict[str, Any] = {}
        logits = self.model.batch_logits(self.batch, results.setdefault)
        self._observing = False
        products = []
        for name in self.model.description.products():
            inputs, outputs = self.model.variables[f"{name}.weight"].shape
            values = tf.cast(results[name], tf.float32).numpy()
            biased = f"{name}.bias" in self.model.variables
            products.append(observe_product(name, inputs, outputs, biased, values))
        by_name = self.by_name(self._scale.unscaled(gradients))
        return Observation(by_name, float(loss), np.asarray(tf.cast(logits, tf.float32)), products)
