"""The worker from its flags to its exit code: open, measure, gather, write; and every way in which that can fail.

Exit codes: 0 the run is whole; 2 the flags or the launcher's variables cannot be used; 3 any other outcome than
``ok``, whose sentence stands in the events and on standard error; 128 + n ended by signal n.
"""

import contextlib
import importlib
import multiprocessing
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import report
from .arguments import parse
from .choices import one_of
from .equivalence import observe_training
from .folders import find_task, import_backend, import_trainer
from .outcomes import FAILED, OOM, Known, RunError, classify, first_sentence
from .place import Place, place_from
from .post_window import verify
from .probes import profile_steps, share_of_peak, time_in_isolation
from .queues import RankLoading, check_decoding, check_queues
from .report import PARAMETER, EventWriter
from .settings import NATIVE, Settings
from .signals import exit_on_signal
from .task import Verified
from .training import Training, steps_after_window
from .window import Timeline, measure

EXIT_USAGE, EXIT_STOPPED = 2, 3
WAITS = "TRAINMARK_WAITS"  # the variable for the working directory of a worker that is started before its run
COMPILED = "TRAINMARK_BYTECODE"  # the variable for the folder that the runs of an environment share


def main(arguments: Sequence[str], *, leaves: bool = False) -> int:
    """Run the worker and return its exit code; after a failure the process ends here, without clean-up.

    A failed rank must not wait for the others in a collective's destructor, so it leaves by ``os._exit``. With
    ``leaves`` a whole run of one rank on synthetic data, which left nothing to clean up, ends here too.
    """
    try:
        place = place_from()
    except ValueError as error:
        print(f"trainmark-worker: {error}", file=sys.stderr)
        return EXIT_USAGE
    settings = parse(arguments, place.world_size)
    exit_on_signal(place.rank)
    _enter_shared_folder()
    _wait_for_turn(settings)
    failures: Sequence[Known] = ()
    events: EventWriter | None = None
    training: Training | None = None
    ending = threading.Lock()

    def end(stopped: RunError) -> None:
        # Never released: the first word is the last one.
        ending.acquire()
        _say(stopped, settings, place, events)
        for child in multiprocessing.active_children():
            child.terminate()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_STOPPED)

    _let_threads_end_the_run(end)
    try:
        events = _open_events(settings.events) if place.rank == 0 else EventWriter(None)
        framework = import_backend(settings.framework)
        failures = framework.FAILURES
        trainer = import_trainer(settings.framework, settings.task)
        failures = getattr(trainer, "FAILURES", failures)
        training = _open_training(settings, place, framework, trainer)
        if settings.equivalence:
            _observe(training, settings, events)
        else:
            _run(training, settings, events)
        training.close()
    except Exception as error:
        # torch raises in a handler of its own when one of its loader processes ends: not while the outcome is written.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        stopped = classify(error, failures)
        if stopped is None:
            traceback.print_exc()
            stopped = RunError(FAILED, first_sentence(error))
        end(stopped if training is None or stopped.outcome != OOM else _with_peak(stopped, training))
    if leaves and settings.synthetic and place.world_size == 1:
        _leave()
    return 0


def _open_training(settings: Settings, place: Place, framework: Any, trainer: Any) -> Training:
    """Check the settings of all frameworks, limit the memory, and open the training with the steps after its window."""
    find_task(settings.task).refuse(settings)
    if settings.memory_limit is not None:
        # Not RLIMIT_AS: address space that is only reserved or that maps a library is not memory. And not before
        # the framework was imported: a library that gets no memory while it loads often just crashes.
        resource.setrlimit(resource.RLIMIT_DATA, (settings.memory_limit, settings.memory_limit))
    collectives, exchanges = (getattr(framework, name, (NATIVE,)) for name in ("COLLECTIVES", "GRADIENTS"))
    one_of(settings.framework, "collective", settings.collective, collectives)
    one_of(settings.framework, "exchange of gradients", settings.gradients, exchanges)
    more = 0 if settings.equivalence else settings.profile or steps_after_window(settings)
    witnesses = 0 if settings.profile else more
    whole = replace(settings, steps=settings.steps + more, witness_steps=witnesses)
    training: Training = trainer.open_training(whole, place)
    return training


