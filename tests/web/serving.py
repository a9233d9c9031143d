"""A server in a thread with a real socket, and requests of raw bytes to it."""

import http.client
import socket
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass

import uvicorn

from trainmark.site import DirectorySource, StoreSource, open_source
from trainmark.web import LOOPBACK, Ingest, make_app


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")


@dataclass(frozen=True, slots=True)
class Served:
    source: DirectorySource | StoreSource
    port: int
    server: uvicorn.Server
    thread: threading.Thread

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, dict(headers or {}))
        found = connection.getresponse()
        answer = Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        connection.close()
        return answer

    def raw(self, content: bytes) -> bytes:
        """Send bytes, close the sending side, and return all that comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            parts = []
            while part := connection.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)

    def events(self, path: str = "/events") -> Generator[tuple[str, str], None, None]:
        """Yield (event, data) of a stream as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path)
        found = connection.getresponse()
        assert found.status == 200
        name, data = "", []
        try:
            while line := found.readline().decode("utf-8"):
                field, _, value = line.rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    data.append(value)
                elif not line.strip() and name:
                    yield name, "\n".join(data)
                    name, data = "", []
        finally:
            connection.close()

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=30)
        self.source.close()


def served_from(address: str, token: str | None = None) -> Served:
    """Start a server of a source on a free port of this machine."""
    source = open_source(address)
    ingest = None
    if token is not None:
        assert isinstance(source, StoreSource)
        ingest = Ingest(source.store, token)
    app = make_app(source, LOOPBACK, ingest)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    return Served(source, listening.getsockname()[1], server, thread)
