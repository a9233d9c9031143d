"""MLPerf Training result logs (``:::MLLOG {json}``, https://github.com/mlcommons/logging).

    :::MLLOG {"namespace": "", "time_ms": 1590000000000, "event_type": "INTERVAL_END", "key": "epoch_stop", "value": …}

Rates are ``tracked_stats`` with a ``throughput`` (samples/s, global) where a submission prints them; else a record
is one epoch or block: its samples over the time between its start and its stop, evaluation left out.
"""

import json
import re
from typing import Any

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.format import Format, LogContext, search_integer, search_word
from trainmark.logs.model import Ending, Facts, Scope

_EVENT = re.compile(rb":::MLLOG (\{[^\n]*\})")


def facts(context: LogContext) -> Facts:
    """Read the benchmark's name; the number of devices is not part of the log."""
    return Facts(model=search_word(rb'"key": ?"submission_benchmark", ?"value": ?"([^"]+)"', context.text))


def parameters(context: LogContext) -> dict[str, str]:
    """Return the single values of all POINT_IN_TIME events."""
    return {str(event["key"]): str(event.get("value")) for event in _events(context.text) if "key" in event}


def extract(text: bytes) -> dict[str, Floats]:
    """Return step, rate, samples and clock of the training intervals in ``text``."""
    rows: list[tuple[float, float, float, float]] = []
    tracked: list[tuple[float, float, float, float]] = []
    # By number, the first of each: untagged ranks may print the same events on top of each other.
    started_ms: dict[float, float] = {}
    stopped: set[float] = set()
    samples_per_epoch = search_integer(rb'"key": ?"train_samples", ?"value": ?(\d+)', text)
    for event in _events(text):
        key, now_ms = event.get("key"), event.get("time_ms")
        about = event.get("metadata")
        about = about if isinstance(about, dict) else {}
        if not isinstance(now_ms, int | float):
            continue
        number = _number(about.get("epoch_num", about.get("first_epoch_num")), float(len(rows)))
        if key in ("epoch_start", "block_start"):
            started_ms.setdefault(number, float(now_ms))
        elif key in ("epoch_stop", "block_stop") and number in started_ms and number not in stopped:
            stopped.add(number)
            seconds = (now_ms - started_ms[number]) / 1000
            samples = (samples_per_epoch or 0) * _number(about.get("epoch_count"), 1.0)
            rate = samples / seconds if samples and seconds > 0 else np.nan
            rows.append((number, rate, samples or np.nan, now_ms / 1000))
        elif key == "tracked_stats" and isinstance(event.get("value"), dict):
            rate = _number(event["value"].get("throughput"), np.nan)
            if np.isfinite(rate):
                tracked.append((_number(about.get("step"), float(len(tracked))), rate, np.nan, now_ms / 1000))
    chosen = tracked or rows
    if not chosen:
        return {}
    step, rate_, samples_, clock = (
        np.array(column, dtype=np.float64) for column in zip(*chosen, strict=True)
    )
    found = {"step": step, "rate": rate_, "clock_s": clock}
    return found if tracked else found | {"samples": samples_}


def ending(context: LogContext) -> Ending:
    """See ``run_stop`` with status success."""
    stop = re.search(rb':::MLLOG [^\n]*"key": ?"run_stop"[^\n]*"status": ?"(\w+)"', context.tail)
    return Ending.SEEN if stop and stop[1] == b"success" else Ending.MISSING


def _events(text: bytes) -> list[dict[str, Any]]:
    events = []
    for body in _EVENT.findall(text):
        try:
            event = json.loads(body)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


FORMAT = Format(
    name="mlperf",
    title="MLPerf Training",
    framework=None,
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(rb":::MLLOG \{"),
    parameters=parameters,
    facts=facts,
    ending=ending,
    extract=extract,
    warmup_steps=0,
    without_records="the log has no finished epoch or block with train_samples, and no tracked throughput",
    header=re.compile(rb"run_start"),
)
