"""GluonCV's detection scripts (``scripts/detection/*/train_*.py``).

    [Epoch 0][Batch 99], Speed: 35.612 samples/sec, CrossEntropy=7.912, SmoothL1=3.204
    [Epoch 0][Batch 99], LR: 1.00E-03, Speed: 35.612 samples/sec, ObjLoss=…

``Speed`` is of the whole batch of the process, all its devices. SSD, YOLO and CenterNet time the last step only, R-CNN
the steps since the line before: the line does not tell which, so it is read as one step. ``Training cost`` ends an
epoch.
"""

import re

from trainmark.logs.format import Format, LogContext, integer, listed, namespace, unknowable
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Scope
from trainmark.logs.precision import by_switch
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace; its ``batch_size`` is of the whole process."""
    words = namespace(context)
    return Facts(
        model=words.get("network"),
        precision=by_switch(words.get("amp"), Precision.AMP_FP16),
        gpus=listed(words["gpus"]) if "gpus" in words and words.get("horovod") != "True" else None,
        global_batch=integer(words, "batch_size") if words.get("horovod") == "False" else None,
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
    parameters=namespace,
    facts=facts,
    ending=unknowable,
    header=re.compile(rb"Namespace\("),
    epoch_seconds=re.compile(rb"\[Epoch (?P<epoch>\d+)\] Training cost: (?P<s>[\d.]+)"),
)
