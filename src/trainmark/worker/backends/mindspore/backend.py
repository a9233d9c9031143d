"""MindSpore as a backend: CPU, precision, the training step as a cell, weights, operators."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import amp, nn, ops
from mindspore.ops import primitive
from mindspore.train.anf_ir_pb2 import DataType, ModelProto

from ...core.choices import find_precision, one_of, refuse_gaps, require_version
from ...core.facts import Facts, count_parameters, cpu_name, type_name
from ...core.place import Place
from ...core.precision import Precision
from ...core.settings import Recipe, Settings
from ...core.training import Training
from .collectives import Cluster

NONE, GRAPH = "none", "graph"  # the compilers: operator by operator, and the step compiled as a whole

PRECISIONS = ("fp32", "amp-fp16")


def amp_level(precision: Precision) -> str:
    """Return MindSpore's level of mixed precision: O2 computes all cells in FP16, but batch norm in FP32."""
    return "O2" if precision.mixed else "O0"


def with_precision(model: nn.Cell, precision: Precision) -> nn.Cell:
    """Return the network that computes in the precision; its logits are FP32, its parameters the model's own."""
    return amp.auto_mixed_precision(model, amp_level(precision), ms.float16)


def own_threads() -> set[int]:
    """Return the threads of this process."""
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def bind_threads(threads: int, place: Place, loading: set[int]) -> None:
    """Bind this process to ``threads`` of the CPUs that it may use, those after the ranks before it on the node.

    MindSpore's settings do not bound it: with ``threads_num(1)`` it keeps a thread that computes, one that helps it,
    and OpenMP's. 0 leaves everything as it is. Existing threads are moved as well, except those that are ``loading``:
    any loader may use all CPUs, as other frameworks' loader processes do.
    """
    if not threads:
        return
    allowed = sorted(os.sched_getaffinity(0))
    first = place.local_rank * threads
    own = {allowed[(first + offset) % len(allowed)] for offset in range(threads)}
    for thread in own_threads() - loading:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread, own)
    ms.device_context.cpu.op_tuning.threads_num(threads)


class TrainStep(nn.Cell):
    """Forward, backward, mean of the gradients over the ranks, update; returns the loss of this rank.

    With a ``scaler`` the loss is scaled, and a step whose gradients overflow does not update.
    """

    def __init__(self, forward: nn.Cell, optimizer: nn.Optimizer, reducer: nn.Cell, scaler: Any) -> None:
        """Take over the parts, in training mode; ``reducer`` maps a rank's gradients to their means over the ranks."""
        super().__init__(auto_prefix=False)
        self.forward, self.optimizer, self.reducer, self.scaler = forward, optimizer, reducer, scaler
        passed = forward if scaler is None else self._scaled_loss
        self.gradients = ms.value_and_grad(passed, None, optimizer.parameters, has_aux=True)
        self.set_train()

    def _scaled_loss(self, *batch: Any) -> Any:
        loss, _ = self.forward(*batch)
        return self.scaler.scale(loss), loss

    def construct(self, *batch: Any) -> Any:
        """Train on one batch; a compiled ``construct`` must call its first argument ``self``."""
        (loss, unscaled), gradients = self.gradients(*batch)
        # The means over the ranks come first, so that all skip the same steps.
        gradients = self.reducer(gradients)
        if self.scaler is None:
            return ops.depend(loss, self.optimizer(gradients))
        gradients = self.scaler.unscale(gradients)
        finite = amp.all_finite(gradients)
        self.scaler.adjust(finite)
        if finite:
            unscaled = ops.depend(unscaled, self.optimizer(gradients))
        return unscaled


def sgd(
    decays: Sequence[tuple[list[Any], float]], order: Any, recipe: Recipe, rates: Sequence[float]
) -> nn.Optimizer:
    """Return SGD with momentum as in torch: v = m v + (g + d w), w = w - rate v.

    ``decays`` are groups of parameters, each with its weight decay; ``order`` is that of all of them. ``rates`` are
    those of all steps: the optimizer takes the next one from them in each update.
    """
    groups: list[Any] = [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]
    return nn.Momentum([*groups, {"order_params": order}], list(rates), recipe.momentum)


CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")


@contextlib.contextmanager
def operator_types() -> Iterator[tuple[list[str], list[str]]]:
    """Yield two lists that get the result types of convolutions and of matrix products, in the order of the pass.

    An operator takes and returns one type, whatever casts its cell makes around it; mixed precision casts the inputs
    inside the operator, so only the result shows the type. Graphs call no Python, and add nothing to the lists.
    """
    convolutions: list[str] = []
    products: list[str] = []
    run, multiply = primitive._run_op, ops.MatMul.__call__

    def run_and_note(operator: Any, name: str, given: Any) -> Any:
        result = run(operator, name, given)
        if name in CONVOLUTIONS:
            convolutions.append(type_name(result.dtype))
        return result

    def multiply_and_note(operator: Any, *given: Any) -> Any:
        result = multiply(operator, *given)
        products.append(type_name(result.dtype))
        return result

    primitive._run_op, ops.MatMul.__call__ = run_and_note, multiply_and_note
    try:
        yield convolutions, products
    finally:
        primitive._run_op, ops.MatMul.__call__ = run, multiply


