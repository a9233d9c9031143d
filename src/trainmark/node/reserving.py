"""One measurement a machine: whoever measures holds a name in the kernel, which nobody else can have meanwhile.

The name is that of a Unix socket without a file (Linux's abstract ones), on which nobody listens: it is gone with its
process, however that ends, and leaves nothing. A second name says who holds the first.
"""

import hashlib
import os
import socket
import sys
from pathlib import Path

VARIABLE = "TRAINMARK_MACHINE"
"""Of a host's environment: a name for what is to count as a machine of its own, such as one of several for trying."""

_NAME = "trainmark-measuring"
_LONGEST = 100


def reserve(by: str) -> tuple[socket.socket, ...] | str:
    """Return what holds this machine as long as it is open, or by whom it is held already.

    The first word of ``by`` says who that is, see ``same_holder``; what is too long for the kernel is cut off.
    """
    if sys.platform != "linux":
        return ()
    machine = os.environ.get(VARIABLE, "")
    name = f"{_NAME}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}" if machine else _NAME
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0{name}".encode())
    except OSError:
        held.close()
        return _holder(name)
    said = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    said.bind(f"\0{name} by {by}".encode()[:_LONGEST])
    return held, said


def same_holder(one: str, other: str) -> bool:
    """Tell whether two that hold a machine, or want to, are one: their first words are the same."""
    return one.partition(" ")[0] == other.partition(" ")[0]


def _holder(name: str) -> str:
    """Return who says that it holds a name; empty where nobody says so."""
    begin = f"@{name} by "
    for line in Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines():
        place = line.find(begin)
        if place >= 0:
            return line[place + len(begin) :]
    return ""
