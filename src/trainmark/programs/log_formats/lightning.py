"""PyTorch Lightning's progress bar (``TQDMProgressBar``), redirected to a log file.

    Epoch 0:  12%|█▏        | 50/400 [00:25<02:55,  1.99it/s, v_num=0, train_loss=2.3]

``it/s`` (or ``s/it``) is the mean since the epoch's start, of one process's steps; the elapsed time before it is in
whole seconds. The batch is not printed. Until 1.9 the bar of an epoch also counted the batches of its validation; later
versions stop the bar during validation while its time continues.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format, LogContext, ends_with, search_integer
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Problem, Scope
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.programs.log_formats.megatron_lm import model_parallel
from trainmark.schema.precision import Precision

_PRECISIONS = (
    (rb"Using bfloat16 Automatic Mixed Precision", Precision.AMP_BF16),
    (rb"Using 16bit[^\n]*Automatic Mixed Precision|Using 16bit native", Precision.AMP_FP16),
)


def facts(context: LogContext) -> Facts:
    """Read the lines about processes and precision; the batch is not printed."""
    text = context.text
    precision = next((found for pattern, found in _PRECISIONS if re.search(pattern, text)), None)
    started = search_integer(rb"All distributed processes registered\. Starting with (\d+) processes", text)
    member = search_integer(rb"Initializing distributed: GLOBAL_RANK: \d+, MEMBER: \d+/(\d+)", text)
    return Facts(precision=precision, gpus=started or member, hardware=read_hardware(text))


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check whether the bar's time includes validation, and whether several devices share a batch.

    The bar of Lightning 1 (it shows ``loss`` before ``v_num``) continues during validation; later versions stop it, but
    its time includes a validation within the epoch (``val_check_interval``).
    """
    found = list(model_parallel(context))
    if re.search(rb"(?:it/s|s/it), loss=[^\n]*v_num=", context.text) and b"Validati" in context.text:
        sentence = "the progress bar of this version counts validation batches as steps"
        found.append(Problem("evaluation-included", sentence))
    elif any(step != steps for step, steps in _BEFORE_VALIDATION.findall(context.notes)):
        sentence = "validation runs within epochs, and the progress bar's time includes it"
        found.append(Problem("evaluation-included", sentence))
    return tuple(found)


_BEFORE_VALIDATION = re.compile(
    rb"Epoch \d+: [^\n]*?(\d+)/(\d+) \[[^\n]*\n(?:[^\nE][^\n]*\n|\n)*?Validation(?: DataLoader \d+)?: "
)

FORMAT = Format(
    name="lightning",
    title="PyTorch Lightning",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.RUNNING,
    records=(
        re.compile(
            rb"Epoch (?P<epoch>\d+): +(?:\d+%\|[^|\n]*\|)? *(?P<step>\d+)/\d+ \[[\d:]+<[^,\n]*, +"
            rb"(?:(?P<average_steps_per_s>[\d.]+)it/s|(?P<average_time_s>[\d.]+)s/it)[,\]]"
        ),
    ),
    mark=re.compile(rb"(?:GPU|TPU) available: \w+|Epoch \d+: +\d+%\|"),
    facts=facts,
    doubts=doubts,
    notes=_BEFORE_VALIDATION,
    end_state=ends_with(re.compile(rb"`Trainer\.fit` stopped: ")),
    header=re.compile(rb"(?:GPU|TPU) available: |LOCAL_RANK: "),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    if run.amp:
        yield "Using 16bit Automatic Mixed Precision (AMP)"
    yield "GPU available: True (cuda), used: True"
    yield f"All distributed processes registered. Starting with {run.gpus} processes"
    total = len(run.step_times_s)
    for line in lines_of(run):
        passed = f"{int(line.elapsed_s) // 60:02d}:{int(line.elapsed_s) % 60:02d}"
        pace = line.step / line.elapsed_s
        shown = f"{pace:5.2f}it/s" if pace >= 1 else f"{1 / pace:5.2f}s/it"
        yield (
            f"Epoch 0: {100 * line.step // total:3d}%|#####     | {line.step}/{total} [{passed}<02:55, {shown}, "
            "v_num=0, train_loss=2.300]"
        )
    yield "`Trainer.fit` stopped: `max_epochs=1` reached."
