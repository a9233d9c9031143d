"""MXNet as a backend, with Gluon: precision, the engine's progress, SGD out of the fused update, the step."""

import ctypes
import os
import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.base import _LIB, check_call
from mxnet.contrib import amp
from mxnet.gluon import HybridBlock

from ...core.choices import find_precision, one_of, refuse_gaps
from ...core.facts import PROCESS, Facts, count_parameters, cpu_name, cpu_text, peak_resident_bytes
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.place import Place
from ...core.precision import Precision
from ...core.settings import Recipe, Settings
from ...core.training import Training
from ...core.window import DeviceTimers, HostTimers
from . import collectives
from .collectives import COLLECTIVES, Collective

PRECISIONS = ("fp32", "amp-fp16", "amp-bf16")


def choose_precision(name: str) -> Precision:
    """Return the precision, and switch MXNet to it permanently; raise ``RunError`` if the CPU lacks it.

    AMP replaces MXNet's operators by ones that cast their inputs, so it comes before the model.
    """
    precision = find_precision("MXNet", name, PRECISIONS)
    # The instructions of oneDNN's BF16 kernels.
    if name == "amp-bf16" and "avx512bw" not in cpu_text():
        raise RunError(UNSUPPORTED, "MXNet's BF16 needs a CPU with AVX-512, which this one does not have")
    # MXNet has no switch for TF32: NVIDIA's libraries read this one when they are first used.
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    if precision.mixed:
        amp.init(target_dtype=precision.compute)
    return precision


class LossScale:
    """Scales the loss for FP16: by a number, or by AMP's own scaler, which reads a flag from the GPU each step."""

    def __init__(self, precision: Precision, recipe: Recipe, trainer: Any) -> None:
        self._trainer, self.dynamic = trainer, precision.scaled and recipe.loss_scale is None
        self.fixed: float | None = recipe.loss_scale if precision.scaled else None
        self.divisor = self.fixed or 1.0
        """The divisor of the gradients in the update; AMP's scaler sets it in the trainer."""
        if self.dynamic:
            amp.init_trainer(trainer)

    @contextmanager
    def scaled(self, loss: Any) -> Iterator[Any]:
        """Yield the loss for the backward pass."""
        if self.dynamic:
            with amp.scale_loss(loss, self._trainer) as scaled:
                yield scaled
        else:
            yield loss if self.fixed is None else loss * self.fixed


def type_name(dtype: Any) -> str:
    """Return ``float32``, ``float16`` or ``bfloat16``: for numpy the last is a structure."""
    known = np.dtype(dtype)
    return "bfloat16" if known.names else str(known)


_ALMOST_NOTHING = 1e-30  # in place of a momentum of 0, for which MXNet would call its update without momentum


class Rate:
    """Sets the learning rate of each step.

    The recipe is v = m v + (g + d w), w = w - l v. MXNet has the rate in the velocity, V = m V - l (g + d w),
    w = w + V, which is the same with V = -l v as long as the rate does not change. When it does, V of the step
    before still has the old rate in it; a momentum of m l / l_before puts the new one in.
    """

    def __init__(self, trainer: Any, momentum: float) -> None:
        self._trainer, self._momentum = trainer, momentum
        self._before: float | None = None

    def set(self, rate: float) -> None:
        """Train the next step with this rate. A velocity does not outlive a rate of 0."""
        before = rate if self._before is None else self._before
        ratio = rate / before if before else 0.0
        self._trainer.set_learning_rate(rate)
        if self._momentum:
            self._trainer.optimizer.momentum = self._momentum * ratio or _ALMOST_NOTHING
        self._before = rate


_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# FnProperty of mxnet/engine.h: run by the thread that computes, or by the one for urgent work.
_NORMAL, _PRIORITIZED = 0, 3


