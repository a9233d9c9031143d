"""Training scripts on Hugging Face's Accelerate that name their bar ``Steps`` (diffusers' ``examples``).

    Steps:  12%|█▏        | 1800/15000 [20:10<2:28:00,  1.49it/s, lr=1e-05, step_loss=0.1]

A step is an optimizer step of ``Total train batch size`` samples over all devices. The rate on the line is a moving
mean of the last steps; the elapsed time before it, in whole seconds, gives the time of all steps including validation.
Older scripts that resume from a checkpoint run the bar through the earlier steps."""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format, LogContext, search_integer, unknown_end
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Problem, Scope
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.schema.precision import Precision


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
    """Check whether the time includes validation, and whether the bar ran through steps before a checkpoint."""
    found = []
    if b"Running validation" in context.notes:
        sentence = "the progress bar's time includes the validation runs between steps"
        found.append(Problem("evaluation-included", sentence))
    start = search_integer(rb"Resuming from checkpoint \S*checkpoint-(\d+)", context.notes)
    # Later scripts start the bar at that step.
    if start and (context.first_step or 0) < start:
        sentence = (
            f"the run resumed from step {start}, and its progress bar counts the earlier, untrained steps"
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
    end_state=unknown_end,
    accumulates=True,
    header=re.compile(rb"Running training|Distributed environment"),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"Num processes: {run.gpus}"
    yield f"Mixed precision type: {'fp16' if run.amp else 'no'}"
    yield "***** Running training *****"
    yield f"  Instantaneous batch size per device = {run.batch_per_device}"
    yield f"  Total train batch size (w. parallel, distributed & accumulation) = {run.global_batch}"
    yield "  Gradient Accumulation steps = 1"
    total = len(run.step_times_s)
    for line in lines_of(run):
        passed = round(line.elapsed_s)
        yield (
            f"Steps: {100 * line.step // total:3d}%|###   | {line.step}/{total} "
            f"[{passed // 60:02d}:{passed % 60:02d}<10:00,  1.49it/s, lr=1e-05, step_loss=0.1]"
        )
