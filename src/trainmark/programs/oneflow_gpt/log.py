"""OneFlow-Benchmark, GPT pre-training (``LanguageModeling/GPT``).

    step=10,micro_batches=10,samples=20,throughput=4.91978,latency=0.40652,loss=10.97391,
    | 10       | 10              | 20              | 4.91978    | 0.40652    | 10.97391   |

The two lines are ``--metric-print-format normal`` and ``table``. The rate covers all devices and the steps since the
previous line; a step is an optimizer step with all its micro-batches. There are no time stamps. Source:
``oneflow_gpt/util.py`` and ``config.py`` of the repository at 8da0250a.
"""

import re

from trainmark.logs.format import Format, LogContext, config_lines, parse_setting, total_devices, unknown_end
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.case import Precision

_ARGUMENT = re.compile(rb"\n *(\w+) \.{3,} ?([^\n]+)")


def parameters(context: LogContext) -> dict[str, str]:
    """Return the arguments, as printed between dots."""
    return config_lines(context, _ARGUMENT)


def facts(context: LogContext) -> Facts:
    """Read the arguments; ``micro_batch_size`` is that of a group of devices that share one model."""
    words = parameters(context)
    nodes, devices = parse_setting(words, "num_nodes"), parse_setting(words, "num_gpus_per_node")
    return Facts(
        precision=precision_from_switch(words.get("fp16"), Precision.AMP_FP16),
        nodes=nodes,
        gpus=total_devices(nodes, devices),
        global_batch=parse_setting(words, "global_batch_size"),
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
    end_state=unknown_end,
    header=re.compile(rb"num_gpus_per_node \.{3,}"),
)
