"""nanoGPT (``train.py``), and the lines of build-nanogpt and nanochat, which print their own rate.

    tokens per iteration will be: 491,520
    iter 10: loss 8.2133, time 135.40ms, mfu 12.30%
    step    10 | loss: 6.981234 | lr 6.0000e-04 | norm: 0.2900 | dt: 338.59ms | tok/sec: 1548432.10

The time is that of one iteration on all devices; if lines are ``log_interval`` iterations apart, that of one of them.
The tokens of one iteration over all devices are printed at the start. The time of an iteration that begins with an
evaluation includes it.
"""

import re
from collections.abc import Iterator

import numpy as np

from trainmark.logs.format import Format, LogContext, search_integer, search_word, unknown_end
from trainmark.logs.lines.fields import Extract
from trainmark.logs.lines.fields import extract as extract_fields
from trainmark.logs.model import Facts, Floats, Meaning, Scope, median, read_hardware
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.schema.precision import Precision

_ITERATION = re.compile(rb"iter (?P<step>\d+): loss [^\s,]+, time (?P<step_time_ms>[\d.]+)ms[,\s]")
_EVALUATION = re.compile(rb"step (\d+): train loss [^\n]*, val loss ")
_SETTING = re.compile(rb"^(Overriding: )?([a-z]\w*) *= *([^\n#]+)", re.MULTILINE)
_PRECISIONS = {"float16": Precision.AMP_FP16, "bfloat16": Precision.AMP_BF16, "float32": Precision.FP32}


def facts(context: LogContext) -> Facts:
    """Read the tokens per iteration, and the settings overridden by the command."""
    tokens = search_integer(rb"tokens per iteration will be: ([\d,]+)\s", context.text)
    dtype = search_word(rb"(?:^|\n)(?:Overriding: )?dtype = '?(\w+)", context.text)
    return Facts(
        model="gpt2",
        precision=_PRECISIONS.get(dtype or ""),
        global_batch=tokens,
        hardware=read_hardware(context.text),
    )


def parameters(context: LogContext) -> dict[str, str]:
    """Return the settings of the configuration file, and those of the command, which win over them."""
    start, found, _ = context.head.partition(b"tokens per iteration will be: ")
    settings = _SETTING.findall(start) if found else []
    settings.sort(key=lambda each: each[0] != b"")
    return {
        name.decode(): value.decode("utf-8", "replace").strip().strip("'\"") for _, name, value in settings
    }


def extract(text: bytes) -> Extract:
    """Return step, step time and an evaluation flag of the iterations in ``text``."""
    found = extract_fields(_ITERATION, text)
    if columns := found.columns:
        evaluated = _EVALUATION.findall(text) if any(b", val loss " in part for part in found.samples) else []
        columns["evaluated"] = np.isin(columns["step"], [float(step) for step in evaluated]).astype(
            np.float64
        )
    return found


def transform(blocks: Iterator[dict[str, Floats]]) -> Iterator[dict[str, Floats]]:
    """Yield the iterations without evaluation, renumbered so that none appears to be missing.

    A clock, such as that of the records' arrival, does not advance during an iteration that is left out.
    """
    interval, before, stopped_s, last_s = None, 0, 0.0, np.nan
    for columns in blocks:
        step, left_out = columns["step"], columns.pop("evaluated") > 0
        if interval is None:
            interval = median(np.diff(step)) if len(step) > 1 else 1.0
        columns["step"] = step - interval * (before + np.cumsum(left_out))
        before += int(left_out.sum())
        if len(step) and (clock := columns.get("clock_s")) is not None:
            gaps = np.diff(clock, prepend=last_s)
            stopped = stopped_s + np.cumsum(np.where(left_out & np.isfinite(gaps), gaps, 0.0))
            stopped_s, last_s = float(stopped[-1]), float(clock[-1])
            columns["clock_s"] = clock - stopped
        yield {name: values[~left_out] for name, values in columns.items()}


FORMAT = Format(
    name="nanogpt",
    title="nanoGPT",
    framework="pytorch",
    unit="tokens/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(),
    mark=re.compile(rb"tokens per iteration will be: [\d,]+|\niter \d+: loss [^\s,]+, time [\d.]+ms"),
    facts=facts,
    parameters=parameters,
    end_state=unknown_end,
    extract=extract,
    transform=transform,
    figures={"mfu": re.compile(rb"time [\d.]+ms, mfu ([\d.]+)%")},
    header=re.compile(rb"tokens per iteration will be"),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"Overriding: dtype = {'float16' if run.amp else 'float32'}"
    yield f"tokens per iteration will be: {run.global_batch:,}"
    for line in lines_of(run):
        yield f"iter {line.step - 1}: loss 8.2133, time {line.last_step_time_s * 1000:.2f}ms, mfu 12.30%"
