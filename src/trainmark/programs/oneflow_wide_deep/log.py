"""OneFlow-Benchmark, Wide & Deep (``ClickThroughRate/WideDeepLearning``).

    1100 time 1602836869.3806155 loss 0.4920539349317551

A line has the steps done, the time in seconds since 1970 and the mean loss since the previous line, but no rate. The
printed arguments have the batch of all devices (``batch_size = 16384``). ``eval_loss`` lines are evaluation, whose time
is included in the next line. Source: ``wdl_train_eval.py`` of the repository at 42c55158.
"""

import re

from trainmark.logs.format import Format, LogContext, parse_setting, total_devices, unknown_end
from trainmark.logs.model import Facts, Scope
from trainmark.programs.oneflow_benchmark.log import parameters


def facts(context: LogContext) -> Facts:
    """Read the printed arguments; the program has one precision."""
    words = parameters(context)
    nodes, devices = parse_setting(words, "num_nodes"), parse_setting(words, "gpu_num_per_node")
    return Facts(
        model="wide_deep",
        nodes=nodes,
        gpus=total_devices(nodes, devices),
        global_batch=parse_setting(words, "batch_size"),
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
    end_state=unknown_end,
    header=re.compile(rb"gpu_num_per_node = "),
)