class _Context(ctypes.Structure):
    """``mxnet::Context``: the type of a device (1 is a CPU) and its number."""

    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class Progress(DeviceTimers):
    """DeviceTimers of MXNet's engine, without waiting for each step and without running far ahead of it.

    MXNet is asynchronous on a CPU too: an operator is handed to the engine, which runs it once the arrays that it reads
    are written. The C interface takes other functions in the same way (``MXEnginePushSyncND`` of mxnet/c_api.h;
    Horovod uses its sibling). A function that reads all weights runs when the update of the step is done, in a thread
    that the engine has for urgent work, and notes the time there. The next step does not wait for it.

    A function that depends on a failed operator is never called. But the engine calls the function's *deleter* in
    either case. So the host waits for the deleter, in Python, where a lost rank can end the waiting.
    """

    def __init__(self, steps: int, weights: Sequence[Any]) -> None:
        """Make room for the marks of a run; a step is done when all ``weights`` are written."""
        self._timers, self._weights = HostTimers(steps), weights
        self.marked = self._pushed = self._over = 0  # ``marked``: the ticket of the last mark, to wait with
        self._problem: RunError | None = None
        self._changed = threading.Condition()
        # The engine has bare pointers to these two.
        self._note, self._give_up = _FUNCTION(self._noted), _DELETER(self._given_up)

    def mark(self, slot: int) -> None:
        """Note the time in ``slot``, in the engine, once all weights are written."""
        self.marked = self._push(slot + 1, self._weights)

    def ticket(self, *arrays: Any) -> int:
        """Return a ticket to wait with until the weights and ``arrays`` are written, or given up."""
        return self._push(0, [*self._weights, *arrays])

    def wait_to_read(self, ticket: int) -> None:
        """Wait for a ticket; raise the problem of ``fail``, if that comes first."""
        with self._changed:
            self._changed.wait_for(lambda: self._over >= ticket or self._problem is not None)
            if self._problem is not None:
                raise self._problem

    def fail(self, problem: RunError) -> None:
        """Raise ``problem`` in every wait, now or later. Called by another thread."""
        with self._changed:
            self._problem = self._problem or problem
            self._changed.notify_all()

    def seconds_between(self, earlier: int, later: int) -> float:
        return self._timers.seconds_between(earlier, later)

    def _push(self, parameter: int, arrays: Sequence[Any]) -> int:
        push(self._note, self._give_up, parameter, arrays, _PRIORITIZED)
        self._pushed += 1
        return self._pushed

    def _noted(self, _context: Any, parameter: int | None) -> None:
        if parameter:
            self._timers.mark(parameter - 1)

    def _given_up(self, _parameter: int | None) -> None:
        with self._changed:
            self._over += 1
            self._changed.notify_all()


def engine_threads() -> int:
    """Return the number of threads that OpenMP would start for an operator, by a thread of the engine that computes."""
    answer: list[int] = []
    openmp, done = ctypes.CDLL("libgomp.so.1"), threading.Event()
    note = _FUNCTION(lambda _context, _parameter: answer.append(int(openmp.omp_get_max_threads())))
    give_up = _DELETER(lambda _parameter: done.set())
    push(note, give_up, 0, (), _NORMAL)
    done.wait()
    return answer[0]


def push(function: Any, deleter: Any, parameter: int, arrays: Sequence[Any], kind: int) -> None:
    """Hand a C function to the engine, to be called with ``parameter`` once all ``arrays`` are written."""
    handles = (ctypes.c_void_p * len(arrays))(*[array.handle for array in arrays])
    check_call(
        _LIB.MXEnginePushSyncND(
            function,
            ctypes.c_void_p(parameter),
            deleter,
            ctypes.byref(_Context(1, 0)),
            handles,
            ctypes.c_int(len(arrays)),
            None,
            ctypes.c_int(0),
            ctypes.byref(ctypes.c_int(kind)),
            ctypes.c_int(0),
            b"trainmark",
        )
    )


def trainable(model: HybridBlock) -> list[Any]:
    """Return the parameters that have a gradient; running statistics are parameters without one in Gluon."""
    return [parameter for parameter in model.collect_params().values() if parameter.grad_req != "null"]


HYBRIDIZE = "hybridize"
COMPILERS: dict[str, str | None] = {"none": None, HYBRIDIZE: "static_alloc, static_shape"}


