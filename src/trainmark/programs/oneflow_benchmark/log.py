"""OneFlow-Benchmark (``Classification/cnns``), and the later OneFlow models.

    train: epoch 0, iter 20, loss: 7.087004, top_1: 0.000000, top_k: 0.000000, samples/s: 3988.891 1597933942.9863544
    [rank:0] [train], epoch: 0/50, iter: 100/625, loss: 0.86, top1: 0.05, throughput: 1390.19 | …

The rate is global and covers the steps since the previous record; the time in seconds since 1970 may follow.
``validation:`` lines are evaluation. A rate of -1 means "not measured": then the clock is used.
"""

import re

from trainmark.logs.format import (
    Format,
    LogContext,
    Published,
    config_lines,
    parse_setting,
    total_devices,
    unknown_end,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.case import Precision

_ARGUMENT = re.compile(rb"\n?([a-z_]\w*) = ([^\n]+)\n")


def parameters(context: LogContext) -> dict[str, str]:
    """Return the printed arguments (``gpu_num_per_node = 8``)."""
    return config_lines(context, _ARGUMENT)


def facts(context: LogContext) -> Facts:
    """Read the printed arguments."""
    words = parameters(context)
    nodes = parse_setting(words, "num_nodes")
    devices = parse_setting(words, "gpu_num_per_node") or parse_setting(words, "device_num_per_node")
    return Facts(
        model=words.get("model"),
        precision=precision_from_switch(words.get("use_fp16"), Precision.AMP_FP16),
        nodes=nodes,
        gpus=total_devices(nodes, devices),
        batch_per_device=parse_setting(words, "batch_size_per_device")
        or parse_setting(words, "train_batch_size"),
        hardware=read_hardware(context.text),
    )


FORMAT = Format(
    name="oneflow",
    title="OneFlow-Benchmark",
    framework="oneflow",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"train: epoch (?P<epoch>\d+), iter (?P<step>\d+), [^\n]*samples/s: (?P<rate>\S+)"
            rb"(?: (?P<clock_s>\d{9,}\.\d+))?\s"
        ),
        re.compile(
            rb"\[train\], epoch: (?P<epoch>\d+)/\d+, iter: (?P<step>\d+)/\d+, [^\n]*throughput: (?P<rate>[^\s|]+) "
        ),
    ),
    mark=re.compile(rb"train: epoch \d+, iter \d+, loss|\[train\], epoch: \d+/\d+, iter|oneflow"),
    parameters=parameters,
    facts=facts,
    end_state=unknown_end,
    header=re.compile(rb"gpu_num_per_node"),
    published=(Published("dlperf-time", "Oneflow-Inc/DLPerf"),),
)
