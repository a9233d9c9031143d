"""A bad line between a host and the bridge: it carries frames between two network cards, late or not at all.

The kernel's netem does this too, but is a module that many kernels come without.
"""

import heapq
import random
import select
import socket
import time
from contextlib import suppress

SOL_PACKET, PACKET_VNET_HDR, ETH_P_ALL = 263, 15, 3
LONGEST_FRAME = 1 << 17
WAITING_BYTES = 8 << 20


def carry(host_side: str, bridge_side: str, delay_s: float, loss: float) -> None:
    """Carry frames until a card is taken away; what the host sends is late by `delay_s`, lost with chance `loss`."""
    with suppress(OSError):
        _carry(_open(host_side), _open(bridge_side), delay_s, loss)


def _carry(host: socket.socket, bridge: socket.socket, delay_s: float, loss: float) -> None:
    chance = random.Random()
    late: list[tuple[float, int, bytes]] = []
    count = 0
    print("carrying", flush=True)
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        ready, _, _ = select.select([host, bridge], [], [], wait)
        if bridge in ready:
            _send(host, _receive(bridge))
        if host in ready and (frame := _receive(host)) and chance.random() >= loss:
            count += 1
            heapq.heappush(late, (time.monotonic() + delay_s, count, frame))
        while late and late[0][0] <= time.monotonic():
            _send(bridge, heapq.heappop(late)[2])


def _open(card: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    # With each frame comes what its sender leaves to the card: to cut it into segments, to sum it up.
    opened.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WAITING_BYTES)
    opened.bind((card, ETH_P_ALL))
    return opened


def _receive(card: socket.socket) -> bytes:
    """Return the next frame that came in by a card, or nothing when it is one of those sent."""
    frame, address = card.recvfrom(LONGEST_FRAME)
    return b"" if address[2] == socket.PACKET_OUTGOING else frame


def _send(card: socket.socket, frame: bytes) -> None:
    with suppress(OSError):  # What is given to a cut cable is lost.
        if frame:
            card.send(frame)