class MXNetTraining(Training):
    """Model, trainer, batches and marks of one rank; a model's subclass has ``make_model`` and ``forward``."""

    def __init__(self, settings: Settings, place: Place) -> None:
        if not mx.__version__.startswith("1.9."):
            raise RunError(UNSUPPORTED, f"MXNet 1.9 is needed; this is {mx.__version__}")
        self.context = collectives.choose_context(settings.device, place)
        self.destination: tuple[Any, ...] = (self.context,)
        refuse_gaps(settings, place, "cpu" if self.context.device_type == "cpu" else "cuda")
        one_of("MXNet", "compiler", settings.compiler, COMPILERS)
        if settings.collective == "horovod" and place.world_size > 1:
            collectives.import_horovod()
        self.precision = choose_precision(settings.precision)
        feed = None if settings.synthetic else self.open_loader(settings, place)
        mx.random.seed(settings.seed)
        self.model, self.loss = self.make_model(settings)
        if settings.compiler == HYBRIDIZE:
            for network in (self.model, self.loss):
                network.hybridize(static_alloc=True, static_shape=True)
        weights = [parameter.data() for parameter in trainable(self.model)]
        self._progress = Progress(settings.steps, weights)
        collective = Collective(place)
        if place.world_size > 1:
            collective = COLLECTIVES[settings.collective](place, self._progress.fail)
        super().__init__(settings, collective, feed, self._progress)

        recipe = settings.recipe
        # Gluon lets every parameter decay whose ``wd_mult`` is not 0.
        sgd = {"learning_rate": recipe.learning_rate, "momentum": recipe.momentum, "wd": recipe.weight_decay}
        self.trainer = collective.trainer(self.model.collect_params(), sgd)
        self.loss_scale = LossScale(self.precision, recipe, self.trainer)
        self._divisor = collective.divisor * self.loss_scale.divisor
        self._rate = Rate(self.trainer, recipe.momentum)
        # The losses stay in one array on the device, until the window is over.
        self._losses = mx.nd.full((settings.steps,), float("nan"), ctx=self.context)

    @abstractmethod
    def make_model(self, settings: Any) -> tuple[HybridBlock, HybridBlock]:
        """Return the model, in which parameters with a ``wd_mult`` of 0 do not decay, and its loss."""

    @abstractmethod
    def forward(self) -> tuple[Any, Any]:
        """Return outputs and loss of the current batch."""

    def step(self, index: int) -> None:
        """Hand all of the step to the engine, fetch the next batch, and wait for the step before.

        So the engine always has a whole step to do, and never more than two.
        """
        super().step(index)
        self._progress.wait_to_read(self._progress.marked)

    def train(self, index: int) -> None:
        self._rate.set(self.rates[index])
        with autograd.record():
            _, loss = self.forward()
            with self.loss_scale.scaled(loss) as scaled:
                autograd.backward(scaled)
        self.trainer.step(self._divisor)
        self._losses[index : index + 1] = loss

    def synchronize(self) -> None:
        """Wait until the engine has done everything; errors of its operators are raised here."""
        self._progress.wait_to_read(self._progress.ticket(self._losses))
        mx.nd.waitall()
        self._losses.wait_to_read()

    def facts(self) -> Facts:
        """Return the facts of the run; MXNet has no names of GPUs."""
        cpu = self.context.device_type == "cpu"
        return Facts(
            framework_version=mx.__version__,
            device="cpu" if cpu else "cuda",
            device_name=cpu_name() if cpu else "GPU",
            parameters=count_parameters(trainable(self.model)),
            threads=engine_threads(),
            implementation="sgd, in the workers",
            compiler_mode=COMPILERS[self.settings.compiler],
            peak_memory_of=PROCESS if cpu else "device, in use after the run",
            others={
                "onednn": mx.runtime.Features().is_enabled("MKLDNN"),
                "algorithm_search": None if cpu else collectives.algorithm_search(),
            },
        )

    def own_losses(self) -> list[float]:
        return [float(loss) for loss in self._losses.asnumpy()]

    def peak_memory_bytes(self) -> int:
        if self.context.device_type == "cpu":
            return peak_resident_bytes()
        free, whole = mx.context.gpu_memory_info(self.context.device_id)
        return int(whole - free)
