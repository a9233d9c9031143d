"""The measurement of a program that writes its number into a JSON file: a card's ``result``."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainmark.measure import NotMeasurable
from trainmark.schema.measurement import CannotSay, Measurement, Steadiness
from trainmark.workload import Card
from trainmark.workload.card import ResultFile

RULE = "result"
"""The name of the rule of a number that the program itself computed."""

_LARGEST_BYTES = 16 << 20


def measure_result(card: Card, result: ResultFile, folder: Path) -> Measurement:
    """Return the number that a run in ``folder`` wrote into its file; raise ``NotMeasurable`` if it wrote none.

    The program states neither its steps nor its window, so both are unknown.
    """
    return Measurement(
        unit=card.counted_in,
        rule=RULE,
        throughput=_number(result, _document(result, folder)),
        samples=None,
        window_s=None,
        measured_steps=0,
        warmup_steps=0,
        first_step_s=None,
        compile_s=None,
        step_times=None,
        data_wait=None,
        peak_memory_bytes=(),
        final_loss=None,
        steadiness=Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.NO_STEP_TIMES),
        suspicions=(),
    )


def _document(result: ResultFile, folder: Path) -> Any:
    path = folder / result.file
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise NotMeasurable(
                f"{result.file} has more than 16 MiB; the card's result should be a small file"
            )
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotMeasurable(
            f"{result.file}, the card's result, cannot be read in the run's folder: {error.strerror}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise NotMeasurable(f"{result.file} is not JSON: {error}") from None


def _number(result: ResultFile, document: Any) -> float:
    found = document
    parts = result.path.split(".")
    for at, part in enumerate(parts):
        found = _child(found, part)
        if found is None:
            raise NotMeasurable(f"{result.file} has no '{'.'.join(parts[: at + 1])}'")
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise NotMeasurable(f"{result.file}: '{result.path}' is {_short(found)}, not a number")
    value = float(found)
    if not math.isfinite(value) or value <= 0:
        raise NotMeasurable(f"{result.file}: '{result.path}' is {value:g}; expected a number above 0")
    return value


def _child(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, Sequence) and not isinstance(value, str):
        number = int(part) if part.lstrip("-").isdecimal() else None
        return value[number] if number is not None and -len(value) <= number < len(value) else None
    return None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
