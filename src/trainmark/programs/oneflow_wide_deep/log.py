"""OneFlow-Benchmark, Wide & Deep (``ClickThroughRate/WideDeepLearning``).

    1100 time 1602836869.3806155 loss 0.4920539349317551

The steps done, the time in seconds since 1970, the mean loss since the line before: no rate. The arguments before
it have the batch of all devices (``batch_size = 16384``). ``eval_loss`` lines are evaluation, whose time is in the line
after them. Source: ``wdl_train_eval.py`` of the repository at 42c55158.
"""

import re

from trainmark.logs.format import Format, LogContext, all_devices, integer, unknowable
from trainmark.logs.model import Facts, Scope
from trainmark.programs.oneflow_benchmark.log import parameters


def facts(context: LogContext) -> Facts:
    """Read the printed arguments; the program has one precision."""
    words = parameters(context)
    nodes, devices = integer(words, "num_nodes"), integer(words, "gpu_num_per_node")
    return Facts(
        model="wide_deep",
        nodes=nodes,
        gpus=all_devices(nodes, devices),
        global_batch=integer(words, "batch_size"),
    )


FORMAT = Format(
    name="oneflow-wide-deep",
    title="OneFlow Wide & Deep",
    framework="oneflow",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(re.compile(rb"(?P<step>\d+) time (?P<clock_s>\d{9,}\.\d+) loss [\d.]+\s"),),
    mark=re.compile(rb"Running OneFlow-WDL|\d+ time \d{9,}\.\d+ loss "),
    parameters=parameters,
    facts=facts,
    ending=unknowable,
    header=re.compile(rb"gpu_num_per_node = "),
)
