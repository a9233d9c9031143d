"""A plain connection between rank 0 and every other rank, in addition to a framework's own collectives.

Some collectives have no barrier that ends when a rank dies, exchange no 64-bit numbers, or report a lost rank never or
only after half a minute. A closed connection reveals a lost rank at once.
"""

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from .outcomes import FAILED, RunError
from .place import Place, Ranks
from .signals import doing

MEET_S = 600.0  # how long a rank waits for the others to start
PORT_OFFSET = 1  # from the port that a framework's scheduler uses


class Peers(Ranks):
    """All ranks of the run; without other ranks, every method returns at once."""

    def __init__(self, place: Place, on_lost: Callable[[RunError], None]) -> None:
        """Connect to rank 0, or wait for all others there; ``on_lost`` is called in another thread.

        Raises ``RunError`` (failed) if they do not arrive within ten minutes.
        """
        super().__init__(place)
        self._on_lost, self._leaving = on_lost, False
        self._links: dict[int, _Link] = {}
        self._problem: RunError | None = None
        self._answers: queue.SimpleQueue[tuple[Any, Exception | None]] | None = None
        if place.world_size == 1:
            return
        assert place.address is not None
        assert place.port is not None
        self.backend = "tcp"
        address, deadline = (place.address, place.port + PORT_OFFSET), time.monotonic() + MEET_S
        try:
            if place.rank == 0:
                self._accept(address, deadline)
            else:
                self._links[0] = _Link(_connect(address, deadline))
                self._links[0].listen(0, self._lost)
                self._links[0].send(place.rank)
        except OSError as error:
            reason = f"lost contact with another rank: the rendezvous failed ({error})"
            raise RunError(FAILED, reason, peer_lost=True) from error

    def counted(self) -> int:
        return len(self.gather(None))

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value, by rank; any JSON value is allowed."""
        if not self._links:
            return [value]
        if self.place.rank > 0:
            self._links[0].send(value)
            return list(self._links[0].receive())
        values = [value, *(self._links[rank].receive() for rank in sorted(self._links))]
        for link in self._links.values():
            link.send(values)
        return values

    def run(self, blocking: Callable[[], Any]) -> Any:
        """Return the result of ``blocking``; raise ``RunError`` (failed) if a rank is lost in the meantime.

        It runs in a separate thread, because a thread that waits in C++ cannot be interrupted.
        """
        answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._answers = answers
        if self._problem is not None:
            answers.put((None, self._problem))

        def work() -> None:
            try:
                answers.put((blocking(), None))
            except Exception as error:
                answers.put((None, error))

        threading.Thread(target=work, daemon=True).start()
        (value, failure), self._answers = answers.get(), None
        if failure is not None:
            raise failure
        return value

    def leave(self) -> None:
        self._leaving = True
        self.barrier()
        for link in self._links.values():
            link.close()

    def _accept(self, address: tuple[str, int], deadline: float) -> None:
        with socket.create_server(address, backlog=1024) as server:
            while len(self._links) < self.place.world_size - 1:
                server.settimeout(max(deadline - time.monotonic(), 0.001))
                connection, _ = server.accept()
                connection.settimeout(None)
                link = _Link(connection)
                rank = link.hello()
                if rank in range(1, self.place.world_size) and rank not in self._links:
                    self._links[rank] = link
                else:
                    link.close()
        for rank, link in self._links.items():
            link.listen(rank, self._lost)

    def _lost(self, problem: RunError) -> None:
        self._problem, answers = problem, self._answers
        if answers is not None:
            answers.put((None, problem))
        if not self._leaving:
            self._on_lost(problem)


class _Link:
    """One connection: lines of JSON, read by a thread, so that its end is noticed at once."""

    def __init__(self, connection: socket.socket) -> None:
        """Store the socket, and set it up to detect a host that vanished silently."""
        for option, seconds in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._received: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def hello(self) -> int:
        """Return the rank in the first line, or -1 if the peer is not a rank of this run."""
        self._connection.settimeout(5)
        try:
            rank = json.loads(self._lines.readline(64))
        except (OSError, ValueError):
            return -1
        self._connection.settimeout(None)
        return rank if isinstance(rank, int) else -1

    def listen(self, rank: int, lost: Callable[[RunError], None]) -> None:
        """Start to read the messages of ``rank``; call ``lost`` when they end."""

        def read() -> None:
            with contextlib.suppress(OSError, ValueError):
                for line in self._lines:
                    self._received.put(json.loads(line))
            reason = f"lost contact with another rank: rank {rank} has gone{doing()}"
            problem = RunError(FAILED, reason, peer_lost=True)
            self._received.put(problem)
            lost(problem)

        threading.Thread(target=read, daemon=True).start()

    def send(self, value: Any) -> None:
        """Send a value; the reader reports a lost peer."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(value).encode() + b"\n")

    def receive(self) -> Any:
        """Return the next value; raise ``RunError`` (failed) if the other rank is gone."""
        value = self._received.get()
        if isinstance(value, RunError):
            self._received.put(value)
            raise value
        return value

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._connection.close()


def _connect(address: tuple[str, int], deadline: float) -> socket.socket:
    """Return a connection to rank 0, which may not have started yet."""
    while True:
        try:
            connection = socket.create_connection(address, timeout=5)
        except OSError:
            if time.monotonic() > deadline:
                raise
        else:
            # TCP lets a socket connect to itself if its own port happens to be the requested one.
            if connection.getsockname() != connection.getpeername():
                connection.settimeout(None)
                return connection
            connection.close()
        time.sleep(0.1)
