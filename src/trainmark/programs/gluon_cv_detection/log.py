"""GluonCV's detection scripts (``scripts/detection/*/train_*.py``).

    [Epoch 0][Batch 99], Speed: 35.612 samples/sec, CrossEntropy=7.912, SmoothL1=3.204
    [Epoch 0][Batch 99], LR: 1.00E-03, Speed: 35.612 samples/sec, ObjLoss=…

``Speed`` covers the whole batch of the process, on all its devices. SSD, YOLO and CenterNet time only the last step,
R-CNN the steps since the previous line; the line does not show which, so it is read as one step. ``Training cost``
ends an epoch.
"""

import re

from trainmark.logs.format import (
    Format,
    LogContext,
    count_items,
    namespace_arguments,
    parse_setting,
    unknown_end,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace; its ``batch_size`` is that of the whole process."""
    words = namespace_arguments(context)
    return Facts(
        model=words.get("network"),
        precision=precision_from_switch(words.get("amp"), Precision.AMP_FP16),
        gpus=count_items(words["gpus"]) if "gpus" in words and words.get("horovod") != "True" else None,
        global_batch=parse_setting(words, "batch_size") if words.get("horovod") == "False" else None,
        hardware=read_hardware(context.text),
    )


FORMAT = Format(
    name="gluoncv-detection",
    title="gluon-cv detection",
    framework="mxnet",
    unit="images/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(
        re.compile(
            rb"\[Epoch (?P<epoch>\d+)\]\[Batch (?P<step>\d+)\], (?:LR: [^\s,]+, )?Speed: (?P<rate>[\d.]+) samples/sec"
        ),
    ),
    mark=re.compile(rb"\[Epoch \d+\]\[Batch \d+\], "),
    parameters=namespace_arguments,
    facts=facts,
    end_state=unknown_end,
    header=re.compile(rb"Namespace\("),
    epoch_seconds=re.compile(rb"\[Epoch (?P<epoch>\d+)\] Training cost: (?P<s>[\d.]+)"),
)
