"""PyTorch as a backend: precision, optimizers, the step, weights, and the hooks that observe products."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ...core.backend import Observation, hooked, repeated
from ...core.choices import find_precision, refuse_gaps, require_version
from ...core.facts import PROCESS, Facts, count_parameters, cpu_name, type_name
from ...core.optimizers import Moments
from ...core.place import Place
from ...core.precision import Precision, require_capability
from ...core.settings import NATIVE, AdamRecipe, Settings
from ...core.training import NONE, Training
from ...core.window import EventTimers
from ...pytorch_fast import compilers
from ...pytorch_fast.optimizers import moments, steps_taken
from ...pytorch_fast.scaled_linear import OPERAND, operand_type, products_in_fp8
from ...tasks.products import (
    NamedProducts,
    NamedProductTraining,
    ObservedLayers,
    ObservedProduct,
    observe_product,
)
from . import collectives
from .collectives import Exchange, Group, InOnePiece, WhileComputed

# The precisions; autocast casts the weights for each use.
PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16", "fp16", "bf16", "fp8")


def choose_precision(name: str, device: Any) -> Precision:
    """Return the precision and set torch's TF32 switches for it; raise ``RunError`` if the device lacks it."""
    precision = find_precision("PyTorch", name, PRECISIONS)
    if device.type == "cuda":
        require_capability(name, torch.cuda.get_device_capability(device))
    # The older switches, because torch refuses a mixture and its own compiler reads these.
    torch.backends.cuda.matmul.allow_tf32 = precision.tf32
    torch.backends.cudnn.allow_tf32 = precision.tf32
    return precision


def whole(tensor: Any) -> Any:
    """Return a tensor with all of its elements: the ranks gather a sharded one, and all of them must call this."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def is_sharded(tensor: Any) -> bool:
    """Return whether a tensor is a DTensor, whose import would take a part of a second in every run."""
    return hasattr(tensor, "full_tensor")


def read(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied once; sparse ones with all of their rows."""
    return {name: _numpy(tensor) for name, tensor in tensors.items()}


def _numpy(tensor: Any) -> Any:
    given = whole(tensor.to_dense() if tensor.is_sparse else tensor).detach()
    there = given.float().cpu().contiguous()
    return (there.clone() if there.data_ptr() == given.data_ptr() else there).numpy()


# The operators, without their overloads, that the losses of logits come down to.
LOSSES = ("_log_softmax", "logsumexp", "binary_cross_entropy_with_logits")


