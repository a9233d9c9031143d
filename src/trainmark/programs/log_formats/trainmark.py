"""trainmark's own events (``events.jsonl``), read by ``trainmark.logs.events`` like in a campaign.

    DLLL {"step": "PARAMETER", "data": {"schema": "trainmark.events/1", …}}
    DLLL {"step": [0, 25], "data": {"phase": "measured", "step_time_s": 0.0512, "loss": 6.9}}

Steps of the phase ``measured`` are records: the warm-up is already separate. The run reports its own window, so its
number is not computed from the records.
"""

import json
import re
from collections.abc import Iterator

from trainmark.logs.events import DEFAULT_UNIT, RunEvents, parse_events
from trainmark.logs.format import Format, LogContext, Published, dll_parameters, ends_with, parse_setting
from trainmark.logs.lines import fields
from trainmark.logs.lines.fields import Extract
from trainmark.logs.model import Facts, OwnRun, Problem, Scope
from trainmark.logs.synthetic import SampleRun
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the PARAMETER line."""
    words = dll_parameters(context)
    precision = words.get("precision")
    return Facts(
        model=words.get("model"),
        precision=Precision(precision) if precision in set(Precision) else None,
        nodes=parse_setting(words, "nodes"),
        gpus=parse_setting(words, "world_size"),
        batch_per_device=parse_setting(words, "batch_per_device"),
        hardware=words.get("device_name"),
    )


def extract(text: bytes) -> Extract:
    """Return epoch, step and step time of the measured steps in ``text``."""
    found = fields.extract(_STEP, text)
    if len(found.columns.get("step", ())) == text.count(b'"measured"'):
        return found
    # Lines in another form than the workers write, or damaged ones.
    events = _events(text)
    if not events.measured.any():
        return Extract({}, [text])
    epoch, step = events.steps[events.measured].T
    times = events.step_times_s[events.measured]
    return Extract({"epoch": epoch, "step": step, "step_time_s": times}, [text])


def own_run(context: LogContext) -> OwnRun:
    """Return the parameters and the summary that the run reports."""
    events = _events(_without_steps(context.text))
    return OwnRun(events.parameters, events.summary)


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Return the problems that the run found itself (``suspect`` of the last event)."""
    suspect = _events(_without_steps(context.tail)).summary.get("suspect")
    return tuple(
        Problem(str(found.get("code")), str(found.get("sentence")))
        for found in (suspect if isinstance(suspect, list) else [])
        if isinstance(found, dict)
    )


def _without_steps(text: bytes) -> bytes:
    """Return the lines of ``text`` that may be parameters or a summary; steps are most of them."""
    return b"\n".join(line for line in text.split(b"\n") if b'"phase"' not in line)


def _events(text: bytes) -> RunEvents:
    return parse_events(text.decode("utf-8", "replace").split("\n"))


_VALUE = rb"(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|true|false|null)"
_STEP = re.compile(
    rb'DLLL \{(?:"\w+": "[^"\\\n]*", )*"step": \[(?P<epoch>\d+), (?P<step>\d+)\], "data": '
    rb'\{"phase": "measured", "step_time_s": (?P<step_time_s>\d+(?:\.\d+)?(?:e-?\d+)?)'
    rb'(?:, "\w+": %s)*\}\}\n' % _VALUE
)
"""A measured step in the form in which the workers write it: read without decoding its JSON."""

FORMAT = Format(
    name="trainmark",
    title="trainmark",
    framework=None,
    unit=DEFAULT_UNIT,
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(rb'"schema": ?"trainmark\.events/1"'),
    figures={"summary": re.compile(rb'DLLL \{[^\n]*"step": ?\[\][^\n]*"throughput": ?([^\s,}]+)[\s,}]')},
    parameters=dll_parameters,
    facts=facts,
    end_state=ends_with(re.compile(rb'DLLL \{[^\n]*"step": ?\[\][^\n]*"throughput": ?[^\n]*\}\s*\n')),
    extract=extract,
    own_run=own_run,
    doubts=doubts,
    warmup_steps=0,
    without_records="the run has no measured step",
    header=re.compile(rb"PARAMETER"),
    published=(Published("summary", "trainmark's own report"),),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""

    def event(step: object, data: dict[str, object]) -> str:
        return "DLLL " + json.dumps({"step": step, "data": data})

    yield event(
        "PARAMETER",
        {
            "schema": "trainmark.events/1",
            "framework": "pytorch",
            "model": "resnet50",
            "precision": "amp-fp16" if run.amp else "fp32",
            "world_size": run.gpus,
            "batch_per_device": run.batch_per_device,
            "global_batch": run.global_batch,
            "unit": "samples/s",
        },
    )
    yield event([0, 0], {"phase": "first_step", "step_time_s": 9.0, "loss": 6.9})
    for number, seconds in enumerate(run.step_times_s, start=1):
        yield event([0, number], {"phase": "measured", "step_time_s": seconds, "loss": 6.9})
    seconds = sum(run.step_times_s)
    samples = run.global_batch * len(run.step_times_s)
    yield event(
        [], {"window_s": seconds, "samples": samples, "throughput": samples / seconds, "world_size": run.gpus}
    )
