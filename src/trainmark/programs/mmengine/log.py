"""OpenMMLab's trainers on MMEngine (mmdetection 3, mmsegmentation 1, mmpretrain, …).

Source: ``mmengine/runner/log_processor.py``.

    2023/11/29 02:19:30 - mmengine - INFO - Epoch(train)  [1][ 50/663]  lr: 1.9820e-03  eta: 4:27:58  time: 1.0137
    data_time: 0.0554  memory: 20138  loss: 0.7690 …

``time`` is the mean step time of the last ``window_size`` steps (usually the interval). Throughput is the loader's
``batch_size`` of one device x devices / ``time``. ``(val)`` and ``(test)`` lines are evaluation.
"""

import re

from trainmark.logs.format import Format, LogContext, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import EndState, Facts, Scope
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the environment (``GPU number``) and the printed configuration."""
    text = context.text
    wrapper = re.search(rb"\noptim_wrapper = dict\(([\s\S]{0,2000}?)\n\w+ = ", text)
    precision = None
    if wrapper:
        amp = b"AmpOptimWrapper" in wrapper[1]
        half = Precision.AMP_BF16 if b"dtype='bfloat16'" in wrapper[1] else Precision.AMP_FP16
        precision = half if amp else Precision.FP32
    # Up to the next setting; nested parts (a sampler, a data set) may have their own batch.
    loader = re.search(rb"\ntrain_dataloader = dict\(((?:[^\n]*\n(?=[ )])){0,400}[^\n]*)", text)
    return Facts(
        model=search_word(rb"\nmodel = dict\([\s\S]{0,20000}?\n    type='(\w+)'", text),
        precision=precision,
        gpus=search_integer(rb"\n    GPU number: (\d+)", text),
        batch_per_device=search_integer(rb"(?:^|\n    )batch_size=(\d+)", loader[1]) if loader else None,
        hardware=read_hardware(text),
    )


def end_state(context: LogContext) -> EndState:
    """Compare the last step with the number of steps in the record; the number of epochs is not printed."""
    records = re.findall(rb"- INFO - (Epoch|Iter)\(train\) +(?:\[ *\d+\])?\[ *(\d+)/(\d+)\]", context.tail)
    if not records:
        return EndState.UNKNOWN
    kind, step, steps = records[-1]
    if int(step) + context.step_interval <= int(steps):
        return EndState.MISSING
    return EndState.FOUND if kind == b"Iter" else EndState.UNKNOWN


_STAMP = rb"(?P<stamp>\d{4}/\d\d/\d\d [\d:]+) - mmengine - INFO - "
_TIME = rb"[^\n]*? time: (?P<step_time_s>[\d.]+)  data_time: "

FORMAT = Format(
    name="mmengine",
    title="OpenMMLab on MMEngine",
    framework="pytorch",
    unit="images/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(_STAMP + rb"Epoch\(train\) +\[ *(?P<epoch>\d+)\]\[ *(?P<step>\d+)/\d+\]" + _TIME),
        re.compile(_STAMP + rb"Iter\(train\) +\[ *(?P<step>\d+)/\d+\]" + _TIME),
    ),
    mark=re.compile(rb" - mmengine - INFO - "),
    facts=facts,
    end_state=end_state,
    header=re.compile(rb"INFO - Config:|System environment:"),
    of_last_steps=True,
    fp16=Precision.AMP_FP16,
)
