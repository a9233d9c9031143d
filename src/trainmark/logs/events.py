"""Events of a trainmark run: ``events.jsonl``, written by a built-in worker after its measured window.

Each line is ``DLLL`` and a JSON object, the DLLogger JSON-stream convention: ``step`` is ``"PARAMETER"`` for the
run's parameters, ``[epoch, step]`` for one step, and ``[]`` for the summary of the whole run.

The settings that any training program printed are read here too, with their line numbers: DLLogger's ``PARAMETER``
lines (text and JSON stream), argparse's ``Namespace(...)``, a printed Python dictionary (one key per line),
Megatron-LM's ``name .... value``, MaxText's ``Config param``, PaddleClas' ``ppcls INFO:   name : value``, PaddleSeg's
block of YAML, and the command line of a pre-training as ``set -x`` prints it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trainmark.schema.measurement import Parameters

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
SCHEMA = "trainmark.events/1"
DEFAULT_UNIT = "samples/s"
"""Unit of a run that reports none, as in earlier versions, which only counted samples."""


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


@dataclass(frozen=True, slots=True)
class RunEvents:
    """The events of one run.

    ``steps`` has the epoch number and the step number of each step. ``step_times_s`` (seconds), ``losses`` and
    ``data_waits_s`` (seconds) have one value per step, NaN if it was not reported; ``measured`` is true for the steps
    of the measured window, of which ``losses_not_finite`` have a loss that is not finite. ``parameters`` and
    ``summary`` are as reported, and empty if the line is missing.
    """

    parameters: "Parameters"
    steps: NDArray[np.float64]
    step_times_s: NDArray[np.float64]
    losses: NDArray[np.float64]
    data_waits_s: NDArray[np.float64]
    measured: NDArray[np.bool_]
    summary: Mapping[str, Any]
    damaged_lines: int
    losses_not_finite: int = 0


def read_events(path: Path) -> RunEvents:
    """Read an events file; a missing file reads as an empty one."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        text = ""
    return parse_events(text.split("\n"))


def parse_events(lines: Iterable[str]) -> RunEvents:
    """Parse lines into ``RunEvents``; lines that are damaged or not events are counted and left out."""
    from trainmark.schema.measurement import Parameters

    parameters: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    numbers: list[Any] = []
    steps: list[dict[str, Any]] = []
    damaged = 0
    for line in lines:
        event = stream_event(line)
        if event is None:
            damaged += bool(line.strip())
        elif event["step"] == PARAMETER:
            parameters |= event["data"]
        elif event["step"] == []:
            summary |= event["data"]
        else:
            numbers.append(event["step"])
            steps.append(event["data"])
    return RunEvents(
        parameters=Parameters.of(parameters),
        steps=np.array([_step_numbers(step) for step in numbers], dtype=np.float64).reshape(-1, 2),
        step_times_s=_column(steps, "step_time_s"),
        losses=_column(steps, "loss"),
        data_waits_s=_column(steps, "data_wait_s"),
        measured=np.array([step.get("phase") == "measured" for step in steps], dtype=np.bool_),
        summary=summary,
        damaged_lines=damaged,
        losses_not_finite=sum(
            step.get("loss_finite") is False and step.get("phase") == "measured" for step in steps
        ),
    )


def _step_numbers(step: Any) -> tuple[float, float]:
    words = step if isinstance(step, list) else [step]
    return (_number(words[0]), _number(words[-1])) if words else (np.nan, np.nan)


def _column(steps: list[dict[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([_number(step.get(name)) for step in steps], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) else np.nan
    except OverflowError:
        return np.nan
