"""PaddleClas training, static (``ppcls/static/train.py``) and dynamic (``tools/train.py``).

    [2023/07/28 06:51:13] ppcls INFO: epoch:0   train step:790  lr: 0.1, loss: 6.5 … batch_cost: 0.65067 s,
    reader_cost: 0.00051 s, ips: 393.44360 samples/sec.
    2020-12-01 10:00:00 INFO: epoch:0  , train step:20  , loss: 6.9 … batch_cost: 0.33 s, … ips: 96.4 images/sec.
    [2022/01/02 03:04:05] ppcls INFO: [Train][Epoch 1/2][Iter: 10/500]lr: 0.1, … ips: 165.2 samples/sec, eta: …

``ips`` is that of one device (rank 0 prints) and, like ``batch_cost``, a running average since the start of the epoch.
The time stamps give the window. ``batch_size`` was that of all devices until 2021, and is not read from such a log.
``ips: None`` of the launcher is a list of addresses. ``[Eval]`` lines have an ``ips`` too. After ``Terminating with
signal 15`` earlier lines may follow.
"""

import re

from trainmark.logs.format import Format, LogContext, Published, config_lines, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import EndState, Facts, Meaning, Scope
from trainmark.logs.paddle import paddle_devices
from trainmark.logs.precision import mentions_mixed_precision
from trainmark.schema.precision import Precision

_CONFIG = re.compile(rb" INFO: +(\w[\w.]*) *: ([^\n]*)\n")


def parameters(context: LogContext) -> dict[str, str]:
    """Return the printed configuration; the first value wins if a key occurs in several sections."""
    return config_lines(context, _CONFIG)


def facts(context: LogContext) -> Facts:
    """Read the configuration dump and the launcher's lines."""
    text = context.text
    devices = paddle_devices(text)
    return Facts(
        model=search_word(rb"INFO: Arch : *\n[^\n]*name : (\S+)", text),
        precision=_precision(text),
        nodes=devices.nodes,
        gpus=devices.gpus,
        gpus_per_node=devices.gpus_per_node,
        batch_per_device=_batch(text),
        hardware=read_hardware(text),
    )


def end_state(context: LogContext) -> EndState:
    """Search the end of the last epoch; distinguish a run stopped by the harness's signal."""
    epochs = search_integer(rb"INFO: +epochs : (\d+)\n", context.head)
    if epochs:
        last = rb"END epoch:%d |\[Train\]\[Epoch %d/%d\]\[Avg\]" % (epochs - 1, epochs, epochs)
        if re.search(last, context.tail):
            return EndState.FOUND
    if b"Terminating with signal 15" in context.tail or b"KeyboardInterrupt" in context.tail:
        return EndState.STOPPED
    return EndState.MISSING if epochs else EndState.UNKNOWN


def _batch(text: bytes) -> int | None:
    if not re.search(rb"(?:ppcls|root) INFO: ", text):
        return None
    train = re.search(rb"INFO: +Train : *\n((?:[^\n]*\n){1,80}?)[^\n]*INFO: +Eval : *\n", text)
    within = train[1] if train else text
    return search_integer(rb"INFO: +batch_size : (\d+)\n", within) or search_integer(
        rb"sampler\.batch_size=(\d+)", text
    )


def _precision(text: bytes) -> Precision | None:
    section = re.search(rb"INFO: AMP : *\n((?:[^\n]*\n){1,20})", text)
    mixed = mentions_mixed_precision(section[1] if section else text)
    if section and mixed is not False:
        return (
            Precision.FP16
            if re.search(rb"level : .?O2|use_pure_fp16 : True", section[1])
            else Precision.AMP_FP16
        )
    if section or mixed is not None:
        return Precision.AMP_FP16 if mixed else Precision.FP32
    # A complete configuration without an AMP section means that AMP was off.
    whole = b"INFO: DataLoader : " in text and b"INFO: Optimizer : " in text
    return Precision.FP32 if whole else None


FORMAT = Format(
    name="paddleclas",
    title="PaddleClas",
    framework="paddle",
    unit="images/s",
    scope=Scope.DEVICE,
    meaning=Meaning.RUNNING,
    records=(
        re.compile(
            rb"\[(?P<stamp>\d{4}/[^\]\n]+)\] ppcls INFO: epoch:(?P<epoch>\d+) +train step:(?P<step>\d+) "
            rb"[^\n]*ips: *(?P<rate>[^\s,]+)(?:\s|,(?!\d))"
        ),
        re.compile(
            rb"\[(?P<stamp>\d{4}/[^\]\n]+)\] (?:ppcls|root) INFO: \[Train\]\[Epoch (?P<epoch>\d+)/\d+\]"
            rb"\[Iter: *(?P<step>\d+)/\d+\]"
            rb"[^\n]*ips: *(?P<rate>[^\s,]+)(?:\s|,(?!\d))"
        ),
        re.compile(
            rb"(?P<stamp>\d{4}-\d\d-\d\d [\d:,]+) INFO: epoch:(?P<epoch>\d+) *, train step:(?P<step>\d+) *, "
            rb"[^\n]*ips: (?P<rate>[^\s,]+) images/sec"
        ),
    ),
    mark=re.compile(rb"\] ppcls INFO: |PaddleClas is powered by"),
    parameters=parameters,
    facts=facts,
    end_state=end_state,
    header=re.compile(rb"INFO: (?:Global|DataLoader)"),
    published=(
        Published("trimmed-skip-10", "PaddlePaddle/Perf (TIPC's analysis)"),
        Published("trimmed-skip-5", "PaddlePaddle/Perf (TIPC's analysis)"),
        Published("mean-skip-10", "PaddlePaddle/benchmark's template"),
    ),
)
