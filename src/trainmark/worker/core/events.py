"""Writes events as DLLogger's JSON stream does: each a line ``DLLL {json}``, so that existing tools read them.

The shape of a line (``timestamp``, ``datetime``, ``elapsedtime``, ``type``, ``step``, ``data``; times as text) is
that of ``JSONStreamBackend`` in https://github.com/NVIDIA/dllogger. The JSON is strict: no NaN, no Infinity.
"""

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import IO, Any

SCHEMA = "trainmark.events/1"
PARAMETER = "PARAMETER"

Step = str | list[int]


class EventWriter:
    """Writes events to an open text stream, each flushed as soon as it is written."""

    def __init__(self, stream: IO[str], started_at: float | None = None) -> None:
        """Take the stream, and the Unix time from which ``elapsedtime`` counts (now, if not given)."""
        self._stream = stream
        self._started_at = time.time() if started_at is None else started_at

    def write(self, step: Step, data: Mapping[str, Any], at: float | None = None) -> None:
        """Write one event that happened at Unix time ``at`` (now, if not given)."""
        self._stream.write(self._line(step, data, time.time() if at is None else at))
        self._stream.flush()

    def write_all(self, events: "list[tuple[Step, Mapping[str, Any], float]]") -> None:
        """Write many events ``(step, data, at)`` with one flush."""
        self._stream.writelines(self._line(step, data, at) for step, data, at in events)
        self._stream.flush()

    def _line(self, step: Step, data: Mapping[str, Any], at: float) -> str:
        line = {
            "timestamp": str(at),
            "datetime": str(datetime.fromtimestamp(at)),
            "elapsedtime": str(round(at - self._started_at, 6)),
            "type": "LOG",
            "step": step,
            "data": data,
        }
        return f"DLLL {json.dumps(line, allow_nan=False, ensure_ascii=False)}\n"
