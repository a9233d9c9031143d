"""OneFlow-Benchmark, BERT pre-training (``LanguageModeling/BERT``).

    step: 19, total_loss: 11.162, mlm_loss: 10.474, nsp_loss: 0.688, throughput: 149.842 1606801234.5678

The rate covers all devices and the steps since the previous line; the time in seconds since 1970 follows. Steps are
counted from 0. Source: ``util.py`` (``Metric``) and ``config.py`` of the repository at c9a9342a.
"""

import re
from dataclasses import replace

from trainmark.logs.format import Format, LogContext, Published, unknown_end
from trainmark.logs.model import Facts, Scope
from trainmark.programs.oneflow_benchmark.log import facts as printed
from trainmark.programs.oneflow_benchmark.log import parameters


def facts(context: LogContext) -> Facts:
    """Read the printed arguments; they have the size of the model but not its name."""
    return replace(printed(context), model="bert")


FORMAT = Format(
    name="oneflow-bert",
    title="OneFlow BERT",
    framework="oneflow",
    unit="sequences/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"step: (?P<step>\d+), total_loss: [^\n]*throughput: (?P<rate>[\d.]+) (?P<clock_s>\d{9,}\.\d+)\s"
        ),
    ),
    mark=re.compile(rb"step: \d+, total_loss: \S+, mlm_loss: |Running BERT Pretrain"),
    parameters=parameters,
    facts=facts,
    end_state=unknown_end,
    header=re.compile(rb"gpu_num_per_node = "),
    averages_from=-1,
    published=(Published("dlperf-time", "Oneflow-Inc/DLPerf"),),
)
