"""The headers of every answer, and the host names that requests may give."""

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Pages may run and load what this server sends, and nothing else; no page may frame them."""

HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Policy:
    """Adds the headers to each answer, and refuses requests for another host's name.

    ``names`` are the host names that a request may give, None for any. A page of another site whose name leads to this
    machine (DNS rebinding) would otherwise read the results in a reader's browser.
    """

    def __init__(self, app: App, names: Collection[str] | None) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in HEADERS}
                rest = [(name, value) for name, value in message["headers"] if name.lower() not in own]
                message = {**message, "headers": [*rest, *HEADERS]}
            await send(message)

        if self._names is not None and _host(scope) not in self._names:
            await with_headers({"type": "http.response.start", "status": 421, "headers": [_PLAIN]})
            await with_headers({"type": "http.response.body", "body": b"this server has another name\n"})
            return
        await self._app(scope, receive, with_headers)


_PLAIN = (b"content-type", b"text/plain; charset=utf-8")


def _host(scope: Scope) -> str:
    """Return the host of a request without its port; empty if it gives none, or several."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    if len(given) != 1:
        return ""
    text: str = given[0].decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
