"""A rank's training in PyTorch, whatever it trains: one step after another, and what the run is made of."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import nn

from ..core.choices import require_version
from ..core.facts import Expected, Facts
from ..core.feed import Feed
from ..core.gaps import refuse_gaps
from ..core.place import Place
from ..core.settings import Settings
from ..core.training import Training
from ..core.window import EventMarks, HostMarks, Marks, slots_for
from . import weights as weights_of
from .capture import CapturedStep
from .compilers import MODES, NONE, captures, check_compiler, compilations, compile_model, compile_s
from .device import choose_device, device_name, peak_memory_bytes, peak_memory_of
from .distributed import Group
from .gradients import Exchange, WhileComputed, check_gradients, choose_exchange
from .loss_types import LossTypes
from .precision import Precision, autocast, choose_precision, loss_scaler, type_name
from .scaled_linear import products_in_fp8


class Machine(NamedTuple):
    """What a rank computes on, and in which types."""

    device: Any
    precision: Precision


def choose_machine(settings: Settings, place: Place) -> Machine:
    """Return this rank's device and the precision.

    What the device or this PyTorch cannot do raises ``RunError`` (unsupported): before the ranks meet, so that no
    rank waits for one that has left.
    """
    require_version("PyTorch", torch.__version__, (2, 4))
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = choose_device(settings.device, place)
    refuse_gaps(settings, place, device.type)
    precision = choose_precision(settings.precision, device)
    check_compiler(settings.compiler, device)
    check_gradients(settings.gradients, precision, captures(settings.compiler))
    return Machine(device, precision)


def moved(tensors: Tuple[Any, ...], device: Any) -> Tuple[Any, ...]:
    """Return the tensors on the device; from pinned memory in the order of its work and without waiting."""
    return tuple(tensor.to(device, non_blocking=True) for tensor in tensors)


def batches_of(device: Any) -> Callable[..., Tuple[Any, ...]]:
    """Return what makes batches of numpy's arrays; to a GPU from pinned memory, without waiting."""

    def to_batch(*arrays: Any) -> Tuple[Any, ...]:
        tensors = tuple(map(torch.from_numpy, arrays))
        if device.type == "cuda":
            return moved(tuple(tensor.pin_memory() for tensor in tensors), device)
        return tensors

    return to_batch


class OutputsAlone(NamedTuple):
    """The loss of a rank's batch and the outputs that verify it: logits, or the loss of each target."""

    loss: float
    logits: Any = None
    target_losses: Any = None


class Alone(NamedTuple):
    """What a rank's batch gives by itself; the gradients by the shared names, as far as they are looked at.

    ``norm`` is that of all of them together; for the rest see ``OwnPass`` and ``OutputsAlone``.
    """

    loss: float
    gradients: Mapping[str, Any]
    norm: float
    logits: Any = None
    target_losses: Any = None
    loss_types: Optional[Mapping[str, str]] = None


