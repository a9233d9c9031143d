"""The ``Trainer`` of Hugging Face's transformers (and TRL's, which are built on it).

    {'train_runtime': 1575, 'train_samples_per_second': 1.333, 'train_steps_per_second': 0.168, 'train_loss': 0.28, …}
    ***** train metrics *****
      train_samples_per_second =     1.3330

The rate is of all devices: samples x epochs over the whole run, warm-up, evaluation and checkpoints between included;
a run that goes on from a checkpoint counts the samples of before as well, and one that stops early those that it did
not train: steps of the progress bar, and epochs, say how many there were. Lines in between have losses and no time.
Source: ``transformers/trainer_utils.py:speed_metrics``.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from trainmark.logs.format import Format, LogContext, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Ending, Facts, Problem, Scope, Severity
from trainmark.schema.case import Precision

_EVALUATION_SHARE = 0.02

_Bar = tuple[float, float, float]
"""A drawing of the progress bar: step, steps in all, seconds since its start."""
_OFF = 0.02
"""What an epoch or a step more or less may make; by less no run is said to have been resumed or stopped."""
_TOTAL_BATCH = rb"Total train batch size \(w\. parallel, distributed & accumulation\) = ([\d,]+)\s"

_NUMBER = rb"'?(\d+(?:\.\d+)?(?:e[+-]\d+)?)['\s,}]"
_SECONDS = rb"'%s_runtime': " + _NUMBER
_PAIR = re.compile(rb"'(train_runtime|train_samples_per_second|train_steps_per_second|epoch)': " + _NUMBER)
_BAR = re.compile(rb"\| (\d{1,12})/(\d{1,12}) \[(?:(\d{1,6}):)?(\d\d):(\d\d)<")
_LOST = re.compile(rb"\{'loss': '?0\.0'?, 'grad_norm': '?nan")
_LOSS = re.compile(rb"\{'loss': [^\n{}]*'epoch': " + _NUMBER)


def facts(context: LogContext) -> Facts:
    """Read what ``***** Running training *****`` says, and the printed ``TrainingArguments``."""
    text = context.text
    training = _last_training(text)
    device = search_integer(rb"Instantaneous batch size per device = ([\d,]+)", training)
    total = search_integer(_TOTAL_BATCH, training)
    accumulation = search_integer(rb"Gradient Accumulation steps = (\d+)", training)
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
    """Say what the summary's time holds besides training, and where it counts what this run did not train."""
    found = []
    summary = _summary(context.tail)
    runtime = summary.get("train_runtime", 0.0)
    spent = sum(float(word) for word in re.findall(_SECONDS % b"eval", context.notes))
    if runtime > 0 and spent > _EVALUATION_SHARE * runtime:
        sentence = f"evaluation took {spent / runtime:.0%} of the time that the rate is taken over"
        found.append(Problem("evaluation-included", sentence))
    planned = summary.get("train_steps_per_second", 0.0) * runtime
    bars = _bars(context, planned)
    if done := _done(context, summary, bars):
        sentence = f"the run stopped at {done:.0%} of what was planned, and its summary counts all of that"
        found.append(Problem("stopped-early", sentence))
    found += _of_another_batch(summary, _last_training(context.text))
    if _LOST.search(context.tail[context.tail.rfind(b"{'loss': ") :]):
        found.append(
            Problem("loss-not-finite", "the gradient is NaN in the last lines: the training had failed")
        )
    if _resumed(context, summary, bars):
        sentence = "the run goes on from a checkpoint: its summary counts samples of before over its own time"
        found.append(Problem("resumed", sentence))
    sentence = "the rate is of the whole run: start, warm-up and checkpoints are in its time"
    return (*found, Problem("whole-run", sentence, Severity.NOTE))


def _of_another_batch(summary: dict[str, float], training: bytes) -> Iterator[Problem]:
    """Yield a doubt where the samples of a step are none, or more than the batch of all devices by far.

    Where few steps make an epoch and micro-batches are left over, a step counts up to twice its batch.
    """
    samples, steps = (summary.get(f"train_{what}_per_second", 0.0) for what in ("samples", "steps"))
    if not samples or not steps:
        return
    slack = 1 + _OFF + 0.0005 / steps
    total = search_integer(_TOTAL_BATCH, training)
    if samples / steps < 1 / slack or (total and samples / steps > 2 * total * slack):
        sentence = (
            f"{samples:.6g} samples/s and {steps:.6g} steps/s make {samples / steps:.4g} samples a step"
        )
        batch = f", and a step is of {total}" if total else ""
        yield Problem("rates-contradict-batch", sentence + batch)


