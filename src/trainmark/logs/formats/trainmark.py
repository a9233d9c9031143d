"""trainmark's own events (``events.jsonl``): see ``trainmark.logs.events`` for the writer's side.

    DLLL {"step": "PARAMETER", "data": {"schema": "trainmark.events/1", …}}
    DLLL {"step": [0, 25], "data": {"phase": "measured", "step_time_s": 0.0512, "loss": 6.9}}

Steps of the phase ``measured`` are records; ``step_time_s`` is of the whole step, all ranks synchronised by the
gradient exchange, so a step's samples are the global batch. The warm-up is already apart.
"""

import json
import re

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.format import Context, Format, dll_parameters, ends_with, integer, json_data
from trainmark.logs.model import Facts, Precision, Problem, Scope, Unit

_SUMMARY = re.compile(rb'DLLL (\{[^\n]*"step": ?\[\][^\n]*\})\s*\n')
_STEP = re.compile(rb'DLLL (\{[^\n]*"step": ?\[ ?\d+[^\n]*\})\s*\n')


def facts(context: Context) -> Facts:
    """Read the PARAMETER line."""
    words = dll_parameters(context)
    precision = words.get("precision")
    return Facts(
        model=words.get("model"),
        precision=Precision(precision) if precision in set(Precision) else None,
        nodes=integer(words, "nodes"),
        gpus=integer(words, "world_size"),
        batch_per_device=integer(words, "batch_per_device"),
        hardware=words.get("device_name"),
    )


def extract(text: bytes) -> dict[str, Floats]:
    """Return epoch, step and step time of the measured steps in ``text``."""
    rows: list[tuple[float, float, float]] = []
    for body in _STEP.findall(text):
        try:
            event = json.loads(body)
            step, data = event["step"], event["data"]
            if data.get("phase") == "measured":
                rows.append((float(step[0]), float(step[-1]), float(data["step_time_s"])))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            continue
    if not rows:
        return {}
    epoch, step_, time_s = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    return {"epoch": epoch, "step": step_, "step_time_s": time_s}


def doubts(context: Context) -> tuple[Problem, ...]:
    """Return what the run found suspect in itself (``suspect`` of the last event)."""
    summaries = _SUMMARY.findall(context.tail)
    suspect = json_data(summaries[-1]).get("suspect") if summaries else None
    return tuple(
        Problem(str(found.get("code")), str(found.get("sentence")))
        for found in (suspect if isinstance(suspect, list) else [])
        if isinstance(found, dict)
    )


FORMAT = Format(
    name="trainmark",
    framework=None,
    unit=Unit.IMAGES,
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(rb'"schema": ?"trainmark\.events/1"'),
    figures={"summary": re.compile(rb'DLLL \{[^\n]*"step": ?\[\][^\n]*"throughput": ?([^\s,}]+)[\s,}]')},
    parameters=dll_parameters,
    facts=facts,
    ending=ends_with(re.compile(rb'DLLL \{[^\n]*"step": ?\[\][^\n]*"throughput": ?[^\n]*\}\s*\n')),
    extract=extract,
    doubts=doubts,
    warmup_steps=0,
    without_records="the run has no measured step",
    header=re.compile(rb"PARAMETER"),
)