class PyTorchTraining(Training):
    """Model, optimizer, batches and marks of one rank.

    A task's subclass builds the model and gives it to ``take_over``; it writes ``_forward``, ``named_tensors`` and what
    only its own models have to tell.
    """

    ranks: Group

    parts = 1
    """How often the model is passed in one step."""

    scaler_kind: Any = torch.amp.GradScaler

    by_itself = False
    """Whether a pass exchanges nothing with other ranks, as when each rank's own is timed."""

    def __init__(
        self,
        settings: Settings,
        place: Place,
        machine: Machine,
        to_batch: Callable[..., Any],
        feed: Optional[Feed],
    ) -> None:
        """Meet the other ranks, fetch the first batch, and seed torch's generators."""
        self._device, self._precision = machine
        slots = slots_for(settings.steps)
        marks: Marks = HostMarks(slots)
        if self._device.type == "cuda":
            marks = EventMarks(slots, lambda: torch.cuda.Event(enable_timing=True))
        super().__init__(settings, Group(place, self._device), marks, to_batch, feed)
        # The algorithm search of cuDNN happens in the first steps; shapes never change.
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(settings.seed)

    def take_over(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, inductor: Mapping[str, Any]
    ) -> None:
        """Train this model; see ``compile_model`` for ``inductor``."""
        settings, static_graph = self.settings, self.settings.compiler == NONE and self.parts == 1
        self.model, self.optimizer = model, optimizer
        self._updates = 0
        optimizer.register_step_post_hook(self._count_update)
        self._captured: Optional[CapturedStep] = None
        if self.is_recorded():
            other_batches = settings.equivalence is not None or self.feed.ahead is not None
            self._captured = CapturedStep(self._whole_step, self._device, other_batches, self.recorded)
            for parameters in optimizer.param_groups:
                parameters["lr"] = torch.zeros((), device=self._device)
                if "capturable" in parameters:
                    parameters["capturable"] = True
        self.exchange = self.choose_exchange(static_graph)
        self.network = self.compile(self.exchange.wrap(model), inductor)
        self.scaler = loss_scaler(self._precision, settings.recipe, self._device, self.scaler_kind)
        self.autocast = autocast(self._precision, self._device)
        # The losses stay on the device, one element a step, until the window is over.
        self._losses = torch.full((settings.steps,), float("nan"), device=self._device)
        self._loss_of = list(self._losses.unbind())

    def is_recorded(self) -> bool:
        """Return whether the step is recorded as one CUDA graph."""
        return captures(self.settings.compiler)

    def choose_exchange(self, static_graph: bool) -> Exchange:
        """Return the exchange of gradients; ``static_graph``: every step is the same."""
        gradients, recorded = self.settings.gradients, self.is_recorded()
        return choose_exchange(gradients, self.ranks, self._device, self._precision, static_graph, recorded)

    def compile(self, network: nn.Module, inductor: Mapping[str, Any]) -> Any:
        """Return the network as the run's compiler makes it; see ``compile_model`` for ``inductor``."""
        return compile_model(network, self.settings.compiler, inductor)

    def _count_update(self, *_: Any) -> None:
        self._updates += 1

    def updates_taken(self) -> int:
        """Return the optimizer's calls, and the replays of a recorded step, whose recording is no update."""
        captured = self._captured
        return self._updates + (captured.replays - 1 if captured is not None and captured.recorded else 0)

    def _forward(self) -> Tuple[Any, Any]:
        """Return the outputs of ``self.network`` and the loss for the batch at hand, under ``self.autocast``."""
        raise NotImplementedError

    def named_tensors(self) -> Dict[str, Any]:
        """Return the model's parameters and running statistics by the shared names."""
        raise NotImplementedError

    def train(self, index: int) -> None:
        """Train on the batch at hand."""
        for parameters in self.optimizer.param_groups:
            if self._captured is None:
                parameters["lr"] = self.rates[index]
            else:
                parameters["lr"].fill_(self.rates[index])
        loss = self._whole_step(self.batch) if self._captured is None else self._captured(self.batch)
        self._loss_of[index].copy_(loss)

    def _whole_step(self, batch: Tuple[Any, ...]) -> Any:
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

    def _outputs_and_loss(self) -> Tuple[Any, Any]:
        """Pass the batch at hand forward and backward; return the outputs of ``_forward`` and its loss."""
        outputs, loss = self._forward()
        # In own passes scaled as in the step, so that what FP16 rounds away is the same.
        self.scaler.scale(loss).backward()
        return outputs, loss.detach()

    def plain_pass(self) -> OutputsAlone:
        """Pass this rank's batch forward and backward alone; return its loss, and what verifies that."""
        outputs, loss = self._outputs_and_loss()
        return OutputsAlone(float(loss), None if outputs is None else outputs.detach().cpu().numpy())

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU is never behind."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def facts(self) -> Facts:
        """Return what the run is made of."""
        cuda = self._device.type == "cuda"
        return Facts(
            framework_version=torch.__version__,
            device=self._device.type,
            device_name=device_name(self._device),
            parameters=weights_of.count_parameters(self.model),
            threads=torch.get_num_threads(),
            implementation="fused" if self.optimizer.defaults.get("fused") else "foreach",
            optimizer=type(self.optimizer).__name__,
            loss_scaled=self.scaler.is_enabled(),
            compiler_mode=MODES[self.settings.compiler],
            peak_memory_of=peak_memory_of(self._device),
            others={
                "cuda": torch.version.cuda if cuda else None,
                "cudnn": torch.backends.cudnn.version() if cuda else None,
                "algorithm_search": "measured" if cuda else None,
                "cuda_connections": os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") if cuda else None,
                "gradient_exchange": self.exchange.name,
            },
        )

    def expected(self) -> Expected:
        """Return the precision in words."""
        precision = self._precision
        return Expected(type_name(precision.operands), type_name(precision.weights), precision.tf32)

    def compile_s(self) -> Optional[float]:
        """Return the seconds that torch.compile has spent so far."""
        return compile_s(self.settings.compiler)

    def compilations(self) -> Optional[int]:
        """Return how many graphs torch.compile has made so far, and how many steps were recorded."""
        recorded = 0 if self._captured is None else int(self._captured.recorded)
        return recorded + compilations(self.settings.compiler)

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss) for loss in self._losses.tolist()]

    def own_pass(self) -> Alone:
        """Pass this rank's batch through the model itself, neither wrapped nor compiled.

        It drops what the next step drops: the generators of random numbers are as they were when it is over.
        """
        network, self.network = self.network, self.model
        devices = [self._device] if self._device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices):
                plain = self.plain_pass()
                types = self._loss_types()
            gradients, norm = self._unscaled_gradients()
            return Alone(plain.loss, gradients, norm, plain.logits, plain.target_losses, types)
        finally:
            self.network = network
            self.model.zero_grad(set_to_none=True)

    def _loss_types(self) -> Dict[str, str]:
        """Return the types of loss and logits in the step's own forward pass of the first part of the batch."""
        whole, alone = self.batch, self.by_itself
        self.batch, self.by_itself = self.first_part(whole), True
        try:
            with torch.no_grad(), LossTypes() as seen:
                _, loss = self._forward()
        finally:
            self.batch, self.by_itself = whole, alone
        return {**seen.types, "loss": type_name(loss.dtype)}

    def first_part(self, batch: Tuple[Any, ...]) -> Tuple[Any, ...]:
        """Return the samples of a batch that are passed at once, in the form for ``_forward``."""
        return batch

    def _unscaled_gradients(self) -> Tuple[Dict[str, Any], float]:
        """Return the gradients of the loss alone, and the norm of all of them together."""
        scale = self.scaler.get_scale() if self.scaler.is_enabled() else 1.0
        tensors = self.named_tensors()
        found = {
            name: torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
            for name, tensor in tensors.items()
            if self.task.is_trainable(name)
        }
        read = {name: gradient / scale for name, gradient in self.looked_at(found).items()}
        norms = [
            torch.linalg.vector_norm(gradient.coalesce().values() if gradient.is_sparse else gradient).float()
            for gradient in found.values()
        ]
        return read, float(torch.linalg.vector_norm(torch.stack(norms))) / scale

    def looked_at(self, tensors: Mapping[str, Any]) -> Dict[str, Any]:
        """Return tensors by the shared names as numpy arrays: what is looked into after the window."""
        return weights_of.read(tensors)

    def read_batch(self) -> Tuple[Any, ...]:
        """Return the batch at hand as numpy arrays."""
        return tuple(weights_of.read({"": tensor})[""] for tensor in self.batch)

    def products(self, size: int) -> Callable[[int], None]:
        """Return products by ``torch.mm`` into one result, in FP8 by ``torch._scaled_mm``."""
        if self._precision.fp8:
            return self._products_in_fp8(size)
        kind = self._precision.compute
        one, other = (torch.randn(size, size, device=self._device).to(kind) for _ in range(2))
        result = torch.empty_like(one)

        def times(count: int) -> None:
            with torch.no_grad():
                for _ in range(count):
                    torch.mm(one, other, out=result)
            self.synchronize()

        return times

    def _products_in_fp8(self, size: int) -> Callable[[int], None]:
        once = products_in_fp8(size, self._device)

        def times(count: int) -> None:
            with torch.no_grad():
                for _ in range(count):
                    once()
            self.synchronize()

        return times

    def sums(self, values: int) -> Callable[[int], None]:
        """Return sums by ``add_``."""
        one, other = (torch.zeros(values, device=self._device) for _ in range(2))

        def times(count: int) -> None:
            with torch.no_grad():
                for _ in range(count):
                    one.add_(other)
            self.synchronize()

        return times

    def alone(self) -> Optional[Callable[[], None]]:
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

    def all_reduce(self) -> Optional[Tuple[int, Callable[[], None]]]:
        """Return the group's all-reduce of as many elements as the dense gradients have."""
        return None if self.ranks.backend is None else self.exchange.exchange_alone(self.exchanged())

    def exchanged(self) -> Sequence[Any]:
        """Return the tensors whose gradients, which are dense, the ranks exchange."""
        sparse = {id(module.weight) for module in self.model.modules() if getattr(module, "sparse", False)}
        return [p for p in self.model.parameters() if p.requires_grad and id(p) not in sparse]

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def close(self) -> None:
        """End the loader, and leave together with the other ranks."""
        if self._captured is not None:
            self._captured.release()
        super().close()

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        weights_of.load(self.named_tensors(), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return weights_of.read(self.named_tensors())
