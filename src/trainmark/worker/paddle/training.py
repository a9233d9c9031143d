"""A rank's training in PaddlePaddle, whatever it trains: one step after another, and what the run is made of."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import paddle
from paddle import nn

from ..core.choices import require_version
from ..core.facts import Expected, Facts
from ..core.feed import Feed
from ..core.gaps import refuse_gaps
from ..core.optimizers import Moments
from ..core.outcomes import INVALID, RunError
from ..core.place import Place
from ..core.settings import AdamRecipe, Settings
from ..core.training import Training
from ..core.window import EventMarks, HostMarks, Marks, slots_for
from . import weights as weights_of
from .compilers import BACKENDS, NONE, check_compiler, compile_learner, programs, trace
from .device import (
    algorithm_search,
    choose_device,
    device_name,
    limit_threads,
    math_threads,
    peak_memory_bytes,
    peak_memory_of,
)
from .distributed import Group
from .optimizer import make_schedule, sgd, steps_taken
from .precision import FP32, Precision, auto_cast, choose_precision, loss_scaler


def choose_machine(settings: Settings, place: Place) -> Tuple[str, Precision]:
    """Return this rank's device, ``cpu`` or ``cuda``, and the precision.

    What the device or this PaddlePaddle cannot do raises ``RunError`` (unsupported): before the ranks meet, so that no
    rank waits for one that has left.
    """
    require_version("PaddlePaddle", paddle.version.full_version, (3, 0))
    device = choose_device(settings.device, place)
    refuse_gaps(settings, place, device)
    precision = choose_precision(settings.precision, device)
    check_compiler(settings.compiler)
    return device, precision


def meet_ranks(settings: Settings, place: Place, device: str) -> Group:
    """Meet the other ranks, and return the ranks."""
    group = Group(place, device)
    if settings.threads:
        limit_threads(settings.threads, device)
    return group


def to_batch(*arrays: Any) -> Tuple[Any, ...]:
    """Return numpy's arrays on the device."""
    return tuple(map(paddle.to_tensor, arrays))


