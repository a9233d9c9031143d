"""PyTorch ``examples/imagenet/main.py``: step times without a rate.

    Epoch: [0][  20/5005]	Time  0.350 ( 0.450)	Data  0.001 ( 0.102)	Loss 6.98e+00 (7.01e+00)	Acc@1   0.00 …

The first figure after ``Time`` is the last step's, the one in brackets the average since the epoch's start; two
averages give the time of all steps between them. The batch is not printed: it comes from a flag or the name. ``Test:``
lines are evaluation. Several processes print the same lines without tags.
"""

import re

from trainmark.logs.format import Format, LogContext, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import EndState, Facts, Meaning, Scope


def facts(context: LogContext) -> Facts:
    """Read the model's name; devices, batch and precision are not printed."""
    return Facts(
        model=search_word(rb"=> (?:creating model|using pre-trained model) '([^']+)'", context.text),
        hardware=read_hardware(context.text),
    )


def end_state(context: LogContext) -> EndState:
    """Check whether the last epoch is complete; the number of epochs is not printed."""
    records = re.findall(rb"Epoch: \[(\d+)\]\[ *(\d+)/(\d+)\]", context.tail)
    if not records:
        return EndState.MISSING
    _, step, steps = (int(word) for word in records[-1])
    whole = step + context.step_interval >= steps
    return EndState.UNKNOWN if whole else EndState.MISSING


FORMAT = Format(
    name="pytorch-imagenet",
    title="PyTorch examples/imagenet",
    framework="pytorch",
    unit="images/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(
        re.compile(
            rb"Epoch: \[(?P<epoch>\d+)\]\[ *(?P<step>\d+)/\d+\]\s+Time +(?P<step_time_s>[^\s(]+) "
            rb"\( *(?P<average_time_s>[^\s)]+)\)"
        ),
    ),
    mark=re.compile(rb"Epoch: \[\d+\]\[ *\d+/\d+\]\s+Time|=> creating model '"),
    averages_from=-1,
    facts=facts,
    end_state=end_state,
)
