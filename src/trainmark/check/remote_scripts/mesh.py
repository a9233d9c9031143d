"""Network peer: listens on a port or connects to listeners; runs with any Python and imports only the stdlib.

    python -c THIS '{"listen": {"address": A, "port": P, "seconds": S}}'
    python -c THIS '{"connect": [{"name": N, "address": A, "port": P}], "bytes": B, "trips": T, "timeout_s": S}'

Both need the secret in TRAINMARK_CHECK_SECRET; connections without it are closed. Each prints one line of JSON.
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


def print_result(value: object) -> None:
    """Print a result as one tagged JSON line."""
    sys.stdout.write("\nTRAINMARK " + json.dumps(value) + "\n")
    sys.stdout.flush()


def read_exactly(connection: socket.socket, count: int) -> bytes:
    """Return exactly ``count`` bytes; raise ``EOFError`` if the peer closes the connection first."""
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise EOFError
        received += part
    return received


def serve(connection: socket.socket) -> None:
    """Serve a peer: reply to ``t`` with the time in ns, and to ``d``, a length and that many bytes with ``k``."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(60)
    try:
        if not hmac.compare_digest(read_exactly(connection, len(SECRET)), SECRET):
            return
        while True:
            word = read_exactly(connection, 1)
            if word == b"t":
                connection.sendall(struct.pack("!q", time.time_ns()))
            elif word == b"d":
                (left,) = struct.unpack("!q", read_exactly(connection, 8))
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


def listen(options: dict[str, Any]) -> None:
    """Listen for ``seconds``, and serve each connection."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            options["address"], options["port"], type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(16)
    except OSError as error:
        print_result(
            {
                "problem": "cannot listen on %s port %d: %s"
                % (options["address"], options["port"], error.strerror)
            }
        )
        return
    print_result({"listening": options["port"]})
    end: float = time.monotonic() + options["seconds"]
    while time.monotonic() < end:
        listener.settimeout(max(0.1, end - time.monotonic()))
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def measure_peer(peer: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return a peer's shortest round trip, its clock's offset, and the transfer time."""
    with socket.create_connection(
        (peer["address"], peer["port"]), timeout=options["timeout_s"]
    ) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(options["timeout_s"])
        connection.sendall(SECRET)
        best = float("inf"), 0.0
        for _ in range(options["trips"]):
            before, started = time.time_ns(), time.perf_counter_ns()
            connection.sendall(b"t")
            (there,) = struct.unpack("!q", read_exactly(connection, 8))
            trip = time.perf_counter_ns() - started
            # Times since the epoch in ns exceed float precision: keep integers until the difference is taken.
            best = min(best, (float(trip), there - before - trip / 2))
        seconds = []
        block = b"\0" * CHUNK
        for _ in range(3):
            start = time.perf_counter()
            connection.sendall(b"d" + struct.pack("!q", options["bytes"]))
            left = int(options["bytes"])
            while left > 0:
                connection.sendall(block[: min(CHUNK, left)])
                left -= CHUNK
            read_exactly(connection, 1)
            seconds.append(time.perf_counter() - start)
        return {
            "name": peer["name"],
            "trip_s": best[0] / 1e9,
            "ahead_s": best[1] / 1e9,
            "seconds": min(seconds),
        }


def connect(options: dict[str, Any]) -> None:
    """Connect to each peer and print the measurements."""
    found = []
    for peer in options["connect"]:
        try:
            found.append(measure_peer(peer, options))
        except EOFError:
            found.append({"name": peer["name"], "problem": "it closed the connection"})
        except OSError as error:
            found.append({"name": peer["name"], "problem": error.strerror or str(error)})
    print_result({"peers": found})


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    if "listen" in request:
        listen(request["listen"])
    else:
        connect(request)
