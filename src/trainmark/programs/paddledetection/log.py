"""PaddleDetection training: ``ppdet/engine/callbacks.py``, and ``tools/train.py`` of 2020 (static graph).

    [07/28 06:51:13] ppdet.engine INFO: Epoch: [0] [  20/7329] learning_rate: 0.000333 loss: 1.9 eta: 1:02:03
    batch_cost: 0.2873 data_cost: 0.0003 ips: 27.8440 images/s
    2020-12-01 10:00:00,123-INFO: iter: 20, lr: 0.01, 'loss': '1.9', eta: 1:00:00, batch_cost: 0.48 sec,
    ips: 16.6 images/sec

``ips`` is that of one device (rank 0 prints): the reader's ``batch_size`` over the mean time of the last ``log_iter``
steps, which are the steps since the previous line. The stamp has no year.
"""

import re

from trainmark.logs.fields import SHORT_STAMP
from trainmark.logs.format import Format, LogContext, search_integer, unknown_end
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.paddle import paddle_devices
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the launcher's lines and the command; the program does not print its configuration."""
    text = context.text
    devices = paddle_devices(text)
    amp = re.search(rb"\buse_amp ?[:=] ?(True|False)|\bamp ?[:=] ?(True|False)", text)
    switch = (amp[1] or amp[2]).decode() if amp else "True" if re.search(rb" --amp\b", text) else None
    return Facts(
        precision=precision_from_switch(switch, Precision.AMP_FP16),
        nodes=devices.nodes,
        gpus=devices.gpus,
        gpus_per_node=devices.gpus_per_node,
        batch_per_device=search_integer(rb"TrainReader\.batch_size=(\d+)", text),
        hardware=read_hardware(text),
    )


_STAMP = rb"\[(?P<stamp>" + SHORT_STAMP + rb")\] "

FORMAT = Format(
    name="paddledetection",
    title="PaddleDetection",
    framework="paddle",
    unit="images/s",
    scope=Scope.DEVICE,
    records=(
        re.compile(
            _STAMP + rb"ppdet\.[\w.]+ INFO: Epoch: \[(?P<epoch>\d+)\] \[ *(?P<step>\d+)/\d+\] "
            rb"[^\n]*batch_cost: (?P<step_time_s>[\d.]+) [^\n]*ips: (?P<rate>[\d.]+) images/s"
        ),
        re.compile(
            rb"ppdet\.[\w.]+ INFO: Epoch: \[(?P<epoch>\d+)\] \[ *(?P<step>\d+)/\d+\] "
            rb"[^\n]*ips: (?P<rate>[\d.]+) images/s"
        ),
        re.compile(
            rb"(?P<stamp>\d{4}-\d\d-\d\d [\d:,]+)-INFO: (?:Epoch:\d+: )?iter: (?P<step>\d+), lr: [^\n]*"
            rb"ips: (?P<rate>[\d.]+) images/sec"
        ),
    ),
    mark=re.compile(rb"ppdet\.[\w.]+ INFO: |-INFO: iter: \d+, lr: "),
    facts=facts,
    end_state=unknown_end,
)
