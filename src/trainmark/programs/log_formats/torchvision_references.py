"""torchvision's reference scripts, and the programs that copied their ``MetricLogger`` (DETR, DeiT, MAE, DINO).

    Epoch: [0]  [  10/5005]  eta: 0:35:22  lr: 0.1  img/s: 743.67  loss: 6.95 (7.01)  …  time: 0.4294  data: 0.0003  …

``time`` is the mean step time of the last 20 steps of one process, including the wait for data. ``img/s`` is that of
the last step of one process without the wait; it is not read. ``batch_size`` in the printed Namespace is that of one
device. ``Test:`` lines are evaluation. Source: ``references/classification/utils.py``.
"""

import re
from collections.abc import Iterator
from datetime import timedelta

from trainmark.logs.format import (
    Format,
    LogContext,
    namespace_arguments,
    parse_setting,
    search_integer,
    unknown_end,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace and the line on distributed mode."""
    words, text = namespace_arguments(context), context.text
    alone = 1 if b"Not using distributed mode" in text else None
    world_size = parse_setting(words, "world_size")
    if world_size == 1 and words.get("distributed") == "True":
        world_size = None  # the option's default: a launcher started the processes
    ranks = [int(rank) for rank in re.findall(rb"\| distributed init \(rank (\d+)\)", text)]
    return Facts(
        model=words.get("model") or words.get("arch"),
        precision=precision_from_switch(words.get("amp"), Precision.AMP_FP16),
        gpus=alone
        or world_size
        or (search_integer(rb"\bworld_size[=:] ?(\d+)", text) if "world_size" not in words else None)
        or (max(ranks) + 1 if len(ranks) > 1 else None),
        batch_per_device=parse_setting(words, "batch_size") or parse_setting(words, "batch_size_per_gpu"),
        hardware=read_hardware(text),
    )


FORMAT = Format(
    name="torchvision-references",
    title="torchvision references",
    framework="pytorch",
    unit="images/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"Epoch: \[(?P<epoch>\d+)\]\s+\[ *(?P<step>\d+)/\d+\]\s+eta: "
            rb"[^\n]*?\btime: (?P<step_time_s>[\d.]+)\s+data: (?P<data_time_s>[\d.]+)(?=[^\d.])"
        ),
        re.compile(
            rb"Epoch: \[(?P<epoch>\d+)\]\s+\[ *(?P<step>\d+)/\d+\]\s+eta: "
            rb"[^\n]*?\btime: (?P<step_time_s>[\d.]+)\s+data: "
        ),
    ),
    mark=re.compile(rb"Epoch: \[\d+\]\s+\[ *\d+/\d+\]\s+eta: "),
    parameters=namespace_arguments,
    facts=facts,
    end_state=unknown_end,
    header=re.compile(rb"Namespace\(|distributed"),
    epoch_seconds=re.compile(
        rb"Epoch: \[(?P<epoch>\d+)\] Total time: (?:(?P<d>\d+) days?, )?(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)"
    ),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"| distributed init (rank 0): env://, world_size={run.gpus}"
    yield f"Namespace(amp={run.amp}, batch_size={run.batch_per_device}, model='resnet50', world_size={run.gpus})"
    total = len(run.step_times_s)
    for line in lines_of(run):
        rate = run.batch_per_device / line.last_step_time_s
        yield (
            f"Epoch: [0]  [{line.step - 1:4d}/{total}]  eta: 0:35:22  lr: 0.1  img/s: {rate:.2f}  "
            f"loss: 6.9812 (7.0133)  acc1: 0.0000 (0.1000)  time: {line.step_time_s:.4f}  data: 0.0003  max mem: 7812"
        )
    yield f"Epoch: [0] Total time: {timedelta(seconds=round(sum(run.step_times_s)))}"
