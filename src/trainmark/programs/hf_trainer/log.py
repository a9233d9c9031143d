"""The ``Trainer`` of Hugging Face's transformers (and TRL's, which are built on it).

    {'train_runtime': 1575, 'train_samples_per_second': 1.333, 'train_steps_per_second': 0.168, 'train_loss': 0.28, …}
    ***** train metrics *****
      train_samples_per_second =     1.3330

The rate is of all devices: samples x epochs over the whole run, warm-up, evaluation and checkpoints between included;
a run that goes on from a checkpoint counts the samples of before as well. Lines in between have losses and no time.
Source: ``transformers/trainer_utils.py:speed_metrics``.
"""

import re

from trainmark.logs.format import Format, LogContext, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Ending, Facts, Problem, Scope, Severity
from trainmark.words.case import Precision

_EVALUATION_SHARE = 0.02

_SECONDS = rb"'%s_runtime': '?(\d+(?:\.\d+)?(?:e[+-]\d+)?)['\s,}]"


def facts(context: LogContext) -> Facts:
    """Read what ``***** Running training *****`` says, and the printed ``TrainingArguments``."""
    text = context.text
    device = search_integer(rb"Instantaneous batch size per device = ([\d,]+)", text)
    total = search_integer(
        rb"Total train batch size \(w\. parallel, distributed & accumulation\) = ([\d,]+)\s", text
    )
    accumulation = search_integer(rb"Gradient Accumulation steps = (\d+)", text)
    parallel = device * (accumulation or 1) if device else None
    return Facts(
        model=search_word(rb"model_name_or_path[=: ]+['\"]?([\w./-]+)", text),
        precision=_precision(text),
        gpus=total // parallel if total and parallel and total % parallel == 0 else None,
        batch_per_device=device,
        accumulation=accumulation,
        global_batch=total,
        hardware=read_hardware(text),
    )


def _precision(text: bytes) -> Precision | None:
    if re.search(rb"\bbf16=True|--bf16\b(?! [Ff]alse)|mixed_precision: bf16", text):
        return Precision.AMP_BF16
    if re.search(
        rb"\bfp16=True|--fp16\b(?! [Ff]alse)|mixed_precision: fp16|Using (?:auto|amp|apex) half precision",
        text,
    ):
        return Precision.AMP_FP16
    return Precision.FP32 if b"bf16=False" in text and b"fp16=False" in text else None


def ending(context: LogContext) -> Ending:
    """See the run's summary."""
    return Ending.SEEN if b"train_runtime" in context.tail else Ending.MISSING


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Say what the summary's time holds besides training."""
    found = []
    runtimes = [float(word) for word in re.findall(_SECONDS % b"train", context.tail)]
    spent = sum(float(word) for word in re.findall(_SECONDS % b"eval", context.text))
    if runtimes and runtimes[-1] > 0 and spent > _EVALUATION_SHARE * runtimes[-1]:
        share = spent / runtimes[-1]
        found.append(
            Problem(
                "evaluation-included", f"evaluation took {share:.0%} of the time that the rate is taken over"
            )
        )
    if re.search(rb"Continuing training from (?:checkpoint|global step [1-9])", context.text):
        sentence = "the run goes on from a checkpoint: its summary counts samples of before over its own time"
        found.append(Problem("resumed", sentence))
    sentence = "the rate is of the whole run: start, warm-up and checkpoints are in its time"
    return (*found, Problem("whole-run", sentence, Severity.NOTE))


FORMAT = Format(
    name="hf-trainer",
    title="Hugging Face Trainer",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(
        rb"'train_runtime': |train_samples_per_second += |\{'loss': [^\n{]*'learning_rate': [^\n{]*'epoch': "
        rb"|Total train batch size \(w\. parallel, distributed & accumulation\)"
    ),
    facts=facts,
    ending=ending,
    doubts=doubts,
    figures={
        "summary": re.compile(rb"train_samples_per_second(?:': '?| += +)([\d.]+(?:e[+-]\d+)?)[^\d.e]"),
    },
    without_records="the program prints its rate at its end only, and that is not in the log",
    header=re.compile(rb"Running training|loss"),
)
