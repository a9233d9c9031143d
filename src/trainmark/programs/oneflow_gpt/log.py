"""OneFlow-Benchmark, GPT pre-training (``LanguageModeling/GPT``).

    step=10,micro_batches=10,samples=20,throughput=4.91978,latency=0.40652,loss=10.97391,
    | 10       | 10              | 20              | 4.91978    | 0.40652    | 10.97391   |

The same twice: ``--metric-print-format normal`` and ``table``. The rate is of all devices and covers the steps since
the line before; a step is one of the optimizer, of all its micro-batches. There are no time stamps. Source:
``oneflow_gpt/util.py`` and ``config.py`` of the repository at 8da0250a.
"""

import re

from trainmark.logs.format import Format, LogContext, all_devices, config_lines, integer, unknowable
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import by_switch
from trainmark.schema.case import Precision

_ARGUMENT = re.compile(rb"\n *(\w+) \.{3,} ?([^\n]+)")


def parameters(context: LogContext) -> dict[str, str]:
    """Return the arguments, as printed between dots."""
    return config_lines(context, _ARGUMENT)


def facts(context: LogContext) -> Facts:
    """Read the arguments; ``micro_batch_size`` is of a group of devices that hold one model."""
    words = parameters(context)
    nodes, devices = integer(words, "num_nodes"), integer(words, "num_gpus_per_node")
    return Facts(
        precision=by_switch(words.get("fp16"), Precision.AMP_FP16),
        nodes=nodes,
        gpus=all_devices(nodes, devices),
        global_batch=integer(words, "global_batch_size"),
    )


FORMAT = Format(
    name="oneflow-gpt",
    title="OneFlow GPT",
    framework="oneflow",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(rb"step=(?P<step>\d+),micro_batches=\d+,samples=\d+,throughput=(?P<rate>[\d.]+),latency="),
        re.compile(rb"\| (?P<step>\d+) +\| \d+ +\| \d+ +\| (?P<rate>\d+\.\d+) +\| \d+\.\d+ +\| "),
    ),
    mark=re.compile(rb"step=\d+,micro_batches=\d+|\| step +\| micro_batches|metric_print_format \.{3,}"),
    parameters=parameters,
    facts=facts,
    ending=unknowable,
    header=re.compile(rb"num_gpus_per_node \.{3,}"),
)
