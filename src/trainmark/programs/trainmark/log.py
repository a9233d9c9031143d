"""trainmark's own events (``events.jsonl``), read by ``trainmark.logs.events`` as a campaign reads them.

    DLLL {"step": "PARAMETER", "data": {"schema": "trainmark.events/1", …}}
    DLLL {"step": [0, 25], "data": {"phase": "measured", "step_time_s": 0.0512, "loss": 6.9}}

Steps of the phase ``measured`` are records: the warm-up is already apart. The run says its own window, so its number
is not made of the records.
"""

import re

from trainmark.logs.events import UNSAID_UNIT, RunEvents, parse_events
from trainmark.logs.fields import Extract
from trainmark.logs.format import Format, LogContext, Published, dll_parameters, ends_with, integer
from trainmark.logs.model import Facts, Problem, RunWords, Scope
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
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


def extract(text: bytes) -> Extract:
    """Return epoch, step and step time of the measured steps in ``text``."""
    events = _events(text)
    if not events.measured.any():
        return Extract({}, [text])
    epoch, step = events.steps[events.measured].T
    times = events.step_times_s[events.measured]
    return Extract({"epoch": epoch, "step": step, "step_time_s": times}, [text])


def run_words(context: LogContext) -> RunWords:
    """Return what the run says of itself."""
    events = _events(context.text)
    return RunWords(events.parameters, events.summary)


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Return what the run found suspect in itself (``suspect`` of the last event)."""
    suspect = _events(context.tail).summary.get("suspect")
    return tuple(
        Problem(str(found.get("code")), str(found.get("sentence")))
        for found in (suspect if isinstance(suspect, list) else [])
        if isinstance(found, dict)
    )


def _events(text: bytes) -> RunEvents:
    return parse_events(text.decode("utf-8", "replace").split("\n"))


FORMAT = Format(
    name="trainmark",
    title="trainmark",
    framework=None,
    unit=UNSAID_UNIT,
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(rb'"schema": ?"trainmark\.events/1"'),
    figures={"summary": re.compile(rb'DLLL \{[^\n]*"step": ?\[\][^\n]*"throughput": ?([^\s,}]+)[\s,}]')},
    parameters=dll_parameters,
    facts=facts,
    ending=ends_with(re.compile(rb'DLLL \{[^\n]*"step": ?\[\][^\n]*"throughput": ?[^\n]*\}\s*\n')),
    extract=extract,
    run_words=run_words,
    doubts=doubts,
    warmup_steps=0,
    without_records="the run has no measured step",
    header=re.compile(rb"PARAMETER"),
    published=(Published("summary", "trainmark's own report"),),
)
