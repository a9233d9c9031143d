"""Traces of torch.profiler: Chrome's trace format, host threads and the streams of GPUs."""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.profiles.classification import Classifier, Role, classifier
from trainmark.profiles.lanes import Span, flatten
from trainmark.profiles.timeline import Interval
from trainmark.profiles.trace import STEPS, Trace, TraceError
from trainmark.schema.profile import WorkKind

_ANNOTATION = "user_annotation"
_HOST = ("cpu_op", _ANNOTATION)
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver")

Events = Sequence[Mapping[str, Any]]


def read_torch_trace(path: Path) -> Trace:
    """Return the lanes of a trace file, and the stretch of its profiled steps; raise ``TraceError`` without them."""
    try:
        document = json.loads(path.read_bytes())
        events = [event for event in document["traceEvents"] if event.get("ph") == "X"]
        return _trace(events)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{path}: is not a trace of torch.profiler: {error}") from None


def _trace(events: Events) -> Trace:
    names = classifier("pytorch")
    steps = next((e for e in events if e["name"] == STEPS and e.get("cat") == _ANNOTATION), None)
    if steps is None:
        raise ValueError(f"it has no span {STEPS!r}")
    threads = {
        thread: flatten([_span(event) for event in group], names)
        for thread, group in _by_thread(e for e in events if e.get("cat") in _HOST).items()
    }
    main = threads.pop(steps["tid"])
    start, end = _times(steps)
    streams = _streams(events, names, threads | {steps["tid"]: main})
    if streams:
        waits = [one for one in main if one.kind is WorkKind.DATA_WAIT]
        return Trace("pytorch", "cuda", (*streams, waits), start, end)
    exchanges = [[one for one in lane if one.kind is WorkKind.COMMUNICATION] for lane in threads.values()]
    return Trace("pytorch", "cpu", (main, *filter(None, exchanges)), start, end)


def _times(event: Mapping[str, Any]) -> tuple[float, float]:
    """Return the start and the end of an event in seconds; the file has microseconds."""
    start = float(event["ts"])
    return start / 1e6, (start + float(event["dur"])) / 1e6


def _span(event: Mapping[str, Any]) -> Span:
    return Span(*_times(event), str(event["name"]), event.get("cat") != _ANNOTATION)


def _by_thread(events: Iterable[Mapping[str, Any]]) -> dict[Any, list[Mapping[str, Any]]]:
    threads = defaultdict(list)
    for event in events:
        threads[event.get("tid")].append(event)
    return threads


def _streams(
    events: Events, names: Classifier, threads: Mapping[Any, Sequence[Interval]]
) -> list[list[Interval]]:
    """Return the work of each stream of a GPU; none for a run on the CPU."""
    launches = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in _LAUNCHES and "correlation" in event.get("args", {})
    }
    starts = {thread: [one.start for one in lane] for thread, lane in threads.items()}

    def host_operation(event: Mapping[str, Any]) -> Interval | None:
        """Return the operation that launched a kernel."""
        launch = launches.get(event.get("args", {}).get("correlation"))
        lane = threads.get(launch.get("tid")) if launch is not None else None
        if launch is None or not lane:
            return None
        moment = _times(launch)[0]
        index = bisect_right(starts[launch.get("tid")], moment) - 1
        return lane[index] if index >= 0 and lane[index].end >= moment else None

    streams: dict[Any, list[Interval]] = defaultdict(list)
    for event in events:
        if event.get("cat") not in _DEVICE:
            continue
        args = event.get("args", {})
        kind = _kind(event, names, host_operation(event))
        streams[event.get("pid"), args.get("stream", event.get("tid"))].append(
            Interval(*_times(event), kind, str(event["name"]))
        )
    return list(streams.values())


def _kind(event: Mapping[str, Any], names: Classifier, launched_by: Interval | None) -> WorkKind:
    """Return the kind of a kernel: the optimizer's by its launch, others by their name, or else by their launch."""
    role, kind = names.classify(str(event["name"]))
    if event.get("cat") != "kernel":
        kind, role = WorkKind.COPY, Role.OPERATION
    if launched_by is None or kind is WorkKind.COMMUNICATION:
        return kind
    if launched_by.kind is WorkKind.OPTIMIZER:
        return WorkKind.OPTIMIZER
    fetched = launched_by.kind is WorkKind.DATA_WAIT
    return launched_by.kind if role is Role.UNKNOWN and not fetched else kind