def _wait_for_turn(settings: Settings) -> None:
    """Import what the run needs and wait for a byte on standard input, if the run before is not over yet.

    Nothing else is done until then: no device, file or port is opened. The process ends here if there comes no byte.
    """
    folder = os.environ.pop(WAITS, None)
    if folder is None:
        return
    with contextlib.suppress(Exception):
        # A failure is remembered, and ends the run when it has begun.
        framework = import_backend(settings.framework)
        import_trainer(settings.framework, settings.task)
        for name in getattr(framework, "imported_later", lambda _: ())(settings):
            importlib.import_module(name)
    if not os.read(0, 1):
        os._exit(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    _enter_shared_folder()


def _leave() -> None:
    """End the process and its children at once.

    On an H200 an interpreter took 0.8 s to free what PyTorch had imported, and 2.4 s where Inductor had compiled: at
    the end it first starts the processes of its compilers that it had not needed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    own = str(os.getpid())
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Its second field is a name in parentheses, its fourth the parent.
            if stat.read_text().rpartition(")")[2].split()[1] == own:
                os.kill(int(stat.parent.name), signal.SIGKILL)
    os._exit(0)


def _enter_shared_folder() -> None:
    """Train in the folder for compiled modules, if there is one, instead of the run's own.

    CUDA finds what it compiled for cuDNN only from the same working directory: in a new one the search for convolutions
    compiles everything again, 12 to 15 s instead of 3 to 5 for ResNet-50 (H100, cuDNN of PyTorch 2.11).
    """
    folder = os.environ.get(COMPILED)
    if folder:
        with contextlib.suppress(OSError):
            Path(folder).mkdir(parents=True, exist_ok=True)
            os.chdir(folder)


def _let_threads_end_the_run(end: Callable[[RunError], None]) -> None:
    """Let a ``RunError`` that a thread raises end the run: the main thread may be waiting in C++ for a lost rank."""
    default = threading.excepthook

    def end_by(failure: Any) -> None:
        if isinstance(failure.exc_value, RunError):
            end(failure.exc_value)
        default(failure)

    threading.excepthook = end_by


def _run(training: Training, settings: Settings, events: EventWriter) -> None:
    is_first, measured_steps = training.ranks.place.rank == 0, settings.steps - settings.warmup_steps

    def after_first_step() -> None:
        events.write(PARAMETER, report.parameters(training, settings, training.actual()))

    def beat(done: int) -> None:
        print(f"step {done}/{settings.steps}", flush=True)

    if is_first:
        print("first step", flush=True)
    heartbeat = beat if is_first else None
    timeline = measure(training, settings.steps, settings.warmup_steps, after_first_step, heartbeat)
    if settings.profile:
        plain_s = timeline.window_ns / 1e9 / measured_steps
        profile = {**profile_steps(training, settings), "plain_step_s": plain_s}
        events.write([], {"outcome": "ok", "profile": profile})
        return
    losses = training.losses()[: settings.steps]
    totals, work, found = _gathered(training, settings, timeline)
    waits, epoch, batch = training.data_waits_s, training.epoch_samples, training.global_batch
    events.write_all(report.step_events(settings, timeline, losses, waits, epoch, batch))
    verified = verify(training, settings)
    window_s = max(rank.window_ns for rank in totals) / 1e9
    share = share_of_peak(training, settings, sum(rank.samples for rank in totals) / window_s)
    isolated = time_in_isolation(training, window_s / measured_steps)
    found.add(Verified({"after_window": verified.data, **share, **isolated}, verified.doubts))
    task, memory_of = training.task, training.facts().peak_memory_of
    events.write([], report.summary(settings, task, timeline, totals, losses, memory_of, found, work))


def _gathered(
    training: Training, settings: Settings, timeline: Timeline
) -> tuple[list[report.RankTotals], dict[str, int], Verified]:
    """Exchange the ranks' windows, their work by its counters, and what their loaders did. All ranks call it."""
    first, end, feed, batch = settings.warmup_steps, settings.steps, training.feed, settings.batch_per_device
    compiled = timeline.compiled_in_window
    own = report.RankTotals(
        window_ns=timeline.window_ns,
        samples=batch * (end - first),
        peak_memory_bytes=training.peak_memory_bytes(),
        digest=training.digest() if training.ranks.place.world_size > 1 else 0,
        compiled_in_window=report.UNSEEN if compiled is None else compiled,
        window_at_us=int(timeline.window_at * 1e6),
    )
    totals = [report.RankTotals(*values) for values in training.gather(own)]
    counted = training.counted(first, end)
    counts = [sum(values) for values in zip(*training.gather(list(counted.values())))] if counted else []
    loaders = []
    if timeline.loading is not None and feed.ahead is not None:
        waited_us = round(sum(training.data_waits_s[first:end]) * 1e6)
        states = [count for state in timeline.loading for count in state]
        window = [waited_us, timeline.window_ns // 1000, batch, feed.uncounted]
        gathered = training.gather([round(feed.ahead * 1000), *states, *window])
        loaders = [RankLoading(*values) for values in gathered]
    found = check_queues(loaders)
    if feed.unreadable is not None:
        found.add(check_decoding(training.gather_one(len(feed.unreadable)), feed.unreadable))
    return totals, dict(zip(counted, counts)), found


def _observe(training: Training, settings: Settings, events: EventWriter) -> None:
    try:
        observed = observe_training(training, settings)
    except (OSError, ValueError) as error:
        raise RunError(FAILED, f"the equivalence input cannot be used: {first_sentence(error)}") from error
    events.write(PARAMETER, {**training.describe(), "actual": training.actual()})
    events.write([], {"outcome": "ok", "equivalence": observed})


def _open_events(path: str | None) -> EventWriter:
    try:
        return EventWriter(sys.stdout if path is None else Path(path).open("w", encoding="utf-8"))
    except OSError as error:
        raise RunError(FAILED, f"cannot write the events to {path}: {error.strerror}") from error


def _with_peak(stopped: RunError, training: Training) -> RunError:
    """Return how a run ended that had no more memory, with the most that was in use before."""
    try:
        peak = training.peak_memory_bytes()
        used = f"{peak / 2**30:.2f} GiB was the most in use before ({training.facts().peak_memory_of})"
    except Exception:
        # What is out of memory may be unable to say even that.
        return stopped
    return RunError(OOM, f"{stopped.reason}; {used}", peak_memory_bytes=peak)


def _say(stopped: RunError, settings: Settings, place: Place, events: EventWriter | None) -> None:
    """Write the outcome as an event (a rank other than 0 into a file of its own) and as a line on stderr."""
    data = {"outcome": stopped.outcome, "reason": stopped.reason, "rank": place.rank}
    if stopped.peer_lost:
        data["peer_lost"] = True
    if stopped.peak_memory_bytes is not None:
        data["peak_memory_bytes"] = stopped.peak_memory_bytes
    of = f"trainmark-worker: rank {place.rank}:"
    try:
        if place.rank > 0 and settings.events is not None:
            events = _open_events(f"{settings.events}.rank{place.rank}")
        if events is not None:
            events.write([], data)
    except (OSError, RunError) as error:
        print(f"{of} the outcome is not in the events: {error}", file=sys.stderr)
    print(f"{of} {stopped}", file=sys.stderr)
