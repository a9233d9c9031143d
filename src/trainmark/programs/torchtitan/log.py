"""torchtitan (``torchtitan/components/metrics.py``).

    [rank0]:[titan] 2025-06-16 22:30:50,322 - root - INFO - step: 200  loss:  6.1384  memory: 49.66GiB(52.28%)
    tps: 5,856  tflops: 339.16  mfu: 34.29%

``tps`` (``wps`` until 2025) counts tokens of one device over the steps since the previous line, without validation: the
tokens of its data-parallel rank, divided by the devices that share them. ``validate step:`` lines are evaluation.
"""

import math
import re

from trainmark.logs.format import Format, LogContext, ends_with, search_integer
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope


def facts(context: LogContext) -> Facts:
    """Read the device mesh; the batch in tokens and the precision are not printed."""
    text = context.text
    mesh = re.search(rb"device mesh with \[[^\]\n]*\], \[([\d, ]+)\]", text)
    sizes = re.findall(rb"\d+", mesh[1]) if mesh else []
    parallel = re.search(rb"device mesh with parallelism: ([^\n]+)", text)
    if parallel and not sizes:
        # The expert dimensions (ep, etp) are made up of the others.
        sizes = re.findall(rb"\b(?:pp|dp_replicate|dp_shard|cp|tp)=(-?\d+)", parallel[1])
    # -1 means all remaining devices.
    world = math.prod(map(int, sizes)) if sizes and all(_SIZE.fullmatch(size) for size in sizes) else None
    return Facts(
        gpus=world or search_integer(rb"world_size[=:] ?(\d+)", text),
        hardware=read_hardware(text),
    )


_SIZE = re.compile(rb"[1-9]\d{0,5}")

FORMAT = Format(
    name="torchtitan",
    title="torchtitan",
    framework="pytorch",
    unit="tokens/s",
    scope=Scope.DEVICE,
    records=(
        re.compile(
            rb"(?P<stamp>\d{4}-\d\d-\d\d [\d:,]+) - root - INFO - step: *(?P<step>\d+) +loss:[^\n]*memory:[^\n]*"
            rb" [tw]ps: *(?:(?:(?P<rate_millions>\d+),)?(?P<rate_thousands>\d+),)?(?P<rate>\d+)\s"
        ),
    ),
    mark=re.compile(rb"\[titan\] [^\n]* - root - INFO - |Building (?:\d-D )?device mesh with"),
    facts=facts,
    end_state=ends_with(re.compile(rb"Training completed")),
    figures={
        "tflops": re.compile(rb"tps: [\d,]+ +tflops: ([\d.,]+)\s"),
        "mfu": re.compile(rb" mfu: ([\d.]+)%"),
    },
    header=re.compile(rb"Starting job|device mesh with"),
)
