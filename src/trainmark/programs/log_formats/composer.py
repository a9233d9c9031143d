"""MosaicML Composer's console log with its ``SpeedMonitor`` (llm-foundry).

    [batch=10/4800]:
             Train throughput/batches_per_sec: 0.1523
             Train throughput/samples_per_sec: 38.9912
             Train throughput/device/samples_per_sec: 4.8739
             Train throughput/tokens_per_sec: 79853.9770
             Train throughput/device/tokens_per_sec: 9981.7471
             Train throughput/device/mfu: 0.4101

Rates without ``device/`` cover all devices and average over the last ``window_size`` batches, without evaluation.
The first window prints no rate.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format, LogContext, search_integer, search_word, unknown_end
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Problem, Scope
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.schema.precision import Precision

_PRECISIONS = {
    "amp_bf16": Precision.AMP_BF16,
    "amp_fp16": Precision.AMP_FP16,
    "fp32": Precision.FP32,
    "amp_fp8": None,
}


def facts(context: LogContext) -> Facts:
    """Read the configuration."""
    text = context.text
    word = search_word(rb"\n *precision: (\w+)", text)
    return Facts(
        model=search_word(rb"\n *run_name: (\S+)", text),
        precision=_PRECISIONS.get(word or ""),
        gpus=search_integer(rb"\n *(?:n_gpus|num_gpus|world_size|dist/world_size): (\d+)", text),
        hardware=read_hardware(text),
    )


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check whether the configuration is printed again: the rates have no counter that would show a second run."""
    starts = context.notes.count(b"Config:")
    if starts < 2:
        return ()
    sentence = (
        f"the configuration is printed {starts} times: the file contains several runs, or a restarted one"
    )
    return (Problem("several-runs", sentence),)


FORMAT = Format(
    name="composer",
    title="Composer and llm-foundry",
    framework="pytorch",
    unit="tokens/s",
    pattern_units=("tokens/s", "samples/s"),
    scope=Scope.GLOBAL,
    records=(
        re.compile(rb"Train throughput/tokens_per_sec: (?P<rate>[\d.]+)\s"),
        re.compile(rb"Train throughput/samples_per_sec: (?P<rate>[\d.]+)\s"),
    ),
    mark=re.compile(rb"\t Train (?:time/batch|throughput/\w+|loss/train/total): "),
    facts=facts,
    doubts=doubts,
    notes=re.compile(rb"^Config:", re.MULTILINE),
    end_state=unknown_end,
    figures={
        "mfu_share": re.compile(rb"Train throughput/device/mfu: ([\d.]+)\s"),
    },
    warmup_steps=1,
    header=re.compile(rb"Config:|\*{10}"),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield "*" * 30
    yield "Config:"
    yield f"n_gpus: {run.gpus}"
    yield f"precision: {'amp_fp16' if run.amp else 'fp32'}"
    yield "*" * 30
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield f"[batch={line.step}/{total}]:"
        yield f"\t Train time/batch: {line.step - 1}"
        yield "\t Train loss/train/total: 8.4213"
        yield f"\t Train throughput/tokens_per_sec: {line.rate:.4f}"
        yield f"\t Train throughput/device/tokens_per_sec: {line.rate / run.gpus:.4f}"
        yield "\t Train throughput/device/mfu: 0.4101"
