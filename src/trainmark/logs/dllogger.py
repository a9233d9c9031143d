"""NVIDIA's DLLogger: its settings as text (``DLL … - PARAMETER …``) and its events as a JSON stream (``DLLL {…}``).

Source: https://github.com/NVIDIA/dllogger (StdOutBackend, JSONStreamBackend).
"""

import json
import re
from collections.abc import Iterator
from typing import Any

PREFIX = "DLLL "
PARAMETER = "PARAMETER"

_PARAMETER_LINE = re.compile(rb"DLLL? [^\n]*PARAMETER[^\n]*\n")


def stream_event(line: str) -> dict[str, Any] | None:
    """Return the JSON object of a stream line, with any text before it; ``None`` if there is none or it is damaged.

    An event has a ``step`` and an object ``data``.
    """
    _, prefix, body = line.partition(PREFIX)
    if not prefix:
        return None
    try:
        event = json.loads(body, parse_constant=_refuse)
        if "\\u" in body:
            # Half a surrogate pair is valid JSON, but cannot be written as UTF-8.
            json.dumps(event, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    whole = isinstance(event, dict) and "step" in event and isinstance(event.get("data"), dict)
    return event if whole else None


def parameter_pairs(line: str) -> Iterator[tuple[str, str]]:
    """Yield the settings in one line of either form as strings; names of nested settings are joined by dots."""
    before, separator, settings = line.partition(f" - {PARAMETER} ")
    if separator and "DLL " in before:
        for item in settings.split("  "):
            name, colon, value = item.partition(" : ")
            if colon:
                yield name.strip(), value.strip()
    elif PARAMETER in line and (event := stream_event(line)) and event["step"] == PARAMETER:
        yield from _flat(event["data"], "")


def dll_parameters(text: bytes) -> dict[str, str]:
    """Return all settings in ``text`` as strings; the first value of a name wins."""
    found: dict[str, str] = {}
    for line in _PARAMETER_LINE.findall(text):
        for name, value in parameter_pairs(line.decode("utf-8", "replace")):
            found.setdefault(name, value)
    return found


def _flat(data: dict[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
