"""Results that are handed in: who may, what is read, and how it is stored."""

import hashlib
import hmac
import json
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from trainmark.errors import InputError
from trainmark.store import Added, Store, identity, parse_results, rebuilt_suite

MOST_BYTES = 64 << 20
"""The largest document that is read."""

SHORTEST_TOKEN = 16


def read_token(path: Path) -> str:
    """Return the token in a file; raise ``InputError`` if it is missing, too short, or readable by everybody."""
    try:
        token = path.read_text(encoding="utf-8").strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise InputError(f"{path}: the token cannot be read: {reason}") from None
    if mode & 0o077:
        raise InputError(f"{path}: other users can read the token: chmod 600 {path}")
    if len(token) < SHORTEST_TOKEN or not token.isascii() or any(letter.isspace() for letter in token):
        raise InputError(
            f"{path}: a token is one word of at least {SHORTEST_TOKEN} ASCII characters (openssl rand -hex 32)"
        )
    return token


@dataclass(frozen=True, slots=True)
class Ingest:
    """Takes results documents for a database from those who know the token."""

    store: Store
    token: str
    _lock: Lock = field(default_factory=Lock)

    def permits(self, authorization: str | None) -> bool:
        """Return whether a request's ``Authorization`` has the token; the time tells nothing about the token."""
        scheme, _, given = (authorization or "").partition(" ")
        digests = (hashlib.sha256(word.encode("utf-8", "replace")).digest() for word in (given, self.token))
        return hmac.compare_digest(*digests) and scheme.lower() == "bearer"

    def add(self, content: bytes) -> Added:
        """Store a results document in one transaction; raise ``InputError`` if it is none or contradicts itself."""
        _require_json(content)
        results = parse_results(content, "the document")
        name = identity(results)
        # The campaign's directory is chosen here: a name from outside could lead to files of this machine.
        directory = f"/nonexistent/ingested/{name.removeprefix('sha256:')[:16]}"
        # SQLite has one writer; others would wait with a transaction open.
        with self._lock:
            return self.store.put(results, rebuilt_suite(results), directory)


def _require_json(content: bytes) -> None:
    """Raise ``InputError`` unless the content is a JSON object: an error names the place without its text."""
    try:
        document = json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        place = f" at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"the document is not JSON{place}") from None
    if not isinstance(document, dict):
        raise InputError("the document is not a JSON object")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
