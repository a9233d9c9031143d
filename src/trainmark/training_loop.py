"""Measurement of a training loop by its own script: ``with trainmark.measure(unit="tokens") as m: … m.step(work)``.

It imports the standard library only, so a script needs nothing else of trainmark. The window starts after the warm-up
and ends with the last step. A GPU of PyTorch is timed by device events; nothing is synchronised between the ends.
"""

import atexit
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

EVENTS_SCHEMA = "trainmark.events/1"
EVENTS_VARIABLE = "TRAINMARK_EVENTS"
"""The variable with the path of the run's events, which ``trainmark run`` sets for the program's processes."""

STEP_LINES_VARIABLE = "TRAINMARK_STEP_LINES"
"""The variable by which ``trainmark run --against`` gets a line for each step: blocks are cut from lines."""

PROGRESS_SUFFIX = ".progress"
"""The end of the name of the file next to the events with the steps so far and the seconds of the window so far."""

_PROGRESS_EVERY_S = 1.0

_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_PEERS_WAIT_S = 60.0
"""Seconds that rank 0 waits for the windows of the other ranks: the slowest ends its loop at most a step later."""

_LATE_SHARE = 0.02
"""The share of a window that may pass between the last step and the synchronisation at its end."""

_written: dict[Path, "_MeasuredLoops"] = {}
"""The events files of this process: the first measured loop of a run is its measurement."""

_loops = 0


