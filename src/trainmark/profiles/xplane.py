"""Traces of XLA's profiler, which JAX and TensorFlow share: planes of lines of events (``*.xplane.pb``).

The few fields that are needed:

    XSpace 1: planes
    XPlane 2: name, 3: lines, 4: names of events (a map entry: 1: id, 2: XEventMetadata with 2: name, 5: stats)
    XLine  2: name, 3: start in ns, 4: events
    XEvent 1: id of the name, 2: offset in ps, 3: duration in ps
    XStat  6: bytes; of an event of the plane "/host:metadata": the program that XLA has compiled
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from trainmark.profiles.classification import classifier
from trainmark.profiles.hlo import fusion_labels
from trainmark.profiles.lanes import Span, flatten
from trainmark.profiles.trace import STEPS, Trace, TraceError
from trainmark.profiles.wire import Value, fields, message_of, text_of
from trainmark.schema.profile import WorkKind

_HOST, _DEVICE, _STREAM, _METADATA = "/host:CPU", "/device:GPU", "Stream", "/host:metadata"
_WORKERS = "tf_"
"""The first characters of the names of the threads that compute."""

Line = tuple[str, list[Span]]


def read_xplane(path: Path, framework: str) -> Trace:
    """Return the lanes of a trace file, and the stretch of its profiled steps; raise ``TraceError`` without them."""
    try:
        messages = [message_of(plane) for field, plane in fields(path.read_bytes()) if field == 1]
        labels = fusion_labels(program for message in messages for program in _programs(message))
        return _trace([_plane(message, labels) for message in messages], framework)
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise TraceError(f"{path}: is not a trace of XLA's profiler: {error}") from None


def _trace(planes: list[tuple[str, list[Line]]], framework: str) -> Trace:
    names = classifier(framework)
    threads = [line for name, lines in planes if name == _HOST for line in lines]
    main = next((spans for _, spans in threads if any(span.name == STEPS for span in spans)), None)
    if main is None:
        raise ValueError(f"it has no span {STEPS!r}")
    steps = next(span for span in main if span.name == STEPS)
    # The main thread has annotations too, and the operations of an eager program.
    own = flatten([span._replace(is_operation=False) for span in main], names)
    streams = [
        flatten(spans, names)
        for plane, lines in planes
        if plane.startswith(_DEVICE)
        for name, spans in lines
        if name.startswith(_STREAM)
    ]
    if streams:
        waits = [one for one in own if one.kind is WorkKind.DATA_WAIT]
        return Trace(framework, "cuda", (*streams, waits), steps.start, steps.end)
    workers = [flatten(spans, names) for name, spans in threads if name.startswith(_WORKERS)]
    return Trace(framework, "cpu", (*workers, own), steps.start, steps.end)


def _programs(plane: bytes) -> Iterator[bytes]:
    """Yield the programs in the plane that has them."""
    parts = list(fields(plane))
    if any(field == 2 and text_of(value) == _METADATA for field, value in parts):
        for field, value in parts:
            if field == 4:
                event = message_of(dict(fields(message_of(value)))[2])
                for stat in (message_of(part) for key, part in fields(event) if key == 5):
                    yield from (message_of(part) for key, part in fields(stat) if key == 6)


def _plane(plane: bytes, labels: Mapping[str, str]) -> tuple[str, list[Line]]:
    """Return a plane's name and its lines; the name of a fusion ends with its deciding opcode in brackets."""
    name, lines, names = "", [], {}
    for field, value in fields(plane):
        if field == 2:
            name = text_of(value)
        elif field == 3:
            lines.append(message_of(value))
        elif field == 4:
            entry = dict(fields(message_of(value)))
            called = text_of(dict(fields(message_of(entry[2]))).get(2, b""))
            names[entry.get(1, 0)] = f"{called} [{labels[called]}]" if called in labels else called
    return name, [_line(line, names) for line in lines]


def _line(line: bytes, names: dict[Value, str]) -> Line:
    name, start, spans = "", 0.0, []
    events = []
    for field, value in fields(line):
        if field == 2:
            name = text_of(value)
        elif field == 3:
            start = int(value) / 1e9
        elif field == 4:
            events.append(dict(fields(message_of(value))))
    for event in events:
        begins = start + int(event.get(2, 0)) / 1e12
        called = names.get(event.get(1, 0), "")
        spans.append(Span(begins, begins + int(event.get(3, 0)) / 1e12, called, is_operation=True))
    return name, spans
