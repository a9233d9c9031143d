"""The smallest training program's log.

    toy-trainer: 4 devices, batch 32
    step 12: 431.5 samples/s

The rate is of all devices and of the one step.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format, LogContext, Published, ends_with, search_integer
from trainmark.logs.model import Facts, Scope
from trainmark.logs.synthetic import SampleRun, lines_of


def facts(context: LogContext) -> Facts:
    """Read the first line."""
    return Facts(
        gpus=search_integer(rb"toy-trainer: (\d+) devices", context.text),
        batch_per_device=search_integer(rb"devices, batch (\d+)\n", context.text),
    )


FORMAT = Format(
    name="toy-trainer",
    title="toy-trainer",
    framework="toy",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(re.compile(rb"step (?P<step>\d+): (?P<rate>\S+) samples/s\n"),),
    mark=re.compile(rb"toy-trainer: "),
    facts=facts,
    end_state=ends_with(re.compile(rb"toy-trainer: done\n")),
    published=(Published("mean-skip-3", "the toy's own page"),),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the lines of a log of ``run``."""
    yield f"toy-trainer: {run.gpus} devices, batch {run.batch_per_device}"
    yield from (f"step {line.step}: {line.rate} samples/s" for line in lines_of(run))
    yield "toy-trainer: done"