def _summary(text: bytes) -> dict[str, float]:
    """Return the numbers of the last printed summary."""
    lines: list[bytes] = re.findall(rb"\{'train_runtime': [^\n}]*\}", text)
    pairs = _PAIR.findall(lines[-1]) if lines else []
    return {key.decode(): float(word) for key, word in pairs}


def _bars(context: LogContext, planned: float) -> list[_Bar]:
    """Return (step, steps, seconds) of the bars of training: those that go as far as was planned."""
    if planned <= 0:
        return []
    found: list[_Bar] = []
    for step, steps, hours, minutes, seconds in _BAR.findall(context.text):
        # Rates are printed with three digits after the point, or with four in all.
        if abs(int(steps) / planned - 1) < _OFF + 0.0005 * int(steps) / planned:
            passed = 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)
            found.append((int(step), int(steps), float(passed)))
    return found


def _done(context: LogContext, summary: dict[str, float], bars: list[_Bar]) -> float | None:
    """Return which part of what the summary counts was trained, where it is less than the whole."""
    if bars:
        part, passed = bars[-1][0] / bars[-1][1], bars[-1][2]
        # A bar that is drawn seldom is as far behind in time as in steps.
        if part < (1 - _OFF) * passed / (summary["train_runtime"] + 1):
            return part
    text = _last_training(context.text)
    examples, epochs, steps = (
        search_integer(rb"%s = ([\d,]+)\s" % words, text)
        for words in (b"Num examples", b"Num Epochs", b"Total optimization steps")
    )
    batch = search_integer(_TOTAL_BATCH, text)
    if not (examples and epochs and steps and batch and "epoch" in summary):
        return None
    done = summary["epoch"] + 0.005  # two digits are printed after the point
    # With max_steps the number of epochs is rounded up; where devices share a sequence the batch is not that of all.
    trained = max(done / epochs, done * -(-examples // batch) / steps)
    return trained if trained < 1 - _OFF else None


def _last_training(text: bytes) -> bytes:
    """Return ``text`` from where the training began: one that ran out of memory may have been tried before it."""
    return text[max(text.rfind(b"***** Running training *****"), 0) :]


def _resumed(context: LogContext, summary: dict[str, float], bars: list[_Bar]) -> bool:
    """Say whether the run goes on from a checkpoint: it says so at a level that few print, or its first bar jumps."""
    if re.search(rb"Continuing training from (?:checkpoint|global step [1-9])", context.text):
        return True
    rate = summary.get("train_steps_per_second", 0.0)
    first = next(((step, steps, passed) for step, steps, passed in bars if step), None)
    if first and first[0] > _OFF * first[1] and first[0] > 3 * rate * (first[2] + 2):
        return True
    epochs = [float(word) for word in _LOSS.findall(context.head)[:20]]
    rises = [after - before for before, after in pairwise(epochs) if after > before]
    if b"Running training" not in context.head or not rises:
        return False
    return epochs[0] > 2.5 * max(rises) + 0.02


FORMAT = Format(
    name="hf-trainer",
    title="Hugging Face Trainer",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(
        rb"'(?:train|eval)_runtime': |train_samples_per_second += |\{'loss': [^\n{]*'learning_rate': [^\n{]*'epoch': "
        rb"|Total train batch size \(w\. parallel, distributed & accumulation\)"
    ),
    facts=facts,
    ending=ending,
    doubts=doubts,
    notes=re.compile(rb"'eval_runtime': [^\s}]+[\s}]"),
    figures={
        "summary": re.compile(rb"train_samples_per_second(?:': '?| += +)([\d.]+(?:e[+-]\d+)?)[^\d.e]"),
    },
    without_records="the program prints its rate at its end only, and that is not in the log",
    header=re.compile(rb"Running training|loss"),
)
