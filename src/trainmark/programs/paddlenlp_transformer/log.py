"""PaddleNLP Transformer (``examples/machine_translation/transformer``), both generations of its log line.

    [2023-07-31 12:06:27,135] [    INFO] - step_idx: 2300, epoch: 13, batch: 12, … avg_speed: 6.20 step/s,
    batch_cost: 0.16118 sec, reader_cost: 0.00439 sec, tokens: 427278, ips: 26509.75657 words/sec
    2021-05-08 17:45:47,195-INFO: step_idx: 10, epoch: 0, batch: 10, … tokens: 46643, ips: 20729.05 words/sec

``ips`` and ``tokens`` are those of one device and cover the steps since the previous record, so records are weighted by
their tokens. ``batch_size`` is in tokens. Step 0 has no rate.
"""

import re

from trainmark.logs.format import Format, LogContext, Published, config_lines, parse_setting
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import EndState, Facts, Scope
from trainmark.logs.paddle import paddle_devices
from trainmark.logs.precision import paddle_precision

_CONFIG = re.compile(rb"[{ \n]'?(\w+)'?: ('[^'\n]*'|[\w.\[\]-]+),?\}?\n")


def parameters(context: LogContext) -> dict[str, str]:
    """Return the configuration, printed with ``pprint``."""
    return config_lines(context, _CONFIG)


def facts(context: LogContext) -> Facts:
    """Read the configuration and the launch command."""
    words = parameters(context)
    devices = paddle_devices(context.text)
    return Facts(
        model="transformer",
        precision=paddle_precision(words.get("use_amp"), words.get("use_pure_fp16")),
        nodes=devices.nodes,
        gpus=devices.gpus,
        gpus_per_node=devices.gpus_per_node,
        batch_per_device=parse_setting(words, "batch_size"),
        hardware=read_hardware(context.text),
    )


def end_state(context: LogContext) -> EndState:
    """Compare the last step with ``max_iter``; the record at the limit itself is not printed."""
    steps = parse_setting(parameters(context), "max_iter")
    if steps is None:
        return EndState.UNKNOWN
    reached = context.last_step is not None and context.last_step + context.step_interval >= steps
    return EndState.FOUND if reached else EndState.MISSING


FORMAT = Format(
    name="paddlenlp-transformer",
    title="PaddleNLP Transformer",
    framework="paddle",
    unit="words/s",
    scope=Scope.DEVICE,
    records=(
        re.compile(
            rb"step_idx: *(?P<step>\d+), epoch: *(?P<epoch>\d+), "
            rb"[^\n]*tokens: *(?P<samples>\d+), *ips: *(?P<rate>[^\s,]+)(?:\s|,(?!\d))"
        ),
    ),
    mark=re.compile(rb"step_idx: \d+, epoch: \d+, batch|'beam_search_version'"),
    parameters=parameters,
    facts=facts,
    end_state=end_state,
    header=re.compile(rb"max_iter"),
    published=(Published("trimmed-skip-5", "PaddlePaddle/Perf (TIPC's analysis)"),),
)
