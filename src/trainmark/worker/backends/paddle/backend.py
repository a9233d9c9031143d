"""PaddlePaddle as a backend: precision, compiler, optimizer, the step, weights, observation of products."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.optimizer.lr import LambdaDecay, LRScheduler
from paddle.static import InputSpec

from ...core.backend import Observation, hooked, repeated
from ...core.choices import find_precision, one_of, refuse_gaps, require_version
from ...core.facts import PROCESS, Facts, count_parameters, cpu_name, type_name
from ...core.optimizers import Moments
from ...core.outcomes import INVALID, UNSUPPORTED, RunError
from ...core.place import Place
from ...core.precision import FP32, Precision, require_capability
from ...core.settings import ADAM, LAMB, AdamRecipe, Recipe, Settings
from ...core.training import Training
from ...core.window import EventTimers
from ...tasks.products import NamedProducts, NamedProductTraining, ObservedProduct, observe_product
from .collectives import Group, algorithm_search, choose_device, limit_threads, math_threads

# The precisions; Paddle casts the weights for each use (its AMP level O1).
PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16")
# What PaddleClas sets for AMP (``ppcls/engine/engine.py``): cuDNN's batch norm that reads its input once, and gradients
# that are summed in place.
MIXED_ON_A_GPU = {"FLAGS_cudnn_batchnorm_spatial_persistent": True, "FLAGS_max_inplace_grad_add": 8}


def choose_precision(name: str, device: str) -> Precision:
    """Return the precision and set Paddle's TF32 switches for it; raise ``RunError`` if the device lacks it.

    ``paddle.amp.auto_cast`` on a CPU only warns and computes in FP32: ``gaps.json`` refuses it earlier.
    """
    precision = find_precision("PaddlePaddle", name, PRECISIONS)
    if device == "cpu":
        return precision
    least = (7, 0) if precision.scaled else (0, 0)
    require_capability(name, paddle.device.cuda.get_device_capability(), least)
    paddle.base.core.set_cublas_switch(precision.tf32)
    paddle.base.core.set_cudnn_switch(precision.tf32)
    if precision.mixed:
        paddle.set_flags(MIXED_ON_A_GPU)
    return precision


def auto_cast(precision: Precision) -> AbstractContextManager[Any]:
    """Return a fresh context in which the forward pass and the loss run."""
    # Called in each step: no property, which is a call.
    if precision.compute == FP32:
        return nullcontext()
    return paddle.amp.auto_cast(level="O1", dtype=precision.compute)


NONE = "none"
BACKENDS: dict[str, str | None] = {NONE: None, "to_static": None, "to_static-cinn": "CINN"}


def compile_learner(learner: nn.Layer, name: str, inputs: tuple[Any, ...]) -> None:
    """Make the learner one program for inputs of these shapes and types, which its first call compiles.

    ``full_graph``: all of it, or an error; never a part that falls back to Python unnoticed.
    """
    if name != NONE:
        specification = [InputSpec(list(array.shape), array.dtype) for array in inputs]
        paddle.jit.to_static(learner, input_spec=specification, backend=BACKENDS[name], full_graph=True)


@contextmanager
def operator_by_operator() -> Iterator[None]:
    """Run compiled layers operator by operator meanwhile, without discarding their programs."""
    paddle.jit.enable_to_static(False)
    try:
        yield
    finally:
        paddle.jit.enable_to_static(True)


def sgd(parameters: list[Any], schedule: LRScheduler, recipe: Recipe) -> paddle.optimizer.Momentum:
    """Return the optimizer of all parameters.

    Paddle's velocity is mu * velocity + (gradient + decay * weight), and the weight moves by rate * velocity: the
    rate is outside of the velocity, so a rate that changes needs no correction. Parameters with their own
    regularizer (batch norm) do not use ``weight_decay``. ``use_multi_tensor`` updates all parameters in one operator.
    """
    return paddle.optimizer.Momentum(
        schedule, recipe.momentum, parameters, weight_decay=recipe.weight_decay, use_multi_tensor=True
    )


def adaptive(
    parameters: list[Any], schedule: LRScheduler, recipe: AdamRecipe, decaying: Collection[str]
) -> paddle.optimizer.Optimizer:
    """Return Adam, AdamW, or LAMB, which scales only what decays: the parameters ``decaying``, by Paddle's names."""
    common = {
        "learning_rate": schedule,
        "beta1": recipe.momentum,
        "beta2": recipe.second_momentum,
        "epsilon": recipe.epsilon,
        "parameters": parameters,
    }
    if recipe.optimizer == ADAM:
        return paddle.optimizer.Adam(**common)
    if recipe.clip_norm is not None:
        common["grad_clip"] = paddle.nn.ClipGradByGlobalNorm(recipe.clip_norm)
    decay = recipe.weight_decay
    if recipe.optimizer == LAMB:
        common["exclude_from_weight_decay_fn"] = lambda parameter: parameter.name not in decaying
        return paddle.optimizer.Lamb(lamb_weight_decay=decay, **common)
    return paddle.optimizer.AdamW(weight_decay=decay, apply_decay_param_fun=decaying.__contains__, **common)


