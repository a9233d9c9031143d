"""timm ``train.py`` (pytorch-image-models).

    Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.412s,  621.36/s  (0.530s,  483.02/s)  LR: 1.0e-06  Data: …

The rate is global: the batch times the processes over the last step's time; the one in brackets is this step's batch
over the average time since the epoch's start. Two such averages give the time of all steps between them, except for the
epoch's last, whose batch is the remainder of the data. ``Test:`` lines are evaluation.
"""

import re

from trainmark.logs.format import Format, LogContext, ends_with, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Scope
from trainmark.schema.precision import Precision

MIXED = {"bfloat16": Precision.AMP_BF16, "float16": Precision.AMP_FP16}


def facts(context: LogContext) -> Facts:
    """Read the program's first lines; the batch is printed with the learning rate computed from it."""
    text = context.text
    single = 1 if re.search(rb"Training with a single process", text) else None
    dtype = search_word(rb"AMP[^\n]*\(dtype=(?:torch\.)?(\w+)\)", text)
    dtype = dtype or search_word(rb"--amp-dtype[= ](\w+)", text)
    precision = None
    if re.search(rb"Training in mixed precision", text):
        # The program prints the same line for both types, and uses FP16 if its command names none.
        precision = MIXED.get(dtype or ("float16" if re.search(rb"--amp\b(?!-)", text) else ""))
    elif re.search(rb"AMP not enabled\. Training in (?:torch\.)?float32", text):
        precision = Precision.FP32
    return Facts(
        model=search_word(rb"Model (\S+) created", text),
        precision=precision,
        gpus=single or search_integer(rb"Process \d+, total (\d+)", text),
        batch_per_device=search_integer(rb"batch_size[=: ]+(\d+)", text),
        global_batch=search_integer(rb"effective global batch size \((\d+)\)", text),
        hardware=read_hardware(text),
    )


FORMAT = Format(
    name="timm",
    title="timm",
    framework="pytorch",
    unit="images/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(
        re.compile(
            rb"Train: (?P<epoch>\d+) \[ *(?P<step>\d+)/\d+ \([^)\n]*\)\][^\n]*?Time: *[^\s,]+s, *(?P<rate>[^\s/]+)/s"
            rb" +\( *(?P<average_time_s>[^\s,]+)s, *(?P<average_rate>[^\s/]+)/s\)"
        ),
    ),
    mark=re.compile(rb"Train: \d+ \[ *\d+/\d+ \(|Model \S+ created, param count"),
    averages_from=-1,
    facts=facts,
    end_state=ends_with(re.compile(rb"\*\*\* Best metric: ")),
)
