"""Training scripts on Hugging Face's Accelerate that name their bar ``Steps`` (diffusers' ``examples``).

    Steps:  12%|█▏        | 1800/15000 [20:10<2:28:00,  1.49it/s, lr=1e-05, step_loss=0.1]

A step is one of the optimizer, of ``Total train batch size`` samples over all devices. The rate on the line is a
moving mean of the last steps; the elapsed time before it, in whole seconds, gives the time of all steps, validation
included. Older scripts that go on from a checkpoint run the bar through the steps of before."""

import re

from trainmark.logs.format import Format, LogContext, search_integer, unknowable
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Problem, Scope
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read ``***** Running training *****`` and Accelerate's line of the process."""
    text = context.text
    mixed = re.search(rb"Mixed precision type: (fp16|bf16)", text)
    names = {b"fp16": Precision.AMP_FP16, b"bf16": Precision.AMP_BF16}
    return Facts(
        precision=names[mixed[1]]
        if mixed
        else Precision.FP32
        if b"Mixed precision type: no" in text
        else None,
        gpus=search_integer(rb"Num processes: (\d+)", text),
        batch_per_device=search_integer(rb"Instantaneous batch size per device = (\d+)\s", text),
        accumulation=search_integer(rb"Gradient Accumulation steps = (\d+)\s", text),
        global_batch=search_integer(
            rb"Total train batch size \(w\. parallel, distributed & accumulation\) = (\d+)\s", text
        ),
        hardware=read_hardware(text),
    )


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Say that validation is in the time, and that the bar ran through steps of before."""
    found = []
    if b"Running validation" in context.notes:
        found.append(Problem("evaluation-included", "the bar's time holds the validation runs between steps"))
    start = search_integer(rb"Resuming from checkpoint \S*checkpoint-(\d+)", context.notes)
    # Later scripts begin the bar there.
    if start and (context.first_step or 0) < start:
        sentence = (
            f"the run goes on from step {start}, and its bar runs through those before without training them"
        )
        found.append(Problem("resumed", sentence))
    return tuple(found)


FORMAT = Format(
    name="diffusers",
    title="Accelerate (diffusers)",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"Steps: +\d+%\|[^|\n]*\| *(?P<step>\d+)/\d+ \[(?:(?P<clock_h>\d+):)?(?P<clock_m>\d+):(?P<clock_s>\d+)<"
        ),
    ),
    mark=re.compile(rb"Steps: +\d+%\||Distributed environment: \w+"),
    facts=facts,
    doubts=doubts,
    notes=re.compile(rb"Running validation|Resuming from checkpoint [^\n]+"),
    ending=unknowable,
    accumulates=True,
    header=re.compile(rb"Running training|Distributed environment"),
)