class Operators(TorchDispatchMode):
    """While it is entered, ``note`` gets each operator's name, without its overload, and its arguments."""

    def __init__(self, note: Callable[[str, Sequence[Any]], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note the operation, and do it."""
        self._note(func.overloadpacket.__name__, args)
        return func(*args, **(kwargs or {}))


class NamedModel(nn.Module, NamedProducts):
    """A model of products with its own loss."""


def noting(model: NamedModel, note: Callable[[str, Any, Any, Any], None]) -> AbstractContextManager[None]:
    """Return the context in which ``note`` gets each product's name, the product, its inputs and its output."""
    products = model.named_products().items()
    return hooked([product.register_forward_hook(partial(note, name)) for name, product in products])


class PyTorchTraining(Training):
    """One rank; a task's subclass passes its model to ``take_over``, and has ``_forward`` and ``named_tensors``."""

    ranks: Group
    parts = 1  # how often the model is passed in one step
    scaler_kind: Any = torch.amp.GradScaler
    inductor: Mapping[str, Any] = MappingProxyType({})  # settings of torch.compile (see ``compile_model``)
    by_itself = False  # whether a pass exchanges nothing with other ranks, as when each rank's own is timed

    def __init__(self, settings: Settings, place: Place) -> None:
        require_version("PyTorch", torch.__version__, (2, 4))
        if settings.threads:
            torch.set_num_threads(settings.threads)
        self._device = collectives.choose_device(settings.device, place)
        refuse_gaps(settings, place, self._device.type)
        self.precision = choose_precision(settings.precision, self._device)
        self._compute = getattr(torch, self.precision.compute)
        self.destination: tuple[Any, ...] = (self._device, self._compute)
        compilers.check_compiler(settings.compiler, self._device)
        captured = compilers.captures(settings.compiler)
        collectives.check_gradients(settings.gradients, self._compute, captured)
        self.check(settings)
        feed = None if settings.synthetic else self.open_loader(settings, place)
        marks = None
        if self._device.type == "cuda":
            marks = EventTimers(settings.steps, lambda: torch.cuda.Event(enable_timing=True))
        super().__init__(settings, Group(place, self._device), feed, marks)
        # The algorithm search of cuDNN happens in the first steps; shapes never change. No step of a check is timed.
        torch.backends.cudnn.benchmark = not settings.equivalence
        torch.manual_seed(settings.seed)
        self.build()

    def check(self, settings: Any) -> None:
        """Raise ``RunError`` for settings of the task that this PyTorch cannot train."""

    def to_batch(self, *arrays: Any) -> tuple[Any, ...]:
        tensors = tuple(map(torch.from_numpy, arrays))
        if self._device.type == "cuda":
            return self.from_loader(tuple(tensor.pin_memory() for tensor in tensors))
        return tensors

    def from_loader(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the tensors on the device; from pinned memory in the order of its work and without waiting."""
        return tuple(tensor.to(self._device, non_blocking=True) for tensor in tensors)

    def take_over(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Train this model."""
        settings = self.settings
        self.model, self.optimizer = model, optimizer
        self._updates = 0
        optimizer.register_step_post_hook(self._count_update)
        self._captured: compilers.CapturedStep | None = None
        if self.is_recorded():
            others = settings.equivalence is not None or self.feed.ahead is not None
            self._captured = compilers.CapturedStep(self._whole_step, self._device, others, self.recorded)
            for parameters in optimizer.param_groups:
                parameters["lr"] = torch.zeros((), device=self._device)
                if "capturable" in parameters:
                    parameters["capturable"] = True
        self.exchange = self.choose_exchange(static_graph=settings.compiler == NONE and self.parts == 1)
        self.network = self.compile(self.exchange.wrap(model))
        device, scale = self._device.type, settings.recipe.loss_scale
        # With a fixed scale it never grows. With the fused SGD it reads nothing back to the host: the kernel takes the
        # scale and the overflow flag from the device.
        fixed = {} if scale is None else {"init_scale": scale, "growth_interval": 1_000_000_000}
        self.scaler = self.scaler_kind(device, enabled=self.precision.scaled, **fixed)
        self.autocast: Any = torch.autocast(device, self._compute) if self.precision.mixed else nullcontext()
        # The losses stay on the device, one element a step, until the window is over.
        self._losses = torch.full((settings.steps,), float("nan"), device=self._device)
        self._loss_of = list(self._losses.unbind())

    def is_recorded(self) -> bool:
        """Return whether the step is recorded as one CUDA graph."""
        return compilers.captures(self.settings.compiler)

    def choose_exchange(self, static_graph: bool) -> Exchange:
        """Return the exchange of gradients that the settings name; for a rank on its own one that does nothing.

        ``static_graph`` promises DistributedDataParallel that every step is the same, which it cannot take of a
        compiled network. Of a recorded step the native exchange is ``flat``.
        """
        name = self.settings.gradients
        if self.ranks.backend is None:
            return Exchange()
        if name == collectives.DDP or (name == NATIVE and not self.is_recorded()):
            return WhileComputed(self._device, static_graph)
        narrow = self._compute if name == collectives.FLAT_16 else None
        name = collectives.FLAT if name == NATIVE else name
        return InOnePiece(name, self.ranks.place.world_size, narrow)

    def compile(self, network: nn.Module) -> Any:
        """Return the network as the run's compiler makes it."""
        return compilers.compile_model(network, self.settings.compiler, self.inductor)

    def _count_update(self, *_: Any) -> None:
        self._updates += 1

    def updates_taken(self) -> int:
        """Return the optimizer's calls, and the replays of a recorded step, whose recording is no update."""
        captured = self._captured
        return self._updates + (captured.replays - 1 if captured is not None and captured.recorded else 0)

    def _forward(self) -> tuple[Any, Any]:
        """Return the outputs of ``self.network`` and the loss for the batch at hand, under ``self.autocast``."""
        raise NotImplementedError

    def train(self, index: int) -> None:
        for parameters in self.optimizer.param_groups:
            if self._captured is None:
                parameters["lr"] = self.rates[index]
            else:
                parameters["lr"].fill_(self.rates[index])
        loss = self._whole_step(self.batch) if self._captured is None else self._captured(self.batch)
        self._loss_of[index].copy_(loss)

    def _whole_step(self, batch: tuple[Any, ...]) -> Any:
        """Forward, backward, mean over the ranks, update, at the optimizer's rate; return the loss."""
        self.batch = batch
        loss = self._pass()
        self.average()
        self.clip()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def average(self) -> None:
        """Make the gradients that the optimizer reads the mean of all ranks'."""
        self.exchange.average()

    def recorded(self) -> None:
        """Do what has to be done once the step is recorded as a CUDA graph."""

    def clip(self) -> None:
        """Make the gradients, the mean of all ranks' by now, as short as the recipe wants them."""

    def _pass(self) -> Any:
        """Pass the batch at hand forward and backward; return its loss."""
        return self._outputs_and_loss()[1]

    def _outputs_and_loss(self) -> tuple[Any, Any]:
        """Pass the batch at hand forward and backward; return the outputs of ``_forward`` and its loss."""
        outputs, loss = self._forward()
        # In own passes scaled as in the step, so that what FP16 rounds away is the same.
        self.scaler.scale(loss).backward()
        return outputs, loss.detach()

    def plain_pass(self) -> tuple[float, dict[str, Any]]:
        """Pass this rank's batch forward and backward alone; return its loss, and the outputs of ``Observation``."""
        outputs, loss = self._outputs_and_loss()
        return float(loss), {} if outputs is None else {"logits": outputs.detach().cpu().numpy()}

    def observed_step(self, index: int) -> Any:
        """Run the step and observe its layers; those of a compiled step in a pass without the compiler."""
        if self.settings.compiler == NONE:
            return self.watched(lambda: self.step(index))
        observed = self.watched(self.watched_pass)
        self.step(index)
        return observed

    def watched_pass(self) -> Any:
        """Pass the batch, or enough of it to observe the layers of a compiled step, without the compiler."""
        raise NotImplementedError

    def watched(self, step: Callable[[], Any]) -> Any:
        """Do ``step``, in which the model is called; return the observations for ``Task.verify_layers``."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU is never behind."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    @contextmanager
    def profiling(self, folder: Path) -> Iterator[Callable[[str], AbstractContextManager[Any]]]:
        """Profile the work of the CPU and of the GPU by torch.profiler."""
        from torch.profiler import ProfilerActivity, profile, record_function

        activities = [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        with profile(activities=activities) as profiler:
            yield record_function
        profiler.export_chrome_trace(str(folder / "steps.pt.trace.json"))

    def facts(self) -> Facts:
        cuda = self._device.type == "cuda"
        search = "measured" if torch.backends.cudnn.benchmark else "heuristic"
        return Facts(
            framework_version=torch.__version__,
            device=self._device.type,
            device_name=torch.cuda.get_device_name(self._device) if cuda else cpu_name(),
            parameters=count_parameters(self.model.parameters()),
            threads=torch.get_num_threads(),
            implementation="fused" if self.optimizer.defaults.get("fused") else "foreach",
            optimizer=type(self.optimizer).__name__,
            compiler_mode=compilers.MODES[self.settings.compiler],
            peak_memory_of="device, in use by PyTorch" if cuda else PROCESS,
            others={
                "cuda": torch.version.cuda if cuda else None,
                "cudnn": torch.backends.cudnn.version() if cuda else None,
                "algorithm_search": search if cuda else None,
                "cuda_connections": os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") if cuda else None,
                "gradient_exchange": self.exchange.name,
            },
        )

    def expected(self) -> Precision:
        expected = super().expected()
        return expected._replace(compute=type_name(OPERAND)) if self.precision.fp8 else expected

    def tf32_switches(self) -> dict[str, Any]:
        switches = torch.backends
        return {"tf32_matmul": switches.cuda.matmul.allow_tf32, "tf32_convolution": switches.cudnn.allow_tf32}

    def compiled_facts(self) -> dict[str, Any]:
        return {"compile_cache_hits": compilers.cache_hits(self.settings.compiler)}

    def compile_s(self) -> float | None:
        return compilers.compile_s(self.settings.compiler)

    def compilations(self) -> int | None:
        recorded = 0 if self._captured is None else int(self._captured.recorded)
        return recorded + compilers.compilations(self.settings.compiler)

    def own_pass(self) -> Observation:
        """Pass this rank's batch through the model itself, neither wrapped nor compiled.

        It drops what the next step drops: the generators of random numbers are as they were when it is over.
        """
        network, self.network = self.network, self.model
        devices = [self._device] if self._device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices):
                loss, outputs = self.plain_pass()
                types = self._loss_types()
            gradients, norm = self._unscaled_gradients()
            return Observation(gradients, loss=loss, norm=norm, loss_types=types, **outputs)
        finally:
            self.network = network
            self.model.zero_grad(set_to_none=True)

    def _loss_types(self) -> dict[str, str]:
        """Return the types of loss and logits in the step's own forward pass of the first part of the batch.

        A fused kernel shows no type of the logits.
        """
        types: dict[str, str] = {}

        def note(operator: str, given: Sequence[Any]) -> None:
            if operator in LOSSES and isinstance(given[0], torch.Tensor):
                types["softmax of the logits"] = type_name(given[0].dtype)

        whole, alone = self.batch, self.by_itself
        self.batch, self.by_itself = self.first_part(whole), True
        try:
            with torch.no_grad(), Operators(note):
                _, loss = self._forward()
        finally:
            self.batch, self.by_itself = whole, alone
        return {**types, "loss": type_name(loss.dtype)}

    def first_part(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the samples of a batch that are passed at once, in the form for ``_forward``."""
        return batch

    def _unscaled_gradients(self) -> tuple[dict[str, Any], float]:
        """Return the gradients of the loss alone, and the norm of all of them together."""
        scale = self.scaler.get_scale()
        found = {
            name: torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
            for name, tensor in self.named_tensors().items()
            if self.task.is_trainable(name)
        }
        values = (own.coalesce().values() if own.is_sparse else own for own in found.values())
        norms = torch.stack([torch.linalg.vector_norm(own).float() for own in values])
        gradients = {name: gradient / scale for name, gradient in self.sample_rows(found).items()}
        return gradients, float(torch.linalg.vector_norm(norms)) / scale

    def sample_rows(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numpy arrays of named tensors to verify after the window."""
        return read(tensors)

    def observed_gradients(self, loss: Any) -> dict[str, Any]:
        """Pass a loss backward as the step does; return the gradients, less the loss's scale, and drop them."""
        scale = self.scaler.get_scale()
        (loss * scale).backward()
        self.exchange.average()
        named = self.named_tensors().items()
        trained = read({name: tensor.grad for name, tensor in named if self.task.is_trainable(name)})
        self.model.zero_grad(set_to_none=True)
        return {name: gradient / np.float32(scale) for name, gradient in trained.items()}

    def read_batch(self) -> tuple[Any, ...]:
        return tuple(read({"": tensor})[""] for tensor in self.batch)

    def products(self, size: int) -> Callable[[int], None]:
        if self.precision.fp8:
            return repeated(products_in_fp8(size, self._device), self.synchronize)
        one, other = (torch.randn(size, size, device=self._device).to(self._compute) for _ in range(2))
        result = torch.empty_like(one)
        return repeated(lambda: torch.mm(one, other, out=result), self.synchronize)

    def sums(self, values: int) -> Callable[[int], None]:
        one, other = (torch.zeros(values, device=self._device) for _ in range(2))
        return repeated(lambda: one.add_(other), self.synchronize)

    def alone(self) -> Callable[[], None] | None:
        """Pass the batch through the network of the step, less what exchanges gradients within it."""
        compiled = self.settings.compiler != NONE
        if self._captured is not None or (compiled and isinstance(self.exchange, WhileComputed)):
            return None
        network = self.network if compiled else self.model

        def once() -> None:
            timed, self.network, self.by_itself = self.network, network, True
            try:
                self._pass()
            finally:
                self.network, self.by_itself = timed, False
                self.model.zero_grad(set_to_none=True)

        return once

    def all_reduce(self) -> tuple[int, Callable[[], None]] | None:
        """Return the group's all-reduce of as many elements as the dense gradients have."""
        return None if self.ranks.backend is None else self.exchange.exchange_alone(self.exchanged())

    def exchanged(self) -> Sequence[Any]:
        """Return the tensors whose gradients, which are dense, the ranks exchange."""
        sparse = {id(module.weight) for module in self.model.modules() if getattr(module, "sparse", False)}
        return [p for p in self.model.parameters() if p.requires_grad and id(p) not in sparse]

    def peak_memory_bytes(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        return super().peak_memory_bytes()

    def close(self) -> None:
        if self._captured is not None:
            self._captured.release()
        super().close()

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load all parameters and running statistics; the order of their elements in memory stays."""
        with torch.no_grad():
            for name, tensor in self.named_tensors().items():
                value = torch.from_numpy(np.ascontiguousarray(weights[name]))
                if is_sharded(tensor):
                    from torch.distributed.tensor import distribute_tensor

                    value = distribute_tensor(value.to(tensor.device), tensor.device_mesh, tensor.placements)
                tensor.copy_(value)

    def read_weights(self) -> dict[str, Any]:
        return read(self.named_tensors())


class ProductTraining(PyTorchTraining, NamedProductTraining):
    """A model of products that computes its own loss, and returns no outputs with it."""

    model: NamedModel

    def observe_first(self, model: NamedModel, layers: Mapping[str, nn.Module], *hooks: Any) -> None:
        """Observe the first product of a model and other ``layers`` by name; the hooks stay if it is compiled."""
        # Ranks drop different places: what is drawn from here on is dropout's alone.
        torch.manual_seed(self.settings.seed + 1 + self.ranks.place.rank)
        self._results: dict[str, tuple[Any, Any]] = {}
        product = next(iter(model.named_products().items()))
        self._hooks = [
            layer.register_forward_hook(partial(self._see, name))
            for name, layer in (product, *layers.items())
        ]
        self._hooks += hooks

    def _see(self, name: str, layer: Any, _given: Any, output: Any) -> None:
        self._results[name] = (operand_type(layer, output), output.shape)

    def first_product(self) -> tuple[str, Any]:
        """Return the type in which the first product multiplied last, and the shape of its result; set ``first``."""
        if self.settings.compiler == NONE:
            for hook in self._hooks:
                hook.remove()
        self.first = {name: (type_name(kind), shape) for name, (kind, shape) in self._results.items()}
        return next(iter(self.first.values()))

    def prepared(self, _parts: int) -> tuple[Any, ...]:
        """Return the current batch in the form for the model's loss, before it is split into parts."""
        return self.batch

    def _forward(self) -> tuple[Any, Any]:
        """Return None (instead of logits) and the loss of the whole current batch."""
        with self.autocast:
            return None, self.network(*self.prepared(1))

    def all_logits(self) -> Any:
        """Return the logits of the whole batch, by the model itself."""
        with torch.no_grad(), self.autocast:
            return self.model.batch_logits(*self.batch)

    def watched_pass(self) -> Any:
        return self.all_logits()

    def watched(self, step: Callable[[], Any]) -> ObservedLayers:
        types: dict[str, str] = {}
        inputs: list[Any] = []

        def note(name: str, product: Any, given: Any, output: Any) -> None:
            types[name] = type_name(operand_type(product, output))
            inputs.append(given[0].shape)

        with noting(self.model, note):
            step()
        return ObservedLayers(types, inputs[0] if inputs else None)

    def steps_taken(self) -> int | None:
        """Return how many steps the optimizer has counted; SGD counts none."""
        return steps_taken(self.optimizer) if isinstance(self.settings.recipe, AdamRecipe) else None

    def read_moments(self) -> Moments | None:
        return moments(self.optimizer, self.named_tensors(), self.sample_rows)

    def observe(self) -> Observation:
        found: list[ObservedProduct] = []

        def note(name: str, product: Any, _given: Any, output: Any) -> None:
            values = output.detach().float().cpu().numpy()
            outputs, inputs = product.weight.shape
            found.append(observe_product(name, inputs, outputs, product.bias is not None, values))

        with noting(self.model, note):
            logits = self.all_logits().float().cpu().numpy()
        _, loss = self._forward()
        return Observation(self.observed_gradients(loss), float(loss.detach()), logits, found)
