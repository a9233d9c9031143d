"""mmsegmentation (and other OpenMMLab trainers on MMCV 1.x): step times without a rate.

    2022-02-10 06:21:17,088 - mmseg - INFO - Iter [8/40]	lr: 8.426e-03, eta: 0:01:06, time: 0.483, …

``time`` is the mean step time over the interval, with three decimals. Throughput is ``samples_per_gpu`` x devices /
``time``. ``gpu_ids = range(0, 1)`` is wrong in runs started by mpirun, so one device is accepted only if training
is not distributed. The last record includes writing the checkpoint.
"""

import re

from trainmark.logs.format import Format, LogContext, Published, config_lines, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import EndState, Facts, Scope
from trainmark.schema.precision import Precision

_CONFIG = re.compile(rb"\n *([a-z_]\w*) ?= ?([^\n]+)")


def parameters(context: LogContext) -> dict[str, str]:
    """Return the assignments of the printed configuration."""
    return config_lines(context, _CONFIG)


def facts(context: LogContext) -> Facts:
    """Read the configuration dump."""
    text = context.text
    world = search_integer(rb"gpu_ids = range\(0, (\d+)\)", text)
    distributed = search_word(rb"Distributed training: (\w+)", text)
    one_is_true = distributed is not None and distributed.lower() in ("false", "none")
    return Facts(
        model=search_word(rb"\n *type='(\w+)',\n", text),
        precision=_precision(text),
        gpus=world if world and (world > 1 or one_is_true) else None,
        batch_per_device=search_integer(rb"samples_per_gpu=(\d+)", text),
        hardware=read_hardware(text),
    )


def _precision(text: bytes) -> Precision | None:
    if re.search(rb"\nfp16 = (?!None)|Fp16OptimizerHook|--fp16\b", text):
        return Precision.AMP_FP16
    return Precision.FP32 if re.search(rb"\nfp16 = None", text) else None


def end_state(context: LogContext) -> EndState:
    """Compare the last step with the number of steps in the record itself."""
    records = re.findall(rb"- INFO - Iter \[(\d+)/(\d+)\]", context.tail)
    if not records:
        return EndState.UNKNOWN
    step, steps = (int(word) for word in records[-1])
    return EndState.FOUND if step + context.step_interval > steps else EndState.MISSING


FORMAT = Format(
    name="mmsegmentation",
    title="mmsegmentation",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"(?P<stamp>\d{4}-\d\d-\d\d [\d:,]+) - (?:mm\w+ - )?INFO - Iter \[(?P<step>\d+)/\d+\]\s+lr: "
            rb"[^\n]*[, ]time: (?P<step_time_s>[^\s,]+), data_time"
        ),
        re.compile(
            rb"(?P<stamp>\d{4}-\d\d-\d\d [\d:,]+) - (?:mm\w+ - )?INFO - "
            rb"Epoch \[(?P<epoch>\d+)\]\[(?P<step>\d+)/\d+\]\s+lr: "
            rb"[^\n]*[, ]time: (?P<step_time_s>[^\s,]+), data_time"
        ),
    ),
    mark=re.compile(rb" - mm\w+ - INFO - "),
    parameters=parameters,
    facts=facts,
    end_state=end_state,
    warmup_steps=4,
    header=re.compile(rb"INFO - Config:"),
    fp16=Precision.AMP_FP16,
    published=(Published("harmonic-skip-2", "PaddlePaddle/Perf"),),
)
