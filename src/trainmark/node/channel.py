"""What goes between the controller and an agent: messages of one JSON line, each with as many raw bytes as it says."""

import json
from collections.abc import Mapping
from typing import IO, Any

from trainmark.errors import TrainmarkError

HELLO = b"trainmark-agent"
"""Begins the agent's first line; what a login shell prints stands before it."""

PING_S = 5.0
"""How often the controller lets an agent know that it is there, seconds."""

PATIENCE_S = 30.0
"""After this time without a word, seconds, the other side counts as gone. A link may be cut for some seconds."""

MOST_BYTES = 1 << 30
"""No message has more."""


class NoMessageError(TrainmarkError):
    """What came over a channel is nothing that an agent or a controller of ours would say."""


def send(file: IO[bytes], message: Mapping[str, Any], body: bytes = b"") -> None:
    """Write a message; raises ``OSError`` when the channel is closed."""
    line = json.dumps({**message, "bytes": len(body)}, separators=(",", ":"))
    file.write(line.encode() + b"\n" + body)
    file.flush()


def receive(file: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Read a message; None at the end of the channel. Raises ``NoMessageError`` for what is none."""
    line = file.readline()
    if not line:
        return None
    try:
        message = json.loads(line)
        size = message.pop("bytes")
        if not 0 <= size <= MOST_BYTES:
            raise ValueError(size)
    except (ValueError, AttributeError, KeyError, TypeError):
        raise NoMessageError(f"it said {line[:80]!r}, which is no message of an agent") from None
    body = file.read(size)
    return None if len(body) < size else (message, body)
