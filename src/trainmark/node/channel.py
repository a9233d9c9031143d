"""Wire protocol: a JSON header line followed by a body of `bytes` bytes.

A body of more than ``PART_BYTES`` is sent in parts before its message, so that other messages need not wait for all
of it, and a slow connection does not appear silent.
"""

import io
import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from trainmark.errors import TrainmarkError

HELLO = b"trainmark-agent"
"""The line before the agent's first message; output of a login shell may precede it."""

HEARTBEAT_S = 5.0
"""Interval between the heartbeats of each side, in seconds."""

SILENCE_LIMIT_S = 30.0
"""Seconds of silence after which the other side counts as gone; shorter interruptions of a link are tolerated."""

PART_BYTES = 1 << 20
SPOOL_BYTES = 16 << 20
"""A longer body is stored on disk."""

_LONGEST_LINE = 64 << 20


class NoMessageError(TrainmarkError):
    """Data on a channel that is not a message of the protocol."""


class Sender:
    """The sending end of a channel, used by several threads."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._free = file, threading.Lock()

    def send(self, message: Mapping[str, Any], body: bytes | IO[bytes] = b"") -> None:
        """Send a message; one with a long body needs an ``id``. Raises ``OSError`` when the channel is closed."""
        if isinstance(body, bytes) and len(body) <= PART_BYTES:
            self._write(message, body)
            return
        source = io.BytesIO(body) if isinstance(body, bytes) else body
        while part := source.read(PART_BYTES):
            self._write({"part": message["id"]}, part)
        self._write({**message, "joined": True}, b"")

    def send_if_free(self, message: Mapping[str, Any]) -> None:
        """Send a message unless another one blocks the channel for ``BEAT_S``."""
        if self._free.acquire(timeout=HEARTBEAT_S):
            self._free.release()
            self._write(message, b"")

    def close(self) -> bool:
        """Close the channel; return False if a blocked message prevents it."""
        if not self._free.acquire(timeout=HEARTBEAT_S):
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
    """Yield the messages of a channel with their bodies until it ends; ``heard`` is called for every received part.

    Raises ``NoMessageError`` for data that is not a message.
    """
    parts: dict[Any, IO[bytes]] = {}
    while (one := _one(file)) is not None:
        heard()
        message, body = one
        if "part" in message:
            if message["part"] not in parts:
                parts[message["part"]] = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 (the reader closes it)
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
        raise NoMessageError(
            f"it sent {line[:80]!r}, which is not a message of trainmark's protocol"
        ) from None
    body = file.read(size)
    return None if len(body) < size else (message, body)
