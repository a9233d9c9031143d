"""detectron2 (``detectron2/utils/events.py``, ``CommonMetricPrinter``).

    [09/02 02:37:24 d2.utils.events]:  eta: 0:05:22  iter: 19  total_loss: 1.986  … time: 1.1678  data_time: 0.0222  …

``time`` is the mean of all iterations since the run's start but the first two; two such means give the time between
them. Later versions also print ``last_time``, of one iteration. The batch is not on the line: ``IMS_PER_BATCH`` of the
configuration is that of all devices, unless a later line scales it to the number of devices. Stamps have no year.
"""

import re

from trainmark.logs.format import Format, LogContext, ends_with, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Problem, Scope
from trainmark.programs.doubts import resumed_averages
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed configuration and the rank's line."""
    text = context.text
    solver = re.search(rb"\nSOLVER:\n((?:  [^\n]*\n)+)", text)
    within = solver[1] if solver else b""
    amp = search_word(rb"\n?  AMP:\n    ENABLED: (\w+)", within)
    named = {"true": Precision.AMP_FP16, "false": Precision.FP32}
    return Facts(
        model=search_word(rb"\n  META_ARCHITECTURE: (\w+)", text),
        precision=named.get((amp or "").lower()),
        gpus=search_integer(rb"World size: (\d+)", text),
        global_batch=search_integer(rb"Auto-scaling the config to batch_size=(\d+),", text)
        or search_integer(rb"  IMS_PER_BATCH: (\d+)\n", within),
        hardware=read_hardware(text),
    )


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check for a resumed run, whose averages cover fewer iterations than its counter."""
    start = search_integer(rb"Starting training from iteration (\d+)", context.text)
    return tuple(resumed_averages(context, _HEADER, start))


_HEADER = re.compile(rb"Rank of current process|Running with full config")

FORMAT = Format(
    name="detectron2",
    title="detectron2",
    framework="pytorch",
    unit="images/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.RUNNING,
    records=(re.compile(rb" iter: (?P<step>\d+)  [^\n]*?  time: (?P<average_time_s>[\d.]+)  [^\n]*lr: "),),
    mark=re.compile(rb"d2\.(?:utils\.events|engine\.\w+)\]: |detectron2 INFO: "),
    facts=facts,
    end_state=ends_with(re.compile(rb"Total training time: |Overall training speed: ")),
    doubts=doubts,
    averages_from=1,
    header=_HEADER,
)
