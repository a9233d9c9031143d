"""PaddleSeg training (``train.py``).

    2023-07-27 12:59:09 [INFO]	[TRAIN] epoch: 1, iter: 30/400, loss: 1.5, lr: 0.009345, batch_cost: 0.5374,
    reader_cost: 0.02020, ips: 14.8861 samples/sec | ETA 00:03:18

``ips`` is that of one device and covers the steps since the previous record. ``batch_size`` is that of one device.
``GPUs used`` counts the devices visible to the program: all ranks, or those of its node, depending on the launcher.
``[EVAL]`` lines are evaluation.
"""

import re

from trainmark.logs.format import Format, LogContext, Published, config_lines, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import EndState, Facts, Scope
from trainmark.logs.paddle import paddle_devices
from trainmark.logs.precision import mentions_mixed_precision
from trainmark.schema.precision import Precision

_CONFIG = re.compile(rb"\n *([A-Za-z_][\w ]*): ([^\n]+)")


def parameters(context: LogContext) -> dict[str, str]:
    """Return the environment and configuration dumps."""
    return config_lines(context, _CONFIG)


def facts(context: LogContext) -> Facts:
    """Read the environment (``GPUs used``) and the configuration."""
    text = context.text
    model = re.search(rb"\nmodel:\n(?:  [^\n]*\n)*?  type: (\w+)\n", text)
    ranks = search_integer(rb"init nccl context nranks: (\d+)", text) or search_integer(
        rb"dp_degree: (\d+)", text
    )
    devices = paddle_devices(text)
    used = search_integer(rb"\nGPUs used: (\d+)", text)
    if devices.nodes and devices.gpus_per_node:
        ranks, used = ranks or devices.nodes * devices.gpus_per_node, None
    elif devices.nodes:
        ranks = ranks or used  # it counts ranks
    return Facts(
        model=model[1].decode() if model else None,
        precision=_precision(text),
        nodes=devices.nodes,
        gpus=ranks or devices.gpus,
        gpus_per_node=used or devices.gpus_per_node,
        batch_per_device=search_integer(rb"\nbatch_size: (\d+)", text),
        hardware=read_hardware(text),
    )


def _precision(text: bytes) -> Precision | None:
    level = search_word(rb"(?:AMP level ?=|amp_level:) *'?(O[12])", text)
    mixed = mentions_mixed_precision(text)
    on = mixed or re.search(rb"\nprecision: *'?fp16|--precision[ =]+fp16", text)
    if on or (level and b"amp_level" not in text):
        return Precision.FP16 if level == "O2" else Precision.AMP_FP16
    single = mixed is False or re.search(rb"\nprecision: *'?fp32|--precision[ =]+fp32", text)
    return Precision.FP32 if single else None


def end_state(context: LogContext) -> EndState:
    """Compare the last step with the number of steps in the record itself."""
    records = re.findall(rb"\[TRAIN\] epoch[:=] *\d+, iter[:=] *(\d+)/(\d+),", context.tail)
    if not records:
        return EndState.MISSING
    step, steps = (int(word) for word in records[-1])
    return EndState.FOUND if step + context.step_interval > steps else EndState.MISSING


FORMAT = Format(
    name="paddleseg",
    title="PaddleSeg",
    framework="paddle",
    unit="samples/s",
    scope=Scope.DEVICE,
    records=(
        re.compile(
            rb"\[TRAIN\] epoch[:=] *(?P<epoch>\d+), "
            rb"iter[:=] *(?P<step>\d+)/\d+, [^\n]*ips[:=] *(?P<rate>[^\s,]+)(?:\s|,(?!\d))"
        ),
    ),
    mark=re.compile(rb"\[TRAIN\] epoch|PaddleSeg: "),
    parameters=parameters,
    facts=facts,
    end_state=end_state,
    header=re.compile(rb"Config Information"),
    published=(Published("mean-skip-5", "PaddlePaddle/Perf"),),
)