class Clock(Protocol):
    """A clock of step ends: ``mark`` notes one, ``seconds`` are the times between the notes after the loop."""

    def mark(self) -> None:
        """Note the end of a step."""

    def seconds(self) -> list[float]:
        """Return the seconds between consecutive notes; wait for the device first."""


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The measured window of a loop, or the reason for which it has none.

    ``throughput`` is in ``unit`` per second over all ranks and None without a window; ``work`` is the work of the
    window in ``unit``, ``window_s`` its length in seconds, ``steps`` its number of steps after ``warmup_steps``.
    ``doubt`` is a sentence about the number, ``reason`` the sentence about a missing number.
    """

    unit: str
    throughput: float | None
    work: int | None
    window_s: float | None
    steps: int
    warmup_steps: int
    doubt: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        """Return the result as text."""
        if self.throughput is None or self.window_s is None:
            return f"trainmark: no throughput: {self.reason}"
        doubt = f"; in doubt: {self.doubt}" if self.doubt else ""
        rate = f"{self.throughput:.0f}" if self.throughput >= 1e6 else f"{self.throughput:.6g}"
        return (
            f"trainmark: {rate} {self.unit}/s "
            f"({self.steps} steps in {self.window_s:.4g} s, after {self.warmup_steps} of warm-up){doubt}"
        )


class LoopMeasurement:
    """The measurement of one training loop, as a context: ``step`` ends a step, leaving the context ends the window.

    Example::

        with trainmark.measure(unit="tokens") as m:
            for batch in loader:
                train_step(batch)
                m.step(batch.numel())
        print(m.result.throughput, "tokens/s")
    """

    def __init__(
        self,
        unit: str,
        warmup: int,
        synchronize: Callable[[], object] | None,
        all_ranks: bool,
        events: str | os.PathLike[str] | None,
        quiet: bool,
    ) -> None:
        self._unit = unit.removesuffix("/s")
        if not self._unit:
            raise ValueError("unit: name the work of a step, such as 'tokens' or 'samples'")
        if warmup < 1:
            raise ValueError(f"warmup: {warmup} is less than 1: the first step is never part of the window")
        self._warmup, self._synchronize, self._all_ranks = warmup, synchronize, all_ranks
        self._events, self._quiet = events, quiet
        self._ends: list[float] = []
        self._work: list[int] = []
        self._clock: Clock | None = None
        self._window_at = 0.0
        self._pending: str | None = None
        self._others: dict[str, int] = {}
        self._progress: _ProgressFile | None = None
        self._prints_steps = False
        self._is_unwaited = False
        self._result: LoopResult | None = None

    @property
    def result(self) -> LoopResult:
        """The measured window; raises ``RuntimeError`` before the context is left."""
        if self._result is None:
            raise RuntimeError("the loop is not finished: leave the `with trainmark.measure()` block first")
        return self._result

    def __enter__(self) -> Self:
        """Start the loop."""
        atexit.register(self._end_if_interrupted)
        self._ends.append(time.perf_counter())
        self._prints_steps = STEP_LINES_VARIABLE in os.environ and not _place_among_ranks()[0]
        of_run = os.environ.get(EVENTS_VARIABLE)
        if of_run and Path(of_run) not in _written:
            self._progress = _ProgressFile(Path(of_run + PROGRESS_SUFFIX), self._ends[0] + _PROGRESS_EVERY_S)
        return self

    def step(self, work: int = 1) -> None:
        """Note the end of a training step that did ``work`` units of work: a whole number from 1.

        ``work`` counts this process alone, or all ranks if the context has ``all_ranks=True``. Raises ``ValueError``
        for another number, ``RuntimeError`` outside the context.
        """
        if self._result is not None or not self._ends:
            raise RuntimeError("step() belongs inside the `with trainmark.measure()` block")
        count = int(work)
        if count != work or count < 1:
            raise ValueError(f"step({work!r}): the work of a step is a whole number of {self._unit} from 1")
        if self._pending is not None and len(self._work) >= self._warmup:
            self._others[self._pending] = self._others.get(self._pending, 0) + 1
        self._pending = None
        self._work.append(count)
        if len(self._work) == self._warmup:
            self._start_window()
        elif self._clock is not None:
            self._clock.mark()
        now = time.perf_counter()
        self._ends.append(now)
        if self._prints_steps:
            sys.stdout.write(f"trainmark: step {len(self._work)}\n")
            sys.stdout.flush()
        if self._progress is not None and now >= self._progress.due_s:
            began = self._ends[self._warmup] if len(self._work) > self._warmup else now
            self._progress.note(len(self._work), now, now - began)

    def note_other_work(self, what: str) -> None:
        """Note that the time until the next step contains other work, such as ``an evaluation``.

        The number is in doubt if that is within the window. After the last step of the loop it has no effect.
        """
        self._pending = what

    def _start_window(self) -> None:
        cuda = _initialised_cuda()
        if self._synchronize is None and cuda is not None:
            self._clock = CudaClock(cuda)
        else:
            wait = self._synchronize or _wait_for_frameworks()
            self._clock = HostClock(wait)
            self._is_unwaited = wait is None and "mindspore" in sys.modules
        self._clock.mark()
        self._window_at = time.time()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the window, and write the events."""
        atexit.unregister(self._end_if_interrupted)
        if self._progress is not None:
            self._progress.remove()
        # An interrupt ends a training that has no end: `trainmark run --steps`, and Ctrl-C.
        if error is not None and not isinstance(error, KeyboardInterrupt):
            out_of_memory = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            self._result = self._without_number(reason)
            rank, _ = _place_among_ranks()
            self._write({"outcome": "oom" if out_of_memory else "failed", "reason": reason}, [], rank=rank)
            return
        self._finish()

    def _end_if_interrupted(self) -> None:
        """End the window at the end of an interrupted process: a trainer's interrupt does not reach its callbacks."""
        if self._result is None and getattr(sys, "last_type", None) is KeyboardInterrupt:
            self.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    def _finish(self) -> None:
        rank, world = _place_among_ranks()
        seconds = self._clock.seconds() if self._clock is not None else []
        own = _Window(sum(seconds), tuple(self._work[self._warmup :]))
        late = getattr(self._clock, "late_s", 0.0)
        # What was not measured is not written down: a host ahead of its device only knows when it started a step.
        times = [None] * len(seconds) if getattr(self._clock, "is_ahead", False) else seconds
        windows: Sequence[_Window] | str = [own]
        if world > 1 and not self._all_ranks:
            windows = _exchange(own, rank, world)
        if rank:
            self._result = self._without_number("rank 0 has the number of all ranks")
            return
        merged = _merge(windows) if not isinstance(windows, str) else windows
        if isinstance(merged, str) or not own.work:
            reason = merged if isinstance(merged, str) else self._too_short()
            self._result = self._without_number(reason)
            self._write({"outcome": "invalid", "reason": reason}, times)
        else:
            doubt = self._doubt(late, merged.seconds)
            work = sum(merged.work)
            self._result = LoopResult(
                self._unit,
                work / merged.seconds,
                work,
                merged.seconds,
                len(merged.work),
                self._warmup,
                doubt=doubt,
            )
            self._write(self._summary(merged, doubt), times, merged.work, world)
        if not self._quiet:
            sys.stdout.write(f"{self._result}\n")
            sys.stdout.flush()

    def _doubt(self, late_s: float, window_s: float) -> str | None:
        """Return a sentence about time in the window in which nothing was trained; None if there is none."""
        if self._is_unwaited:
            return (
                "MindSpore computes after its calls return, and nothing waited for it at the ends of the window: give "
                "measure() a function that does, such as synchronize=lambda: loss.asnumpy()"
            )
        found = [f"{what} ({count} times)" for what, count in self._others.items()]
        if found:
            return f"the window contains {' and '.join(found)}: measure the training without it"
        if late_s > _LATE_SHARE * window_s:
            return f"{late_s:.3g} s passed between the last step and the end of the block: leave it after the last step"
        return None

    def _too_short(self) -> str:
        steps = len(self._work)
        return (
            f"the loop had {steps} step{'' if steps == 1 else 's'}, and the first {self._warmup} are warm-up "
            "(measure(warmup=N) changes their number)"
        )

    def _without_number(self, reason: str) -> LoopResult:
        steps = max(0, len(self._work) - self._warmup)
        return LoopResult(self._unit, None, None, None, steps, self._warmup, reason=reason)

    def _summary(self, merged: "_Window", doubt: str | None) -> dict[str, Any]:
        is_constant = len(set(merged.work)) == 1
        return {
            "outcome": "ok",
            "window_s": merged.seconds,
            "window_at": self._window_at,
            "samples": sum(merged.work) if is_constant else len(merged.work),
            "work": {self._unit: sum(merged.work)},
            "throughput": sum(merged.work) / merged.seconds,
            "unit": f"{self._unit}/s",
            "first_step_s": self._ends[1] - self._ends[0],
            "suspect": [{"code": "not-waited" if self._is_unwaited else "other-work", "sentence": doubt}]
            if doubt
            else [],
        }

    def _write(
        self,
        summary: Mapping[str, Any],
        seconds: Sequence[float | None],
        work: Sequence[int] = (),
        world: int = 1,
        rank: int = 0,
    ) -> None:
        path = self._path()
        if path is None:
            self._doubt_first_loop()
            return
        path = path.with_name(f"{path.name}.rank{rank}") if rank else path
        # Steps of different work are counted as steps; their work is in the summary.
        batch = work[0] if work and len(set(work)) == 1 else 1
        lines = [_event("PARAMETER", self._parameters(batch, world))]
        warmup = _differences(self._ends)
        for number, took in enumerate([*warmup[: self._warmup], *seconds]):
            phase = "first_step" if number == 0 else "warmup" if number < self._warmup else "measured"
            timed = {} if took is None else {"step_time_s": took}
            lines.append(_event([0, number], {"phase": phase, **timed}))
        lines.append(_event([], summary))
        if path in _written:
            _written[path].doubts = tuple(summary.get("suspect", ()))
        write = _replace if rank or self._events is not None else _add_to_run
        try:
            write(path, "".join(lines))
        except OSError as error:
            _report_unwritten(path, error)

    def _parameters(self, batch: int, world: int) -> dict[str, Any]:
        framework = next(
            (name for name in ("torch", "tensorflow", "jax", "paddle", "mxnet") if name in sys.modules), None
        )
        found = {
            "schema": EVENTS_SCHEMA,
            "global_batch": batch,
            "world_size": world,
            "unit": f"{self._unit}/s",
            "warmup_steps": self._warmup,
            "framework": "pytorch" if framework == "torch" else framework,
            "framework_version": str(getattr(sys.modules.get(framework or ""), "__version__", "")) or None,
        }
        return {name: value for name, value in found.items() if value is not None}

    def _path(self) -> Path | None:
        """Return the events file: the given one, or that of the run; None outside a run, and for a second loop."""
        if self._events is not None:
            return Path(self._events)
        of_run = os.environ.get(EVENTS_VARIABLE)
        if not of_run or (path := Path(of_run)) in _written:
            return None
        _written[path] = _MeasuredLoops()
        return path

    def _doubt_first_loop(self) -> None:
        """Put the run's number in doubt: it is that of its first loop, and this is a further one."""
        of_run = os.environ.get(EVENTS_VARIABLE)
        if not of_run or (path := Path(of_run)) not in _written:
            return
        loops = _written[path]
        loops.count += 1
        sentence = (
            f"the script measured {loops.count} loops, and the number is that of the first: "
            "put one block around the loop that you want to measure"
        )
        doubts = [*loops.doubts, {"code": "several-loops", "sentence": sentence}]
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(_event([], {"suspect": doubts}))
        except OSError as error:
            _report_unwritten(path, error)


