"""torchvision's reference scripts, and the many programs that took over their ``MetricLogger`` (DETR, DeiT, MAE,
DINO).

    Epoch: [0]  [  10/5005]  eta: 0:35:22  lr: 0.1  img/s: 743.67  loss: 6.95 (7.01)  …  time: 0.4294  data: 0.0003  …

``time`` is of one step, waiting for data included: the mean of the last 20 steps, of one process. ``img/s`` is of the
last step of one process and leaves waiting out; it is not read. ``batch_size`` in the printed Namespace is of one
device. ``Test:`` lines are evaluation. Source: ``references/classification/utils.py``.
"""

import re

from trainmark.logs.format import Format, LogContext, integer, namespace, search_integer, unknowable
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import by_switch
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace and the line about being distributed."""
    words, text = namespace(context), context.text
    alone = 1 if b"Not using distributed mode" in text else None
    said = integer(words, "world_size")
    if said == 1 and words.get("distributed") == "True":
        said = None  # the option's default: processes were started otherwise
    ranks = [int(rank) for rank in re.findall(rb"\| distributed init \(rank (\d+)\)", text)]
    return Facts(
        model=words.get("model") or words.get("arch"),
        precision=by_switch(words.get("amp"), Precision.AMP_FP16),
        gpus=alone
        or said
        or (search_integer(rb"\bworld_size[=:] ?(\d+)", text) if "world_size" not in words else None)
        or (max(ranks) + 1 if len(ranks) > 1 else None),
        batch_per_device=integer(words, "batch_size") or integer(words, "batch_size_per_gpu"),
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
            rb"[^\n]*?\btime: (?P<step_time_s>[\d.]+)\s+data: "
        ),
    ),
    mark=re.compile(rb"Epoch: \[\d+\]\s+\[ *\d+/\d+\]\s+eta: "),
    parameters=namespace,
    facts=facts,
    ending=unknowable,
    header=re.compile(rb"Namespace\(|distributed"),
    epoch_seconds=re.compile(
        rb"Epoch: \[(?P<epoch>\d+)\] Total time: (?:(?P<d>\d+) days?, )?(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)"
    ),
)
