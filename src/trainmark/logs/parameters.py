"""Settings that a training program printed: names, values and line numbers.

Supported are the ``PARAMETER`` lines of DLLogger (text and JSON stream), argparse's ``Namespace(...)``, a printed
Python dictionary (one key per line), Megatron-LM's ``name .... value``, MaxText's ``Config param``, PaddleClas'
``ppcls INFO:   name : value``, PaddleSeg's block of YAML, and the command line of a pre-training as ``set -x`` prints
it.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

PREFIX = "DLLL "
PARAMETER = "PARAMETER"

_PARAMETER_LINE = re.compile(rb"DLLL? [^\n]*PARAMETER[^\n]*\n")
HEAD_LINES = 20_000
"""Lines that are searched: settings are printed before training starts."""
_NAMESPACE = re.compile(r"\bNamespace\((.*)\)")
_ASSIGNMENT = re.compile(r"(\w+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|[^,]*)")
_DICTIONARY_LINE = re.compile(r"^\s*\{?'(\w+)': (.*?)[,}]?$")
_DOTTED = re.compile(r"^(?:\[?[\w-]*\]?:?\s*)?\s{2}(\w+) \.{3,} (.*)$")
_CONFIG_PARAM = re.compile(r"Config param (\w+): (.*)$")
_PPCLS = re.compile(r"ppcls INFO:\s+(\w+) : (.*)$")
_COMMAND = re.compile(r"\brun_pretrain\w*\.py\b(.*)")
_FLAG = re.compile(r"--(\w+)(?:[= ]([^\s-]\S*))?")
_PPSEG_START = "-Config Information-"
_YAML_LINE = re.compile(r"^(\s*)([\w.]+):\s*(\S.*)?$")


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


@dataclass(frozen=True, slots=True)
class Parameter:
    """One printed setting; ``value`` is the text as printed, without quotes; ``line`` counts from 1."""

    name: str
    value: str
    line: int

    @property
    def where(self) -> str:
        """Position and text for display: ``line 3: amp : true``."""
        return f"line {self.line}: {self.name} : {self.value}"


def read_parameters(lines: Iterable[str]) -> dict[str, Parameter]:
    """Return the settings in a log's head by name; the first value of a setting wins.

    ``lines`` have no prefixes, colour codes and newlines, as ``trainmark.logs`` reads them.
    """
    found: dict[str, Parameter] = {}
    in_yaml = False
    for number, line in enumerate(islice(lines, HEAD_LINES), start=1):
        if _PPSEG_START in line:
            in_yaml = True
            continue
        if in_yaml and line.startswith("----"):
            in_yaml = False
        pairs = _yaml_pairs(line) if in_yaml else _pairs(line)
        for name, value in pairs:
            found.setdefault(name, Parameter(name, value.strip().strip("'\""), number))
    return found


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    # One of NVIDIA's programs prints its Namespace inside a PARAMETER line.
    if "PARAMETER" in line and "Namespace(" not in line and (pairs := list(parameter_pairs(line))):
        yield from pairs
    elif match := _NAMESPACE.search(line):
        yield from ((pair[1], pair[2]) for pair in _ASSIGNMENT.finditer(match[1]))
    elif match := (
        _PPCLS.search(line)
        or _DICTIONARY_LINE.match(line)
        or (_DOTTED.match(line) if " ..." in line else None)
        or (_CONFIG_PARAM.search(line) if "Config param" in line else None)
    ):
        yield match[1], match[2]
    elif match := _COMMAND.search(line):
        yield from ((found[1], found[2] or "true") for found in _FLAG.finditer(match[1]))


def _yaml_pairs(line: str) -> Iterator[tuple[str, str]]:
    match = _YAML_LINE.match(line)
    # Nested keys such as 'type' repeat with other meanings; only the outermost level is a setting of the run.
    if match and match[3] and not match[1]:
        yield match[2], match[3]
