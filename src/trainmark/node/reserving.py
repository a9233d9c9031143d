"""Machine reservation: only one measurement at a time runs on a machine.

A measurement binds a Unix socket to an abstract name (Linux), which only one process can have. The kernel frees the
name when the process ends, however it ends. A second name records the holder.
"""

import hashlib
import os
import socket
import sys
from pathlib import Path

VARIABLE = "TRAINMARK_MACHINE"
"""Environment variable of a host: hosts with different values count as different machines, for tests."""

_NAME = "trainmark-measuring"
_LONGEST = 100


def reserve(by: str) -> tuple[socket.socket, ...] | str:
    """Return the sockets that reserve this machine while they are open, or the current holder.

    The first word of ``by`` identifies the holder, see ``same_holder``; text too long for the kernel is cut off.
    """
    if sys.platform != "linux":
        return ()
    machine = os.environ.get(VARIABLE, "")
    name = f"{_NAME}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}" if machine else _NAME
    name_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name_socket.bind(f"\0{name}".encode())
    except OSError:
        name_socket.close()
        return _holder(name)
    holder_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    holder_socket.bind(f"\0{name} by {by}".encode()[:_LONGEST])
    return name_socket, holder_socket


def same_holder(one: str, other: str) -> bool:
    """Return whether two holders are the same: their first words are equal."""
    return one.partition(" ")[0] == other.partition(" ")[0]


def _holder(name: str) -> str:
    """Return the recorded holder of a name, or an empty string."""
    begin = f"@{name} by "
    for line in Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines():
        place = line.find(begin)
        if place >= 0:
            return line[place + len(begin) :]
    return ""
