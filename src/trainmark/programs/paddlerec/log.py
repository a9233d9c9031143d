"""PaddleRec with parameter servers (CtrDnn): CPU workers, several threads each.

    2021-02-22 02:22:19,513 - INFO - Epoch: 0, using time 130.599303007 second, ips 84225.62561 example/sec.
    2021-03-01 10:00:00,123 - INFO - Epoch: 0, using time 1203.5 second, ips 150023.4 word/sec.
    2021-02-20 14:28:02,412 - INFO - Epoch: 0, Batch: 100, … avg_samples: 1000.00000, ips: 979.58359 example/sec

The epoch line has the rate of one worker (node) and is read. The batch line has the rate of one thread of that worker
and is not read. ``trainers: N`` in the header is the number of workers; each has its own log, so the throughput of all
assumes that they are equally fast, which is reported.
"""

import re

from trainmark.logs.format import Format, LogContext, Published, search_integer, unknown_end
from trainmark.logs.model import Facts, Scope


def facts(context: LogContext) -> Facts:
    """Read the number of workers; devices, batch per device and precision are not printed."""
    return Facts(nodes=search_integer(rb"\] trainers: (\d+)\s", context.text))


FORMAT = Format(
    name="paddlerec",
    title="PaddleRec",
    framework="paddle",
    unit="example/s",
    scope=Scope.NODE,
    records=(
        re.compile(
            rb" - INFO - Epoch: *(?P<epoch>\d+), using time:? *(?P<seconds>\S+) second, "
            rb"ips:? *(?P<rate>\S+) example"
        ),
        re.compile(
            rb" - INFO - Epoch: *(?P<epoch>\d+), using time:? *(?P<seconds>\S+) second, ips:? *(?P<rate>\S+) words?/s"
        ),
    ),
    pattern_units=("example/s", "words/s"),
    mark=re.compile(rb"Epoch: \d+, Batch: \d+, [^\n]*ips: [^\n]*example/sec|Epoch: \d+, using time "),
    facts=facts,
    end_state=unknown_end,
    warmup_steps=0,
    without_records="the log has no complete epoch (the batch lines have the rate of only one thread of one worker)",
    header=re.compile(rb"trainers: "),
    published=(Published("mean-all", "PaddlePaddle/Perf (over the epochs)"),),
)
