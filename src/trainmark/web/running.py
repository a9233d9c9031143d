"""Running a server until it is interrupted; its address is known before it answers."""

import socket
from collections.abc import Callable

import uvicorn

from trainmark.errors import InputError
from trainmark.web.policy import Policy

MOST_CONNECTIONS = 400
_GRACE_S = 2


def start_server(app: Policy, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Answer at an address until a signal; ``ready`` gets the URL. Port 0 takes a free one.

    Raises ``InputError`` if the address cannot be used.
    """
    listening = _listen(host, port)
    with listening:
        name = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_S,
            ws="none",
        )
        server = uvicorn.Server(config)
        ready(f"http://{name}:{listening.getsockname()[1]}/")
        server.run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(128)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise InputError(f"{host}:{port}: cannot listen there: {error.strerror or error}") from None
    return found