def outputs_in_graph(step: nn.Cell, operators: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Return types, like ``float16``, and shapes of the outputs of these operators in a compiled step.

    They are from MindSpore's own graph; a hook observes nothing there.
    """
    model = ModelProto()
    model.ParseFromString(step.get_func_graph_proto())
    tensors = [node.output_type.tensor_type for node in model.graph.node if node.op_type in operators]
    types = (DataType.Name(tensor.elem_type).replace("DT_", "").lower() for tensor in tensors)
    shapes = (tuple(int(side.size) for side in tensor.shape.dim) for tensor in tensors)
    return list(zip(types, shapes))


class MindSporeTraining(Training):
    """One rank; a model's subclass builds the network and passes it to ``take_over``."""

    ranks: Cluster

    def __init__(self, settings: Settings, place: Place) -> None:
        require_version("MindSpore", ms.__version__, (2, 4))
        refuse_gaps(settings, place, "cpu" if settings.device == "auto" else settings.device)
        self.precision = find_precision("MindSpore", settings.precision, PRECISIONS)
        ms.set_device("CPU")
        one_of("MindSpore", "compiler", settings.compiler, (NONE, GRAPH))
        self.compiled = settings.compiler == GRAPH
        ms.set_context(mode=ms.GRAPH_MODE if self.compiled else ms.PYNATIVE_MODE)
        if not self.compiled:
            # Threads that hand operators from queue to queue spin while they wait. That hides the latency of an
            # accelerator; on a CPU they take the cores from the kernels.
            ms.runtime.launch_blocking()
        before = own_threads()
        feed = None if settings.synthetic else self.open_loader(settings, place)
        loading = own_threads() - before
        ranks = Cluster(place)
        # Only now, since the scheduler that rank 0 has started would inherit it.
        bind_threads(settings.threads, place, loading)
        # On a CPU, a step has been computed when its call returns.
        super().__init__(settings, ranks, feed)
        ms.set_seed(settings.seed)
        self.build()

    def to_batch(self, *arrays: Any) -> tuple[Any, ...]:
        """Return tensors of the task's arrays, whole numbers in int32 and others in float32."""
        kinds = (np.int32 if array.dtype.kind == "i" else np.float32 for array in arrays)
        return tuple(ms.Tensor(array.astype(kind)) for array, kind in zip(arrays, kinds))

    def take_over(
        self, model: nn.Cell, forward: nn.Cell, optimizer: nn.Optimizer, named: Mapping[str, ms.Parameter]
    ) -> None:
        """Train this model; ``forward`` maps a batch to loss and outputs, ``named`` are its weights by shared names."""
        self.model, self.named = model, named
        self._parameters = model.trainable_params()
        self._scaler, scale = None, self.settings.recipe.loss_scale
        if self.precision.scaled and scale is None:
            # As torch's: doubled after 2000 steps without an overflow.
            self._scaler = amp.DynamicLossScaler(scale_value=2**16, scale_factor=2, scale_window=2000)
        elif self.precision.scaled:
            self._scaler = amp.StaticLossScaler(scale)
        reducer = self.ranks.reducer(optimizer.parameters)
        self.train_step = TrainStep(forward, optimizer, reducer, self._scaler)
        self._compile_s = 0.0

    def train(self, index: int) -> None:
        """Train on the current batch; the optimizer has the rates of all steps."""
        if index == 0 and self.compiled:
            started = time.perf_counter()
            self.train_step.compile(*self.batch)
            self._compile_s = time.perf_counter() - started
        self._losses.append(self.train_step(*self.batch))

    def synchronize(self) -> None:
        """Wait for the update of the last parameter; MindSpore has no call that waits for a whole CPU."""
        self._parameters[-1].asnumpy()

    def facts(self) -> Facts:
        return Facts(
            framework_version=ms.__version__,
            device="cpu",
            device_name=cpu_name(),
            parameters=count_parameters(self._parameters),
            threads=len(os.sched_getaffinity(0)),
            implementation="mindspore.nn.Momentum",
            compiler_mode="GRAPH_MODE" if self.compiled else "PYNATIVE_MODE, blocking",
            others={"amp_level": amp_level(self.precision)},
        )

    def compile_s(self) -> float | None:
        return self._compile_s if self.compiled else None

    def compilations(self) -> int:
        """Return the number of programs that MindSpore has of the step: another shape or type makes another one."""
        return len(self.train_step.compile_cache) if self.compiled else 0

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load parameters and running statistics.

        Not by ``set_data``: it gives the parameter another tensor, and an optimizer that has run uses the old one.
        """
        for name, parameter in self.named.items():
            ops.assign(parameter, ms.Tensor(np.array(weights[name], np.float32)))

    def read_weights(self) -> dict[str, Any]:
        return {name: parameter.asnumpy().astype(np.float32) for name, parameter in self.named.items()}

    def observe_pass(self) -> tuple[Any, float, dict[str, Any]]:
        """Return outputs, loss and gradients by name of the current batch, with the step's own network and loss.

        Operator by operator, since a compiled network calls no hooks; backward from the scaled loss, as in FP16's step.
        """
        forward, fixed = self.train_step.forward, self.settings.recipe.loss_scale
        scale = fixed if fixed is not None and self._scaler is not None else 1.0

        def scaled(*given: Any) -> tuple[Any, Any]:
            loss, outputs = forward(*given)
            return loss * scale, outputs

        parameters, mode = self.model.trainable_params(), ms.get_context("mode")
        ms.set_context(mode=ms.PYNATIVE_MODE)
        try:
            both = ms.value_and_grad(scaled, None, parameters, has_aux=True)
            (loss, outputs), gradients = both(*self.batch)
        finally:
            ms.set_context(mode=mode)
        own = {
            parameter.name: (gradient / scale).asnumpy().astype(np.float32)
            for parameter, gradient in zip(parameters, gradients)
        }
        # A parameter that was frozen has no gradient.
        named = {
            name: own.get(parameter.name, np.zeros(parameter.shape, np.float32))
            for name, parameter in self.named.items()
            if self.task.is_trainable(name)
        }
        return outputs.asnumpy().astype(np.float32), float((loss / scale).asnumpy()), named
