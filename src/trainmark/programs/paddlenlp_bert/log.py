"""PaddleNLP BERT pre-training, static graph (``examples/language_model/bert/static``).

    total step: 20, epoch: 0, batch: 19, loss: 11.09, avg_reader_cost: 0.00011 sec, avg_batch_cost: 0.14243 sec,
    avg_samples: 96.00000, ips: 673.51948 sequences/sec

``ips`` is that of one device and covers the micro-steps since the previous record; with ``gradient_merge_steps`` the
record with the optimizer step is slower, and a trimmed mean deletes exactly those. There are no time stamps. Logs of
several nodes print ``tobal step``.
"""

import re

from trainmark.logs.format import Format, LogContext, Published, namespace_arguments, parse_setting
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import EndState, Facts, Scope
from trainmark.logs.paddle import paddle_devices
from trainmark.logs.precision import paddle_precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace and the launch command."""
    words = namespace_arguments(context)
    devices = paddle_devices(context.text)
    return Facts(
        model=words.get("model_name_or_path"),
        precision=paddle_precision(words.get("use_amp"), words.get("use_pure_fp16")),
        nodes=devices.nodes,
        gpus=devices.gpus,
        gpus_per_node=devices.gpus_per_node,
        batch_per_device=parse_setting(words, "batch_size"),
        hardware=read_hardware(context.text),
    )


def end_state(context: LogContext) -> EndState:
    """Compare the last step with ``max_steps``."""
    steps = parse_setting(namespace_arguments(context), "max_steps")
    if steps is None:
        return EndState.UNKNOWN
    reached = context.last_step is not None and context.last_step + context.step_interval > steps
    return EndState.FOUND if reached else EndState.MISSING


FORMAT = Format(
    name="paddlenlp-bert",
    title="PaddleNLP BERT",
    framework="paddle",
    unit="sequences/s",
    scope=Scope.DEVICE,
    records=(
        re.compile(
            rb"(?:total|tobal|global) step:? *(?P<step>\d+), epoch: *(?P<epoch>\d+), batch: *\d+, "
            rb"[^\n]*ips: *(?P<rate>[^\s,]+)(?:\s|,(?!\d))"
        ),
    ),
    mark=re.compile(rb"gradient_merge_steps=|(?:total|tobal|global) step:? *\d+, epoch: *\d+, batch"),
    parameters=namespace_arguments,
    facts=facts,
    end_state=end_state,
    header=re.compile(rb"Namespace\("),
    published=(
        Published("trimmed-skip-10", "PaddlePaddle/Perf (TIPC's analysis)"),
        Published("trimmed-skip-5", "PaddlePaddle/Perf (TIPC's analysis)"),
        Published("mean-skip-10", "PaddlePaddle/benchmark's template"),
    ),
)
