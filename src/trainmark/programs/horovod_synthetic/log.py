"""Horovod's synthetic benchmarks (``examples/*/…synthetic_benchmark.py``).

    Iter #0: 312.4 img/sec per GPU
    Total img/sec on 8 GPU(s): 2491.2 +-12.3

An ``Iter`` is ``num_batches_per_iter`` steps (10) after the tool's own warm-up; its rate is that of one device.
``Total`` is the arithmetic mean over the iterations times the number of devices.
"""

import re

from trainmark.logs.format import Format, LogContext, Published, ends_with, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read the program's first lines."""
    text = context.text
    fp16 = re.search(rb"--(?:use-)?fp16(?!-allreduce)\b", text)
    return Facts(
        model=search_word(rb"Model: (\S+)", text),
        precision=Precision.FP16 if fp16 else None,
        gpus=search_integer(rb"Number of [A-Z]PUs: (\d+)", text)
        or search_integer(rb"Total img/sec on (\d+) ", text),
        batch_per_device=search_integer(rb"Batch size: (\d+)", text),
        hardware=read_hardware(text),
    )


FORMAT = Format(
    name="horovod-synthetic",
    title="Horovod's synthetic benchmarks",
    framework=None,
    unit="images/s",
    scope=Scope.DEVICE,
    records=(re.compile(rb"Iter #(?P<step>\d+): (?P<rate>\S+) img/sec (?:per )?\w"),),
    mark=re.compile(rb"Iter #\d+: \S+ img/sec|Running benchmark\.\.\."),
    figures={"summary": re.compile(rb"Total img/sec on \d+ \w+\(s\): (\S+) \+-")},
    facts=facts,
    end_state=ends_with(re.compile(rb"Total img/sec on \d+ \w+\(s\): \S+ \+-\S")),
    warmup_steps=0,
    header=re.compile(rb"Batch size: "),
    published=(Published("summary", "Horovod's own report"),),
)
