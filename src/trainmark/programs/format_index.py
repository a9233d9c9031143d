"""Index of all log formats, saved in the user's cache: the words of their patterns, and descriptions parsed from YAML.

A process that reads logs needs a few of sixty formats. The index names the candidates, so that the other modules are
not imported, the other YAML files are not parsed, and their expressions are not compiled. It is valid for the exact
content of the files that define formats; where the cache cannot be used, the index is computed again.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import source_hash
from pathlib import Path
from typing import Any, NamedTuple

from trainmark import __version__, logs
from trainmark.files import write_atomically
from trainmark.home import default_cache
from trainmark.logs.format import FormatWords, PatternWords


class IndexEntry(NamedTuple):
    """One format: its words, and its document if it is described in YAML that JSON can hold."""

    words: FormatWords
    document: Mapping[str, Any] | None = None


def load_index(
    folders: Sequence[Path], compute: Callable[[], Iterable[IndexEntry]]
) -> tuple[IndexEntry, ...]:
    """Return the saved index of the formats in ``folders``; compute and save it if their files have changed."""
    digest = _digest(folders)
    try:
        path = default_cache(os.environ) / f"formats-{_digest_of(map(bytes, folders))[:16]}.json"
    except RuntimeError:  # there is no home folder
        return tuple(compute())
    # A damaged file is computed again, as a missing one is.
    with suppress(OSError, ValueError, LookupError, TypeError):
        saved = json.loads(path.read_bytes())
        if saved["digest"] == digest:
            return tuple(map(_decoded, saved["formats"]))
    index = tuple(compute())
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"digest": digest, "formats": [*map(_encoded, index)]}))
    return index


def as_json(document: Any) -> Mapping[str, Any] | None:
    """Return ``document`` as JSON holds it; ``None`` if that changes it (a key that is no text, a date)."""
    try:
        copy = json.loads(json.dumps(document))
    except (TypeError, ValueError):
        return None
    return copy if copy == document else None


def _digest(folders: Sequence[Path]) -> str:
    """Return the digest of all that decides the index: every file that defines formats, and the versions."""
    versions = f"{__version__} {sys.implementation.cache_tag}".encode()
    return _digest_of((versions, *_contents([*logs.__path__, *map(str, folders)])))


def _contents(folders: Sequence[str]) -> Iterator[bytes]:
    """Yield name and content of each Python and YAML file in ``folders``; ``scandir`` takes half of a walk's time."""
    inner = []
    for folder in folders:
        with os.scandir(folder) as found:
            for entry in sorted(found, key=lambda entry: entry.name):
                if entry.name.endswith((".py", ".yaml")):
                    yield entry.name.encode()
                    yield Path(entry.path).read_bytes()
                elif not entry.name.startswith("_") and entry.is_dir():
                    inner.append(entry.path)
    if inner:
        yield from _contents(inner)


def _digest_of(parts: Iterable[bytes]) -> str:
    # The hash of Python's own caches: loading hashlib takes longer than reading a small log.
    return source_hash(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).hex()


def _encoded(entry: IndexEntry) -> dict[str, Any]:
    patterns = [
        [[word.decode("latin-1") for word in words] for words in (pattern.any_of, pattern.all_of)]
        for pattern in entry.words.patterns
    ]
    return {
        "name": entry.words.name,
        "accompanies": entry.words.accompanies,
        "patterns": patterns,
        "document": entry.document,
    }


def _decoded(saved: Mapping[str, Any]) -> IndexEntry:
    patterns = (
        PatternWords(*(tuple(word.encode("latin-1") for word in words) for words in pattern))
        for pattern in saved["patterns"]
    )
    words = FormatWords(saved["name"], saved["accompanies"], tuple(patterns))
    return IndexEntry(words, saved["document"])
