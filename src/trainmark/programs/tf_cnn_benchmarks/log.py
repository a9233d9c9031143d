"""TensorFlow ``tf_cnn_benchmarks`` (``tensorflow/benchmarks``).

    Step	Img/sec	total_loss
    10	images/sec: 312.4 +/- 0.5 (jitter = 1.2)	7.972
    ----------------------------------------------------------------
    total images/sec: 311.92

The rate is the global mean since the end of the tool's own warm-up; ``total images/sec`` is all images over all time.
"""

import re

from trainmark.logs.format import (
    Format,
    LogContext,
    Published,
    count_items,
    ends_with,
    search_integer,
    search_word,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Scope
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read the summary of the parameters at the start."""
    text = context.text
    devices = count_items(search_word(rb"Num devices: *(\[[^\]\n]*\])", text)) or count_items(
        search_word(rb"Devices: *(\[[^\]\n]*\])", text)
    )
    batch = search_integer(rb"(\d+)(?:\.0)? per device", text)
    world = search_integer(rb"Batch size: +(\d+) global", text)
    if world and batch:
        devices = world // batch
    fp16 = re.search(rb"use_fp16[=: ]+True|--use_fp16(?!=False)", text)
    return Facts(
        model=search_word(rb"\nModel: +(\S+)", text),
        precision=Precision.FP16 if fp16 else None,
        gpus=devices,
        batch_per_device=batch,
        hardware=read_hardware(text),
    )


FORMAT = Format(
    name="tf-cnn-benchmarks",
    title="tf_cnn_benchmarks",
    framework="tensorflow",
    unit="images/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.RUNNING,
    records=(re.compile(rb"(?<![\d.])(?P<step>\d+)\s+images/sec: (?P<rate>\S+) \+/- "),),
    mark=re.compile(rb"\d\s+images/sec: |Img/sec\s+total_loss|total images/sec:"),
    figures={"summary": re.compile(rb"total images/sec: (\S+)\s")},
    facts=facts,
    end_state=ends_with(re.compile(rb"total images/sec: \S+\s")),
    warmup_steps=0,
    header=re.compile(rb"TensorFlow: |Img/sec"),
    published=(Published("summary", "TensorFlow's own report"),),
)