class PaddleTraining(Training):
    """Learner, optimizer, batches and marks of one rank.

    A task's subclass builds the learner, which maps a batch to outputs and loss, and gives it to ``take_over``; it
    writes ``named_tensors`` and what only its own networks have to tell.
    """

    ranks: Group

    def __init__(
        self,
        settings: Settings,
        group: Group,
        device: str,
        precision: Precision,
        to_batch: Callable[..., Any],
        feed: Optional[Feed],
    ) -> None:
        """Fetch the first batch, and seed Paddle's generators."""
        slots = slots_for(settings.steps)
        marks: Marks = HostMarks(slots)
        if device == "cuda":
            marks = EventMarks(slots, lambda: paddle.device.cuda.Event(enable_timing=True))
        super().__init__(settings, group, marks, to_batch, feed)
        self._device, self._precision = device, precision
        paddle.seed(settings.seed)

    def make_optimizer(self, parameters: List[Any], schedule: Any) -> Any:
        """Return the optimizer of these parameters: SGD, where a task does not say another."""
        return sgd(parameters, schedule, self.settings.recipe)

    def take_over(self, learner: nn.Layer, parameters: List[Any], specification: List[Any]) -> None:
        """Train these parameters by this learner; see ``compile_learner`` for ``specification``."""
        settings = self.settings
        self._learner, self._parameters = learner, parameters
        compile_learner(learner, settings.compiler, specification)
        self._compile_s: Optional[float] = None if settings.compiler == NONE else 0.0
        self.learner = self.ranks.wrap(learner)
        self._schedule = make_schedule(self.rates)
        self.optimizer = self.make_optimizer(parameters, self._schedule)
        self.scaler = loss_scaler(self._precision, settings.recipe)
        # One number a step, which stays on the device until the window is over.
        self._losses: List[Any] = []

    def train(self, index: int) -> None:
        """Train on the batch at hand."""
        self._schedule.step(index)
        if index == 0 and self._compile_s is not None:
            with auto_cast(self._precision):
                self._compile_s = trace(self._learner, self.passed_at_once())
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

    def passed_at_once(self) -> Tuple[Any, ...]:
        """Return what the learner is called with: the whole batch, where a task does not cut it."""
        return self.batch

    def _pass(self) -> Any:
        """Pass the batch at hand forward and backward; return its loss."""
        _, loss = self._forward()
        self._backward(loss)
        return loss.detach()

    def _backward(self, loss: Any) -> None:
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def _forward(self) -> Tuple[Any, Any]:
        """Return outputs and loss of the batch at hand."""
        with auto_cast(self._precision):
            return self.learner(*self.batch)

    def named_tensors(self) -> Dict[str, Any]:
        """Return the model's parameters and running statistics by the shared names."""
        raise NotImplementedError

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        weights_of.load(self.named_tensors(), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return weights_of.read(self.named_tensors())

    def steps_taken(self) -> Optional[int]:
        """Return how many steps the optimizer has counted, less those that overflowed; SGD counts none."""
        recipe = self.settings.recipe
        if not isinstance(recipe, AdamRecipe):
            return None
        if not self._losses:
            return 0
        return steps_taken(self.optimizer, next(iter(self.named_tensors().values())), recipe)

    def read_moments(self) -> Optional[Moments]:
        """Return what an adaptive optimizer keeps."""
        if not self._losses or not isinstance(self.settings.recipe, AdamRecipe):
            return None
        first, second = (
            weights_of.read(
                {
                    name: self.optimizer._get_accumulator(kind, tensor)
                    for name, tensor in self.named_tensors().items()
                }
            )
            for kind in ("moment1", "moment2")
        )
        taken = self.steps_taken()
        return Moments(len(self._losses) if taken is None else taken, first, second)

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU is never behind."""
        if self._device == "cuda":
            paddle.device.synchronize()

    def facts(self) -> Facts:
        """Return what the run is made of."""
        cuda = self._device == "cuda"
        return Facts(
            framework_version=paddle.version.full_version,
            device=self._device,
            device_name=device_name(self._device),
            parameters=sum(int(parameter.size) for parameter in self._parameters),
            threads=math_threads(),
            optimizer=type(self.optimizer).__name__,
            implementation="multi-tensor"
            if getattr(self.optimizer, "_use_multi_tensor", False)
            else "an operator each",
            loss_scaled=self.scaler is not None,
            compiler_mode=BACKENDS[self.settings.compiler],
            peak_memory_of=peak_memory_of(self._device),
            others={
                "cuda": paddle.version.cuda() if cuda else None,
                "cudnn": paddle.device.get_cudnn_version() if cuda else None,
                "algorithm_search": algorithm_search(self._device),
            },
        )

    def compiled_programs(self) -> int:
        """Return the programs of the first step; raise ``RunError`` (invalid) if they are not as asked for."""
        compiled, asked = programs(self._learner), int(self.settings.compiler != NONE)
        if compiled != asked:
            raise RunError(INVALID, f"the first step made {compiled} compiled programs, not {asked}")
        return compiled

    def compiled_program(self) -> Any:
        """Return the program of the batch at hand, as it was compiled."""
        concrete, _ = self._learner.forward.get_concrete_program(*self.batch)
        return concrete.main_program

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(self._precision.compute, FP32, self._precision.tf32)

    def compile_s(self) -> Optional[float]:
        """Return the seconds that making the program took, in the first step."""
        return self._compile_s

    def compilations(self) -> Optional[int]:
        """Return how many programs were made so far."""
        return programs(self._learner)

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss) for loss in paddle.stack(self._losses).tolist()]

    def products(self, size: int) -> Callable[[int], None]:
        """Return products by ``paddle.matmul``."""
        one, other = (paddle.randn([size, size]).astype(self._precision.compute) for _ in range(2))

        def times(count: int) -> None:
            with paddle.no_grad():
                for _ in range(count):
                    paddle.matmul(one, other)
            self.synchronize()

        return times

    def sums(self, values: int) -> Callable[[int], None]:
        """Return sums by ``add_``."""
        one, other = paddle.zeros([values]), paddle.zeros([values])

        def times(count: int) -> None:
            with paddle.no_grad():
                for _ in range(count):
                    one.add_(other)
            self.synchronize()

        return times

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)
