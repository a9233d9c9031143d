"""HugeCTR (``Model.fit``), with the arguments that DLPerf's ``wdl.py`` prints before it.

    [HUGECTR][02:51:59][INFO][RANK0]: Iter: 200 Time(100 iters): 0.213347s Loss: 0.106469 lr:0.001000

The seconds cover the steps since the previous line, and an evaluation between the two. The batch of all devices is
DLPerf's ``batch_size = 16384``; other scripts may not print it. Source: ``pybind/model.cpp`` of NVIDIA-Merlin/HugeCTR
at v3.3, ``HugeCTR/wdl`` of Oneflow-Inc/DLPerf at c89430ba.
"""

import re
from collections.abc import Iterator

import numpy as np

from trainmark.logs.fields import Extract
from trainmark.logs.format import Format, LogContext, config_lines, parse_setting, total_devices, unknown_end
from trainmark.logs.model import Facts, Scope
from trainmark.logs.synthetic import SampleRun, lines_of

_ARGUMENT = re.compile(rb"^([a-z_]\w*) = ([^\n]+)$", re.MULTILINE)

_RECORD = re.compile(rb"Iter: (\d+) Time\((\d+) iters\): ([\d.]+)s Loss: [\d.]+\s")


def extract(text: bytes) -> Extract:
    """Return each record's step and the mean seconds of one of its steps."""
    rows = [
        (int(step), float(seconds) / int(steps))
        for step, steps, seconds in _RECORD.findall(text)
        if int(steps)
    ]
    if not rows:
        return Extract({}, [text])
    columns = np.array(rows, dtype=np.float64).T
    return Extract({"step": columns[0], "step_time_s": columns[1]}, [text])


def parameters(context: LogContext) -> dict[str, str]:
    """Return the printed arguments (``gpu_num_per_node = 8``)."""
    return config_lines(context, _ARGUMENT)


def facts(context: LogContext) -> Facts:
    """Read the arguments, if the script prints them."""
    words = parameters(context)
    nodes, devices = parse_setting(words, "num_nodes"), parse_setting(words, "gpu_num_per_node")
    return Facts(
        model="wide_deep" if b"HugeCTR-WDL" in context.head else None,
        nodes=nodes,
        gpus=total_devices(nodes, devices),
        global_batch=parse_setting(words, "batch_size"),
    )


FORMAT = Format(
    name="hugectr",
    title="HugeCTR",
    framework="hugectr",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(),
    extract=extract,
    mark=re.compile(rb"Iter: \d+ Time\(\d+ iters\): |Running HugeCTR-WDL"),
    parameters=parameters,
    facts=facts,
    end_state=unknown_end,
    header=re.compile(rb"gpu_num_per_node = "),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield from (
        f"Running HugeCTR-WDL: gpu_num_per_node = {run.gpus}, num_nodes = 1.",
        f"batch_size = {run.global_batch}",
        f"gpu_num_per_node = {run.gpus}",
        "num_nodes = 1",
    )
    for line in lines_of(run):
        yield (
            f"[HUGECTR][{line.clock:%H:%M:%S}][INFO][RANK0]: Iter: {line.step} Time({run.interval} iters): "
            f"{line.step_time_s * run.interval:.6f}s Loss: 0.106469 lr:0.001000"
        )
