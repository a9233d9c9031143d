"""Listens on a port for a while, or connects to others that do; run with any Python, imports nothing of ours.

    python -c THIS '{"listen": {"address": A, "port": P, "seconds": S}}'
    python -c THIS '{"connect": [{"name": N, "address": A, "port": P}], "bytes": B, "trips": T, "timeout_s": S}'

Both need the secret in TRAINMARK_CHECK_SECRET: who connects without it is hung up on. Each prints one line of JSON.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct
import sys
import threading
import time
from typing import Any

SECRET = os.environ.get("TRAINMARK_CHECK_SECRET", "").encode()
CHUNK = 1 << 20


def say(value: object) -> None:
    """Print an answer."""
    sys.stdout.write("\nTRAINMARK " + json.dumps(value) + "\n")
    sys.stdout.flush()


def exactly(connection: socket.socket, count: int) -> bytes:
    """Return so many bytes; raise ``EOFError`` when the peer is gone before."""
    held = b""
    while len(held) < count:
        part = connection.recv(count - len(held))
        if not part:
            raise EOFError
        held += part
    return held


def serve(connection: socket.socket) -> None:
    """Answer a peer: ``t`` by the time in nanoseconds, ``d`` and a length by ``k`` once so many bytes have come."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(60)
    try:
        if not hmac.compare_digest(exactly(connection, len(SECRET)), SECRET):
            return
        while True:
            word = exactly(connection, 1)
            if word == b"t":
                connection.sendall(struct.pack("!q", time.time_ns()))
            elif word == b"d":
                (left,) = struct.unpack("!q", exactly(connection, 8))
                while left > 0:
                    part = connection.recv(min(CHUNK, left))
                    if not part:
                        return
                    left -= len(part)
                connection.sendall(b"k")
            else:
                return
    except (EOFError, OSError):
        pass
    finally:
        connection.close()


def listen(about: dict[str, Any]) -> None:
    """Listen for so many seconds, and serve who comes."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            about["address"], about["port"], type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(16)
    except OSError as error:
        say(
            {"problem": "cannot listen on %s port %d: %s" % (about["address"], about["port"], error.strerror)}
        )
        return
    say({"listening": about["port"]})
    end: float = time.monotonic() + about["seconds"]
    while time.monotonic() < end:
        listener.settimeout(max(0.1, end - time.monotonic()))
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def talk(peer: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return the shortest round trip with a peer, how far its clock is ahead, and how long the bytes took."""
    with socket.create_connection((peer["address"], peer["port"]), timeout=about["timeout_s"]) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(about["timeout_s"])
        connection.sendall(SECRET)
        best = float("inf"), 0.0
        for _ in range(about["trips"]):
            before, began = time.time_ns(), time.perf_counter_ns()
            connection.sendall(b"t")
            (there,) = struct.unpack("!q", exactly(connection, 8))
            trip = time.perf_counter_ns() - began
            # What stands in the clock's own large number is an integer until the difference is taken.
            best = min(best, (float(trip), there - before - trip / 2))
        seconds = []
        block = b"\0" * CHUNK
        for _ in range(3):
            start = time.perf_counter()
            connection.sendall(b"d" + struct.pack("!q", about["bytes"]))
            left = int(about["bytes"])
            while left > 0:
                connection.sendall(block[: min(CHUNK, left)])
                left -= CHUNK
            exactly(connection, 1)
            seconds.append(time.perf_counter() - start)
        return {
            "name": peer["name"],
            "trip_s": best[0] / 1e9,
            "ahead_s": best[1] / 1e9,
            "seconds": min(seconds),
        }


def connect(about: dict[str, Any]) -> None:
    """Say what came of connecting to each peer."""
    found = []
    for peer in about["connect"]:
        try:
            found.append(talk(peer, about))
        except EOFError:
            found.append({"name": peer["name"], "problem": "it hung up"})
        except OSError as error:
            found.append({"name": peer["name"], "problem": error.strerror or str(error)})
    say({"peers": found})


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if "listen" in asked:
        listen(asked["listen"])
    else:
        connect(asked)
