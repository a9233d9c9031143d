"""PaddleOCR training (``tools/program.py``).

    [2024/08/06 18:03:31] ppocr INFO: epoch: [1/2], global_step: 100, lr: 0.000005, loss: 69.3,
    avg_reader_cost: 0.0097 s, avg_batch_cost: 0.18023 s, avg_samples: 64.0, ips: 355.10891 samples/s, eta: 0:32:33
    [2021/09/01 10:00:00] root INFO: epoch: [1/500], iter: 10, lr: 0.001, …, batch_cost: 0.5 s, samples: 320, ips: 64.0

``ips`` is that of one device (rank 0 prints) and covers the steps since the previous line, including the wait for data
but not evaluation. The batch of the configuration, ``batch_size_per_card``, is that of one device. The program sets
the configuration's ``distributed`` if there is more than one process.
"""

import re

from trainmark.logs.format import Format, LogContext, config_lines, ends_with, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.paddle import PaddleDevices, paddle_devices
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.precision import Precision

_CONFIG = re.compile(rb"(?:ppocr|root) INFO: +(\w+) : ([^\n]*)\n")
_LINE = (
    rb"\[(?P<stamp>\d{4}/[^\]\n]+)\] (?:ppocr|root) INFO: epoch: \[(?P<epoch>\d+)/\d+\], "
    rb"(?:iter|global_step): (?P<step>\d+), [^\n]*ips: (?P<rate>[\d.]+)\s"
)


def parameters(context: LogContext) -> dict[str, str]:
    """Return the printed configuration; the first value wins if a key occurs in several sections."""
    return config_lines(context, _CONFIG)


def facts(context: LogContext) -> Facts:
    """Read the configuration dump and the launcher's lines; a missing AMP setting does not mean FP32."""
    text, words = context.text, parameters(context)
    devices = paddle_devices(text)
    if words.get("distributed") == "False":  # set from the world size before it is printed
        devices = PaddleDevices(nodes=1, gpus=1, gpus_per_node=1)
    loader = re.search(
        rb"INFO: Train : *\n((?:[^\n]*\n){1,120}?)[^\n]*INFO: Eval|INFO: Train : *\n([\s\S]{1,9000})", text
    )
    within = (loader[1] or loader[2]) if loader else b""
    level = words.get("amp_level")
    return Facts(
        model=search_word(rb"INFO: +algorithm : (\S+)", text),
        precision=precision_from_switch(
            words.get("use_amp"), Precision.FP16 if level == "O2" else Precision.AMP_FP16
        ),
        nodes=devices.nodes,
        gpus=devices.gpus,
        gpus_per_node=devices.gpus_per_node,
        batch_per_device=search_integer(rb"INFO: +batch_size_per_card : (\d+)\n", within),
        hardware=read_hardware(text),
    )


FORMAT = Format(
    name="paddleocr",
    title="PaddleOCR",
    framework="paddle",
    unit="samples/s",
    scope=Scope.DEVICE,
    records=(re.compile(_LINE),),
    mark=re.compile(rb"\] ppocr INFO: "),
    parameters=parameters,
    facts=facts,
    end_state=ends_with(re.compile(rb"INFO: best metric, [^\n]*\n(?![\s\S]*INFO: epoch: )")),
    header=re.compile(rb"INFO: (?:Global|Architecture) :"),
)
