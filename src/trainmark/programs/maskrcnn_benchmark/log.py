"""maskrcnn-benchmark (Facebook's, and NVIDIA's and MLPerf's on it: ``maskrcnn_benchmark/engine/trainer.py``).

    maskrcnn_benchmark.trainer INFO: eta: 1:02:03  iter: 20  loss: 1.98 (2.1)  …
    time: 0.4512 (0.5123)  data: 0.01 (0.02)  …

``time`` is the median of the last 20 iterations, and in brackets the mean of all since the start; two such means give
the time between them. The batch is not on the line: ``IMS_PER_BATCH`` of the configuration is that of all devices.
"""

import re

from trainmark.logs.format import Format, LogContext, ends_with, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Problem, Scope
from trainmark.programs.doubts import resumed_averages
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed configuration and the number of processes."""
    text = context.text
    solver = re.search(rb"\nSOLVER:\n((?:  [^\n]*\n)+)", text)
    dtype = search_word(rb'\nDTYPE: "?(float16|float32)', text)
    return Facts(
        model="mask-rcnn",
        precision={"float16": Precision.AMP_FP16, "float32": Precision.FP32}.get(dtype or ""),
        gpus=search_integer(rb"Using (\d+) GPUs", text),
        global_batch=search_integer(rb"  IMS_PER_BATCH: (\d+)\n", solver[1]) if solver else None,
        hardware=read_hardware(text),
    )


_HEADER = re.compile(rb"Using \d+ GPUs|Running with config")


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check for a resumed run, whose averages cover fewer iterations than its counter."""
    return tuple(resumed_averages(context, _HEADER))


FORMAT = Format(
    name="maskrcnn-benchmark",
    title="maskrcnn-benchmark",
    framework="pytorch",
    unit="images/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(
        re.compile(
            rb" iter: (?P<step>\d+)  [^\n]*?\btime: (?P<step_time_s>[\d.]+) \((?P<average_time_s>[\d.]+)\)\s+data: "
        ),
    ),
    mark=re.compile(rb"maskrcnn_benchmark(?:\.\w+)? INFO: "),
    facts=facts,
    end_state=ends_with(re.compile(rb"Total training time: ")),
    figures={"summary": re.compile(rb"Training perf is: ([\d.]+) FPS")},
    doubts=doubts,
    header=_HEADER,
)
