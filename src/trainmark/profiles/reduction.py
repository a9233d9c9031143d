"""A trace reduced to the seconds of one step by kind of operation."""

from collections.abc import Callable
from pathlib import Path

from trainmark.profiles.timeline import divide
from trainmark.profiles.torch_trace import read_torch_trace
from trainmark.profiles.trace import Trace, TraceError
from trainmark.profiles.xplane import read_xplane
from trainmark.schema.profile import Operation, StepProfile, WorkKind

MOST_OPERATIONS = 10

_READERS: dict[str, Callable[[Path, str], Trace]] = {
    "*.pt.trace.json": lambda path, _framework: read_torch_trace(path),
    "*.xplane.pb": read_xplane,
}
"""The reader of a trace file, by the pattern of its name; its second argument is the framework."""


def trace_files(folder: Path) -> list[Path]:
    """Return the trace files in a folder and the folders in it."""
    return sorted(path for pattern in _READERS for path in folder.rglob(pattern))


def read_profile(folder: Path, steps: int, framework: str) -> StepProfile:
    """Return the profile of the only trace in a folder, which has this many steps; raise ``TraceError`` otherwise."""
    found = [(path, read) for pattern, read in _READERS.items() for path in folder.rglob(pattern)]
    if len(found) != 1:
        raise TraceError(f"{folder}: has {len(found)} traces, not one")
    path, read = found[0]
    return reduce(read(path, framework), steps)


def reduce(trace: Trace, steps: int) -> StepProfile:
    """Return the mean step of a trace with this many steps."""
    shares = divide(trace.lanes, trace.start, trace.end)
    largest = sorted(shares.operations.items(), key=lambda item: -item[1])[:MOST_OPERATIONS]
    return StepProfile(
        framework=trace.framework,
        device=trace.device,
        steps=steps,
        step_s=(trace.end - trace.start) / steps,
        kinds={kind: shares.kinds[kind] / steps for kind in WorkKind if shares.kinds.get(kind)},
        communication_hidden_s=shares.hidden.get(WorkKind.COMMUNICATION, 0.0) / steps,
        copy_hidden_s=shares.hidden.get(WorkKind.COPY, 0.0) / steps,
        operations=tuple(
            Operation(name=name[:200], kind=kind, seconds=seconds / steps)
            for (name, kind), seconds in largest
        ),
    )