def steps_of(powers: Sequence[float], recipe: AdamRecipe) -> int | None:
    """Return how many updates an adaptive optimizer has made, from the stored powers of its two betas.

    Paddle counts no steps, and after an overflow leaves both as they are; they begin as the betas themselves. That of
    the first is the finer measure, until FP32 has no room for it. None where neither tells one step from the next:
    each product may be rounded, as the beta is.
    """
    for power, beta in zip(powers, (recipe.momentum, recipe.second_momentum)):
        if power > 1e-30:
            count = math.log(power) / math.log(beta)
            return round(count) - 1 if count * 2.0**-23 < -0.5 * math.log(beta) else None
    return None


def read(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied."""
    return {
        name: np.array(_transposed(name, tensor.astype("float32").numpy()), np.float32, order="C")
        for name, tensor in tensors.items()
    }


def _transposed(name: str, array: Any) -> Any:
    """Transpose the weights of products, which Paddle stores as (inputs, outputs); tables have other names."""
    return array.T if array.ndim == 2 and name.endswith("weight") else array


# The kernels of convolutions and linear layers in the forward pass.
PRODUCTS = ("conv2d", "depthwise_conv2d", "depthwise_conv2d_bias", "matmul_v2", "matmul", "linear_v2")

FLAG = "FLAGS_low_precision_op_list"
COUNTED = ("float16", "bfloat16", "float32", "another type")  # Paddle counts a kernel's calls by these


@contextmanager
def operand_types(layers: Sequence[tuple[str, Any]]) -> Iterator[dict[str, str]]:
    """Yield a dictionary that gets, by the names of layers, the type that their products' kernels were chosen for.

    Paddle's debugging of mixed precision counts kernels by type: only it shows a layer that casts its inputs to another
    type and its output back, and the casts of ``auto_cast``. A compiled program shows its own types.
    """
    types: dict[str, str] = {}
    core, hooks = paddle.base.core, []

    def entered(_layer: Any, _given: Any) -> None:
        core.clear_low_precision_op_list()

    def left(name: str, _layer: Any, _given: Any, _output: Any) -> None:
        # Each kernel has its calls by type, as "0,0,1,0".
        counts = core.get_low_precision_op_list()
        numbers = [counts[kernel].split(",") for kernel in counts if kernel in PRODUCTS]
        found = [kind for at, kind in enumerate(COUNTED) if any(int(calls[at]) for calls in numbers)]
        if found:
            types[name] = "+".join(found)

    for name, layer in layers:
        hooks.append(layer.register_forward_pre_hook(entered))
        hooks.append(layer.register_forward_post_hook(partial(left, name)))
    before = paddle.get_flags(FLAG)
    paddle.set_flags({FLAG: 1})
    try:
        with hooked(hooks):
            yield types
    finally:
        paddle.set_flags(before)
        core.clear_low_precision_op_list()


class PaddleTraining(Training):
    """One rank; a model's subclass passes to ``take_over`` a learner, which maps a batch to outputs and loss."""

    ranks: Group

    def __init__(self, settings: Settings, place: Place) -> None:
        require_version("PaddlePaddle", paddle.version.full_version, (3, 0))
        self.device = choose_device(settings.device, place)
        refuse_gaps(settings, place, self.device)
        self.precision = choose_precision(settings.precision, self.device)
        one_of("PaddlePaddle", "compiler", settings.compiler, BACKENDS)
        if BACKENDS[settings.compiler] == "CINN" and not paddle.is_compiled_with_cinn():
            # ``to_static`` takes CINN as a backend from any build, and leaves it out silently if it is missing.
            reason = f"{settings.compiler}: this PaddlePaddle is built without the compiler CINN"
            raise RunError(UNSUPPORTED, reason)
        feed = None if settings.synthetic else self.open_loader(settings, place)
        group = Group(place, self.device)
        if settings.threads:
            limit_threads(settings.threads, self.device)
        marks = None
        if self.device == "cuda":
            marks = EventTimers(settings.steps, lambda: paddle.device.cuda.Event(enable_timing=True))
        super().__init__(settings, group, feed, marks)
        paddle.seed(settings.seed)
        self.build()

    def to_batch(self, *arrays: Any) -> tuple[Any, ...]:
        return tuple(map(paddle.to_tensor, arrays))

    from_loader = staticmethod(tuple)  # type: ignore[assignment]  # of any batch

    def make_optimizer(self, parameters: list[Any], schedule: Any) -> Any:
        """Return the optimizer of these parameters: SGD, unless a task overrides it."""
        return sgd(parameters, schedule, self.settings.recipe)

    def take_over(self, learner: nn.Layer, parameters: list[Any]) -> None:
        """Train these parameters by this learner."""
        settings = self.settings
        self._learner, self._parameters = learner, parameters
        compile_learner(learner, settings.compiler, self.passed_at_once())
        self._compile_s: float | None = None if settings.compiler == NONE else 0.0
        self.learner = self.ranks.wrap(learner)
        # ``step(index)`` chooses the rate of a step.
        self._schedule = LambdaDecay(1.0, self.rates.__getitem__)
        self.optimizer = self.make_optimizer(parameters, self._schedule)
        scale = settings.recipe.loss_scale
        fixed = {} if scale is None else {"init_loss_scaling": scale, "use_dynamic_loss_scaling": False}
        self.scaler = paddle.amp.GradScaler(**fixed) if self.precision.scaled else None

    def train(self, index: int) -> None:
        self._schedule.step(index)
        if index == 0 and self._compile_s is not None:
            batch, started = self.passed_at_once(), time.perf_counter()
            with auto_cast(self.precision):
                # As its first call would.
                self._learner.forward.get_concrete_program(*batch)
            self._compile_s = time.perf_counter() - started
        loss = self._pass()
        self.ranks.average(self._parameters)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        # Released, and not filled with zeros to which the next step would have to add.
        self.optimizer.clear_grad(set_to_zero=False)
        self._losses.append(loss)

    def passed_at_once(self) -> tuple[Any, ...]:
        """Return the inputs of one call of the learner: the whole batch, if a task does not divide it."""
        return self.batch

    def _pass(self) -> Any:
        """Pass the current batch forward and backward; return its loss."""
        _, loss = self._forward()
        self._backward(loss)
        return loss.detach()

    def _backward(self, loss: Any) -> None:
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def prepared(self, _parts: int) -> tuple[Any, ...]:
        """Return the current batch as the learner takes it, to be cut into so many parts."""
        return self.batch

    def _forward(self) -> tuple[Any, Any]:
        """Return outputs and loss of the whole current batch."""
        with auto_cast(self.precision):
            return self.learner(*self.prepared(1))

    def own_gradients(self, loss: Any) -> dict[str, Any]:
        """Pass a loss backward; return what it adds to the gradients, by the shared names, and drop that again."""
        loss.backward()
        tensors = self.named_tensors()
        trained = {name: tensor for name, tensor in tensors.items() if self.task.is_trainable(name)}
        gradients = read(
            {name: paddle.zeros_like(own) if own.grad is None else own.grad for name, own in trained.items()}
        )
        for tensor in tensors.values():
            tensor.clear_gradient(set_to_zero=False)
        return gradients

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        for name, tensor in self.named_tensors().items():
            tensor.set_value(np.ascontiguousarray(_transposed(name, weights[name])))

    def read_weights(self) -> dict[str, Any]:
        return read(self.named_tensors())

    def steps_taken(self) -> int | None:
        """Return how many steps the optimizer has counted, less those that overflowed; SGD counts none."""
        recipe = self.settings.recipe
        if not isinstance(recipe, AdamRecipe):
            return None
        if not self._losses:
            return 0
        first = next(iter(self.named_tensors().values()))
        powers = (self.optimizer._get_accumulator(f"beta{beta}_pow_acc", first) for beta in (1, 2))
        return steps_of([power.item() for power in powers], recipe)

    def read_moments(self) -> Moments | None:
        if not self._losses or not isinstance(self.settings.recipe, AdamRecipe):
            return None
        named, accumulator = self.named_tensors().items(), self.optimizer._get_accumulator
        first, second = (
            read({name: accumulator(kind, tensor) for name, tensor in named})
            for kind in ("moment1", "moment2")
        )
        taken = self.steps_taken()
        return Moments(len(self._losses) if taken is None else taken, first, second)

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU has computed when a call returns."""
        if self.device == "cuda":
            paddle.device.synchronize()

    def facts(self) -> Facts:
        cuda, multi_tensor = self.device == "cuda", getattr(self.optimizer, "_use_multi_tensor", False)
        return Facts(
            framework_version=paddle.version.full_version,
            device=self.device,
            device_name=paddle.device.cuda.get_device_name() if cuda else cpu_name(),
            parameters=count_parameters(self._parameters),
            threads=math_threads(),
            optimizer=type(self.optimizer).__name__,
            implementation="multi-tensor" if multi_tensor else "an operator each",
            compiler_mode=BACKENDS[self.settings.compiler],
            peak_memory_of="device, in use by PaddlePaddle" if cuda else PROCESS,
            others={
                "cuda": paddle.version.cuda() if cuda else None,
                "cudnn": paddle.device.get_cudnn_version() if cuda else None,
                "algorithm_search": algorithm_search(self.device),
            },
        )

    def tf32_switches(self) -> dict[str, Any]:
        """Return Paddle's switches; a build for CPUs has none."""
        if not paddle.device.is_compiled_with_cuda():
            return {}
        core = paddle.base.core
        return {"tf32_matmul": core.get_cublas_switch(), "tf32_convolution": core.get_cudnn_switch()}

    def compiled_facts(self) -> dict[str, Any]:
        """Return the programs of the first step; raise ``RunError`` (invalid) for an unexpected number."""
        compiled, expected = self.compilations(), int(self.settings.compiler != NONE)
        if compiled != expected:
            raise RunError(INVALID, f"the first step made {compiled} compiled programs, not {expected}")
        return {"compiled_programs": compiled}

    def compile_s(self) -> float | None:
        return self._compile_s

    def compilations(self) -> int:
        """Return how many programs were compiled so far: none for a learner that runs operator by operator."""
        return len(getattr(self._learner.forward, "program_cache", ()))

    def products(self, size: int) -> Callable[[int], None]:
        one, other = (paddle.randn([size, size]).astype(self.precision.compute) for _ in range(2))
        return repeated(lambda: paddle.matmul(one, other), self.synchronize)

    def sums(self, values: int) -> Callable[[int], None]:
        one, other = paddle.zeros([values]), paddle.zeros([values])
        return repeated(lambda: one.add_(other), self.synchronize)

    def peak_memory_bytes(self) -> int:
        if self.device == "cuda":
            return int(paddle.device.cuda.max_memory_allocated())
        return super().peak_memory_bytes()


class ProductModel(nn.Layer, NamedProducts):
    """Products and tables with the loss behind them, so that a compiled program holds both.

    ``forward`` maps a batch to its loss twice: as output, and as what is differentiated.
    """


class ProductTraining(PaddleTraining, NamedProductTraining):
    """A model of products, which returns its own loss, and a hook behind its first product."""

    model: ProductModel

    def train_model(self, model: ProductModel, layers: Mapping[str, nn.Layer] = MappingProxyType({})) -> None:
        """Observe the first product and other ``layers`` of the model, and take it over."""
        # Ranks drop different places: only dropout draws from here on.
        paddle.seed(self.settings.seed + 1 + self.ranks.place.rank)
        self.model = model
        self.first = {}
        product = next(iter(model.named_products().items()))
        self._hooks = [
            layer.register_forward_post_hook(partial(self._note, name))
            for name, layer in (product, *layers.items())
        ]
        self.take_over(model, list(model.parameters()))

    def _note(self, name: str, _layer: Any, _given: Any, output: Any) -> None:
        self.first[name] = (type_name(output.dtype), tuple(output.shape))

    def first_product(self) -> tuple[str, tuple[int, ...]]:
        """Return type and shape of the first product's result; a compiled program told them while it was made.

        All hooks are removed.
        """
        for hook in self._hooks:
            hook.remove()
        return next(iter(self.first.values()))

    def observe(self) -> Observation:
        found: list[ObservedProduct] = []

        def note(name: str, layer: Any, _given: Any, output: Any) -> None:
            inputs, outputs = layer.weight.shape
            values = output.astype("float32").numpy()
            found.append(observe_product(name, inputs, outputs, layer.bias is not None, values))

        products = self.model.named_products()
        hooks = [layer.register_forward_post_hook(partial(note, name)) for name, layer in products.items()]
        with hooked(hooks), paddle.no_grad(), auto_cast(self.precision):
            logits = self.model.batch_logits(*self.batch).astype("float32").numpy()
        _, loss = self._forward()
        return Observation(self.own_gradients(loss), float(loss), logits, found)