def measure(
    *,
    unit: str = "samples",
    warmup: int = 10,
    synchronize: Callable[[], object] | None = None,
    all_ranks: bool = False,
    events: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> LoopMeasurement:
    """Return a context that measures the training loop inside it; call ``step(work)`` at the end of each step.

    ``unit`` names the work of ``step``, such as ``tokens``; the throughput is in ``unit`` per second. The first
    ``warmup`` steps (1 or more) are left out. ``synchronize`` waits for the device, such as ``lambda: loss.asnumpy()``;
    PyTorch, JAX, MXNet and Paddle are waited for without it, and MindSpore puts the number in doubt. With
    ``all_ranks``, ``step`` counts the work of all ranks; otherwise rank 0 adds those of the ranks of
    ``torch.distributed``. ``events`` is the file of the events; by default that of the run under ``trainmark run``, and
    none elsewhere. At the end rank 0 prints one line to standard output, unless ``quiet``. Raises ``ValueError`` for an
    empty unit or ``warmup`` < 1.

    Example::

        with trainmark.measure(unit="tokens") as m:
            for batch in loader:
                train_step(batch)
                m.step(batch.numel())
    """
    return LoopMeasurement(unit, warmup, synchronize, all_ranks, events, quiet)


class HostClock:
    """The host's clock; ``synchronize`` waits for the device at both ends of the window (None: nothing to wait for)."""

    def __init__(self, synchronize: Callable[[], object] | None) -> None:
        self._synchronize = synchronize
        self._marks: list[float] = []
        self.late_s = 0.0
        """Seconds between the last step and the synchronisation, which the window contains."""
        self.is_ahead = False
        """Whether the device was more than one step behind the host at the end, so that the notes are no step ends."""

    def mark(self) -> None:
        """Note the end of a step; the first note, which starts the window, waits for the device."""
        if not self._marks and self._synchronize is not None:
            self._synchronize()
        self._marks.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Return the seconds between the notes; the last step ends when the device has finished."""
        if self._synchronize is not None and len(self._marks) > 1:
            waits_at = time.perf_counter()
            self.late_s = waits_at - self._marks[-1]
            self._synchronize()
            self._marks[-1] = time.perf_counter()
            mean_step_s = (self._marks[-1] - self._marks[0]) / (len(self._marks) - 1)
            self.is_ahead = self._marks[-1] - waits_at > mean_step_s
        return _differences(self._marks)


class CudaClock:
    """Events of a CUDA device on its current stream: a note costs microseconds, and the device is not waited for."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Note the end of a step; the first note, which starts the window, waits for the device."""
        if not self._marks:
            self._cuda.synchronize()
        event = self._cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def seconds(self) -> list[float]:
        """Return the seconds between the notes by the device's clock."""
        self._cuda.synchronize()
        return [before.elapsed_time(after) / 1000 for before, after in pairwise(self._marks)]


@dataclass(slots=True)
class _MeasuredLoops:
    """The loops of a run so far, and the doubts about the first one."""

    count: int = 1
    doubts: tuple[Mapping[str, str], ...] = ()


class _ProgressFile:
    """The file by which ``trainmark run --steps`` ends a loop that prints nothing; rank 0 writes a line a second."""

    def __init__(self, path: Path, due_s: float) -> None:
        self._path, self._file = path, -1
        self.due_s = due_s
        """When the next line is due, by ``time.perf_counter``."""

    def note(self, steps: int, now_s: float, window_s: float) -> None:
        """Write the number of steps and the seconds of the window so far; give up if it cannot be written."""
        self.due_s = now_s + _PROGRESS_EVERY_S
        try:
            if self._file < 0:
                if _place_among_ranks()[0]:
                    self.due_s = float("inf")
                    return
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            os.pwrite(self._file, f"{steps:15d} {window_s:15.3f}\n".encode(), 0)
        except OSError:
            self.due_s = float("inf")

    def remove(self) -> None:
        """Close and remove the file."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
                self._path.unlink()


@dataclass(frozen=True, slots=True)
class _Window:
    """The window of one rank: its seconds, and the work of each of its steps."""

    seconds: float
    work: tuple[int, ...]


def _merge(windows: Sequence[_Window]) -> _Window | str:
    """Return the window of all ranks (the slowest's time, the work of each step added), or the reason against it."""
    if len({len(window.work) for window in windows}) > 1:
        counts = ", ".join(str(len(window.work)) for window in windows)
        return f"the ranks measured different numbers of steps ({counts})"
    work = tuple(sum(step) for step in zip(*(window.work for window in windows), strict=True))
    return _Window(max(window.seconds for window in windows), work)


def _exchange(own: _Window, rank: int, world: int) -> list[_Window] | str:
    """Return the windows of all ranks on rank 0, its own on the others; or the reason for which rank 0 has them not.

    The ranks use the key-value store of ``torch.distributed``: a collective would hang if only some ranks measure.
    """
    global _loops
    number, _loops = _loops, _loops + 1
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return (
            f"there are {world} ranks and no process group of torch.distributed to add their work; "
            "give step() the work of all ranks, and measure() all_ranks=True"
        )
    store: Any = distributed.distributed_c10d._get_default_store()
    keys = [f"trainmark/{number}/{one}" for one in range(world)]
    store.set(keys[rank], json.dumps([own.seconds, own.work]))
    if rank:
        return [own]
    try:
        store.wait(keys, timedelta(seconds=_PEERS_WAIT_S))
    except Exception as error:  # the store's classes differ between versions of PyTorch
        return f"not all of the {world} ranks reported their window ({type(error).__name__}): measure() on every rank"
    found = (json.loads(store.get(key)) for key in keys)
    return [_Window(seconds, tuple(work)) for seconds, work in found]


def _place_among_ranks() -> tuple[int, int]:
    """Return this process's rank and the number of ranks, by ``torch.distributed`` or the launcher's variables."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    for rank, world in _RANK_VARIABLES:
        values = os.environ.get(rank, ""), os.environ.get(world, "")
        if all(value.isdecimal() for value in values):
            return int(values[0]), int(values[1])
    return 0, 1


def _initialised_cuda() -> Any:
    """Return ``torch.cuda`` if the program uses it; None otherwise."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _wait_for_frameworks() -> Callable[[], object] | None:
    """Return the function that waits for what the loaded frameworks still compute; None if there is nothing.

    None of them is imported here, and none starts a device that the program does not use.
    """
    possible = (_torch_synchronize(), _jax_synchronize(), _mxnet_synchronize(), _paddle_synchronize())
    waits = [wait for wait in possible if wait is not None]
    return (lambda: [wait() for wait in waits]) if waits else None


def _jax_synchronize() -> Callable[[], object] | None:
    """Return the function that waits for all arrays of JAX: its calls return before they are computed."""
    jax = sys.modules.get("jax")
    is_started = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    if jax is None or not hasattr(jax, "live_arrays") or (is_started is not None and not is_started()):
        return None
    return lambda: jax.block_until_ready(jax.live_arrays())


def _mxnet_synchronize() -> Callable[[], object] | None:
    """Return the function that waits for MXNet's engine, which computes later on CPUs too."""
    return getattr(getattr(sys.modules.get("mxnet"), "nd", None), "waitall", None)


def _paddle_synchronize() -> Callable[[], object] | None:
    """Return the function that waits for Paddle's GPU; None on CPUs, where a call returns when it is computed."""
    device = getattr(sys.modules.get("paddle"), "device", None)
    if device is None or not device.get_device().startswith("gpu"):
        return None
    return getattr(device, "synchronize", None)


def _torch_synchronize() -> Callable[[], object] | None:
    """Return the function that waits for PyTorch's accelerator other than CUDA; None if there is none."""
    accelerator = getattr(sys.modules.get("torch"), "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        return None
    return getattr(accelerator, "synchronize", None)


def _differences(marks: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(marks)]


def _event(step: str | list[int], data: Mapping[str, Any]) -> str:
    return f"DLLL {json.dumps({'step': step, 'data': data})}\n"


def _report_unwritten(path: Path, error: OSError) -> None:
    sys.stderr.write(f"trainmark: {path}: the events cannot be written: {error.strerror}\n")


def _add_to_run(path: Path, text: str) -> None:
    """Write the events of a run; if another process of it has written a number, put that in doubt instead."""
    own = path.with_name(f".{path.name}.{os.getpid()}.first")
    _replace(own, text)
    try:
        os.link(own, path)  # of several processes that finish at once, one succeeds
    except OSError:
        summary = _summary_in(path)
        if summary.get("outcome") != "ok":
            own.replace(path)
            return
        with path.open("a", encoding="utf-8") as file:
            file.write(_event([], {"suspect": [*summary.get("suspect", ()), _SEVERAL_PROCESSES]}))
    own.unlink()


_SEVERAL_PROCESSES = {
    "code": "several-loops",
    "sentence": "several processes of the run measured a loop each, and the number is that of the first to finish: "
    "measure in one of them, or let all be ranks of torch.distributed, whose work is added",
}


def _summary_in(path: Path) -> dict[str, Any]:
    """Return what the events in a file say about the whole run; empty if there is no such file."""
    found: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line.removeprefix("DLLL "))
            found |= event["data"] if event["step"] == [] else {}
    return found


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole: a reader finds all events or none."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
