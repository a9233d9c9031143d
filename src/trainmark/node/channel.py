"""What goes between the controller and an agent: messages of one JSON line, each with as many raw bytes as it says.

A body of more than ``PART_BYTES`` goes in parts before its message, so that nothing else has to wait for all of it, and
a slow line is no silent one.
"""

import io
import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from trainmark.errors import TrainmarkError

HELLO = b"trainmark-agent"
"""Begins the agent's first line; what a login shell prints stands before it."""

BEAT_S = 5.0
"""How often each side lets the other know that it is there, seconds."""

PATIENCE_S = 30.0
"""After this time without a word, seconds, the other side counts as gone. A link may be cut for some seconds."""

PART_BYTES = 1 << 20
SPOOL_BYTES = 16 << 20
"""More of a body than this is kept on disk."""

_LONGEST_LINE = 64 << 20


class NoMessageError(TrainmarkError):
    """What came over a channel is nothing that an agent or a controller of ours would say."""


class Sender:
    """One end of a channel that is written to, by several threads."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._free = file, threading.Lock()

    def send(self, message: Mapping[str, Any], body: bytes | IO[bytes] = b"") -> None:
        """Write a message; one with a long body has an ``id``. Raises ``OSError`` when the channel is closed."""
        if isinstance(body, bytes) and len(body) <= PART_BYTES:
            self._write(message, body)
            return
        source = io.BytesIO(body) if isinstance(body, bytes) else body
        while part := source.read(PART_BYTES):
            self._write({"part": message["id"]}, part)
        self._write({**message, "joined": True}, b"")

    def send_if_free(self, message: Mapping[str, Any]) -> None:
        """Write a message unless another one is on its way for as long as a beat."""
        if self._free.acquire(timeout=BEAT_S):
            self._free.release()
            self._write(message, b"")

    def close(self) -> bool:
        """Close the channel; return whether that could be done, which it cannot while a message does not go out."""
        if not self._free.acquire(timeout=BEAT_S):
            return False
        try:
            self._file.close()
        finally:
            self._free.release()
        return True

    def _write(self, message: Mapping[str, Any], body: bytes) -> None:
        line = json.dumps({**message, "bytes": len(body)}, separators=(",", ":"))
        with self._free:
            self._file.write(line.encode() + b"\n" + body)
            self._file.flush()


def receive(file: IO[bytes], heard: Callable[[], None]) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """Yield the messages of a channel with their bodies, to its end; ``heard`` is called for every part of one.

    Raises ``NoMessageError`` for what is none.
    """
    parts: dict[Any, IO[bytes]] = {}
    while (one := _one(file)) is not None:
        heard()
        message, body = one
        if "part" in message:
            if message["part"] not in parts:
                parts[message["part"]] = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 (who reads closes)
            parts[message["part"]].write(body)
        elif message.pop("joined", False):
            whole = parts.pop(message.get("id"), None) or io.BytesIO()
            whole.seek(0)
            yield message, whole
        else:
            yield message, io.BytesIO(body)


def _one(file: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    line = file.readline(_LONGEST_LINE)
    if not line:
        return None
    try:
        message = json.loads(line)
        size = message.pop("bytes")
        if not 0 <= size <= PART_BYTES:
            raise ValueError(size)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise NoMessageError(f"it said {line[:80]!r}, which is no message of an agent") from None
    body = file.read(size)
    return None if len(body) < size else (message, body)
