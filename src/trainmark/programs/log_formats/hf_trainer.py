"""The ``Trainer`` of Hugging Face's transformers (and TRL's and Unsloth's, which are built on it).

    {'train_runtime': 1575, 'train_samples_per_second': 1.333, 'train_steps_per_second': 0.168, 'train_loss': 0.28, …}
    ***** train metrics *****
      train_samples_per_second =     1.3330

The rate covers all devices: samples x epochs over the whole run, including warm-up, evaluation and checkpoints. A run
resumed from a checkpoint also counts the earlier samples, and a run that stops early those that it did not train; the
progress bar and the epochs show how many were trained. The number of a resumed run is that of its own steps, and none
if the log does not show them. Lines in between have losses but no times. Without a summary
(an excerpt, a run that did not end) the progress bar times the steps, if it counts those of the printed batch.
In a run whose lines have a known arrival, the steps are those of the progress bar, and the number is that of the steps
after the warm-up.
Source: ``transformers/trainer_utils.py:speed_metrics``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from trainmark.logs.format import Format, LogContext, search_integer, search_word
from trainmark.logs.lines.fields import Extract
from trainmark.logs.lines.fields import extract as extract_fields
from trainmark.logs.model import (
    PARTIAL_BATCHES,
    SEVERAL_RUNS,
    EndState,
    Facts,
    Floats,
    Problem,
    Scope,
    Severity,
    read_hardware,
)
from trainmark.logs.synthetic import SampleRun, lines_of, overall_rate
from trainmark.schema.precision import Precision

_EVALUATION_SHARE = 0.02

_Bar = tuple[float, float, float]
"""A state of the progress bar: step, total steps, seconds since its start."""
_OFF = 0.02
"""Relative effect of one epoch or step more or less: smaller deviations do not mean a resumed or stopped run."""
# Unsloth prints its own banner instead: "Total batch size (2 x 4 x 1) = 8", before 2025 "Total batch size = 8".
_TOTAL_BATCH = (
    rb"Total (?:train batch size \(w\. parallel, distributed & accumulation\)|batch size(?: \([\dx ]+\))?)"
    rb" = ([\d,]+)\s"
)

_START = re.compile(rb"\*{5} Running training \*{5}|Unsloth - 2x faster free finetuning")
_TRAINED = re.compile(rb"^ *\{'loss': |\| [1-9]\d{0,11}/\d{1,12} \[\d", re.MULTILINE)
"""A line or a bar of a step that is done."""
_STEPS = rb"Total (?:optimization )?steps = ([\d,]+)\s"
_BAR_WARMUP = 5
"""First steps that the bar's time leaves out if as many follow."""
_LEAST_BAR_S = 50.0
"""The bar shows whole seconds: over a shorter time it would be off by more than 2 %."""

_LEFTOVER = 0.005
"""Largest relative effect on the samples of a step that an epoch's smaller last batch may have."""

_OF_SUMMARY = ("whole-run", "resumed", "stopped-early")
"""The codes of problems that only the summary has: which time and which samples it counts."""

_VAGUE = 0.02
"""Largest share of a resumed run's own epochs by which its start may be unknown."""

_NUMBER = rb"'?(\d+(?:\.\d+)?(?:e[+-]\d+)?)['\s,}]"
_SECONDS = rb"'%s_runtime': " + _NUMBER
_PAIR = re.compile(rb"'(train_runtime|train_samples_per_second|train_steps_per_second|epoch)': " + _NUMBER)
# With include_num_input_tokens_seen, each line with a loss has a train_runtime too.
_SUMMARY = re.compile(rb"\{'train_runtime': |train_runtime += |train_samples_per_second")
_UNTITLED_BAR = re.compile(rb"^ *\d{1,3}%\|[^|\n]*\| (?P<step>\d{1,12})/(?P<total>\d{1,12}) \[", re.MULTILINE)
_BAR_OR_LOG = re.compile(
    _UNTITLED_BAR.pattern + rb"|^ *\{'(?:loss|train_runtime)': '?(?P<logged>[\w.+-]+)", re.MULTILINE
)
# tqdm writes a title, a colon and the percentage in three places, as in "Map:  40%|".
_BAR = re.compile(rb"(?<!: [ \d][ \d]\d)%\|[^|\n]*\| (\d{1,12})/(\d{1,12}) \[(?:(\d{1,6}):)?(\d\d):(\d\d)<")
_RESUMED = re.compile(rb"Continuing training from (?:checkpoint|global step [1-9])")
_FROM_STEP = rb"Continuing training from global step ([1-9]\d{0,11})\b"
_LOST = re.compile(rb"\{'loss': '?0\.0'?, 'grad_norm': '?nan")
_LOSS = re.compile(rb"\{'loss': [^\n{}]*'epoch': " + _NUMBER)


def facts(context: LogContext) -> Facts:
    """Read the block ``***** Running training *****`` and the printed ``TrainingArguments``."""
    text = context.text
    training = _last_training(text)
    device = search_integer(rb"(?:Instantaneous b|\bB)atch size per device = ([\d,]+)", training)
    total = search_integer(_TOTAL_BATCH, training)
    accumulation = search_integer(rb"Gradient [Aa]ccumulation steps = (\d+)", training)
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


def end_state(context: LogContext) -> EndState:
    """Return whether the run's summary is printed."""
    return EndState.FOUND if _SUMMARY.search(context.tail) else EndState.MISSING


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check what the summary's time includes besides training, and whether it counts untrained samples."""
    found = []
    summary = _summary(context.tail)
    runtime = summary.get("train_runtime", 0.0)
    timed = _timed_steps(context, _last_training(context.text))
    runtime = timed[1] if timed else runtime
    spent = sum(float(word) for word in re.findall(_SECONDS % b"eval", context.notes))
    if runtime > 0 and spent > _EVALUATION_SHARE * runtime:
        sentence = f"evaluation took {spent / runtime:.0%} of the time on which the rate is based"
        found.append(Problem("evaluation-included", sentence))
    planned = summary.get("train_steps_per_second", 0.0) * runtime
    bars = _bars(context, planned)
    if done := _done(context, summary, bars):
        sentence = f"the run stopped after {done:.0%} of the planned work, but its summary counts all planned samples"
        found.append(Problem("stopped-early", sentence))
    found += _of_another_batch(summary, _last_training(context.text))
    if _LOST.search(context.tail[context.tail.rfind(b"{'loss': ") :]):
        found.append(
            Problem("loss-not-finite", "the gradient is NaN in the last lines: the training diverged")
        )
    if not _resumed(context, summary, bars):
        found += _earlier_trainings(context)
    else:
        found.append(
            _about_resumed(_rate_by_steps(context, summary, bars), _rate_by_epochs(context, summary, bars))
        )
    covered = "the steps of the progress bar: their" if timed else "the whole run: its"
    more = "" if timed else "start-up, warm-up and "
    sentence = f"the rate covers {covered} time includes {more}checkpoints"
    return (*found, Problem("whole-run", sentence, Severity.NOTE))


def computed_figures(context: LogContext) -> dict[str, float | None]:
    """Return the samples per second of a log without a summary, or of a resumed run, whose summary is not its own."""
    summary = _summary(context.tail)
    bars = _bars(context, summary.get("train_steps_per_second", 0.0) * summary.get("train_runtime", 0.0))
    if not _resumed(context, summary, bars):
        return _by_progress_bar(context)
    if b"train_samples_per_second" not in context.tail:
        return _by_progress_bar(context) | {"summary": None}
    rate = _rate_by_steps(context, summary, bars) or _rate_by_epochs(context, summary, bars)
    return {"summary": None} if rate is None else {"summary": None, "resumed-part": rate}


def _by_progress_bar(context: LogContext) -> dict[str, float | None]:
    """Return the samples per second by the progress bar of a log without a summary; empty if it cannot be known."""
    training = _last_training(context.text)
    timed = _timed_steps(context, training)
    batch = search_integer(_TOTAL_BATCH, training)
    if timed is None or not batch:
        return {}
    steps, seconds = timed
    return {"progress-bar": batch * steps / seconds}


def _timed_steps(context: LogContext, training: bytes) -> tuple[int, float] | None:
    """Return the steps after the warm-up and their seconds by the progress bar; None with a summary or with doubt.

    The bar must count the printed number of steps: some wrappers count micro-batches.
    """
    total = search_integer(_STEPS, training)
    if _SUMMARY.search(context.tail) or not total:
        return None
    bars = [(step, seconds) for step, steps, seconds in _all_bars(training) if steps == total]
    if any(after < before or later < earlier for (before, earlier), (after, later) in pairwise(bars)):
        return None
    first = next((bar for bar in bars if bar[0] >= bars[0][0] + _BAR_WARMUP), None)
    if first is None:
        return None
    steps, seconds = bars[-1][0] - first[0], bars[-1][1] - first[1]
    return (int(steps), seconds) if steps >= _BAR_WARMUP and seconds >= _LEAST_BAR_S else None


def _about_resumed(by_steps: float | None, by_epochs: float | None) -> Problem:
    """Return the problem of a resumed run, given the rate of its own part by its steps, and by its epochs."""
    began = "the run resumed from a checkpoint: "
    if by_steps is not None:
        return Problem(
            "resumed", f"{began}the number covers the steps and the time since then", Severity.NOTE
        )
    if by_epochs is not None:
        sentence = (
            f"{began}the number covers the epochs since its first loss, unless lines before it are missing"
        )
        return Problem("resumed", sentence)
    sentence = (
        f"{began}its summary counts earlier samples but only its own time, and the log does not show how many steps "
        "are its own"
    )
    return Problem("resumed", sentence)


def _rate_by_steps(context: LogContext, summary: dict[str, float], bars: list[_Bar]) -> float | None:
    """Return the samples per second of a resumed run's own steps; ``None`` if the log does not show how many they are.

    The progress bar times them. Without it they are those after the printed global step, over the run's time.
    """
    rate, runtime = (summary.get(f"train_{name}", 0.0) for name in ("samples_per_second", "runtime"))
    if not rate or not runtime:
        return None
    if timed := _time_by_bar(bars):
        steps, seconds = timed
        return rate * runtime * steps / bars[-1][1] / seconds
    if _done(context, summary, bars) is not None:
        return None
    training = _last_training(context.text)
    total = search_integer(_STEPS, training) or (int(bars[-1][1]) if bars else None)
    resumed_at = search_integer(_FROM_STEP, training)
    return rate * (total - resumed_at) / total if resumed_at and total and resumed_at < total else None


def _time_by_bar(bars: list[_Bar]) -> tuple[float, float] | None:
    """Return a resumed run's steps and their seconds by its progress bar; ``None`` if they are too few or not in order.

    The bar jumps to the first step after the checkpoint.
    """
    moved = [(step, seconds) for step, _, seconds in bars if step]
    if not moved or any(after < before or late < soon for (before, soon), (after, late) in pairwise(moved)):
        return None
    start = next((bar for bar in moved if bar[0] >= moved[0][0] + _BAR_WARMUP), moved[0])
    for first in (start, moved[0]):
        steps, seconds = moved[-1][0] - first[0], moved[-1][1] - first[1]
        if steps >= _BAR_WARMUP and seconds >= _LEAST_BAR_S:
            return steps, seconds
    return None


def _rate_by_epochs(context: LogContext, summary: dict[str, float], bars: list[_Bar]) -> float | None:
    """Return the samples per second of a resumed run by its share of all epochs, from the epochs of its first losses.

    The checkpoint is at most one loss before the first one; ``None`` if that leaves the share uncertain.
    """
    rate, last = summary.get("train_samples_per_second", 0.0), summary.get("epoch", 0.0)
    if not rate or _done(context, summary, bars) is not None:
        return None
    epochs = [float(word) for word in _LOSS.findall(context.head)[:20]]
    rises = [after - before for before, after in pairwise(epochs) if after > before]
    if b"Running training" not in context.head or not rises or last <= epochs[0]:
        return None
    spacing = max(rises)
    own = last - epochs[0] + spacing
    return rate * own / last if own < last and spacing + 0.01 <= _VAGUE * own else None


def _all_bars(text: bytes) -> Iterator[_Bar]:
    for step, steps, hours, minutes, seconds in _BAR.findall(text):
        yield int(step), int(steps), float(3600 * int(hours or 0) + 60 * int(minutes) + int(seconds))


def _of_another_batch(summary: dict[str, float], training: bytes) -> Iterator[Problem]:
    """Yield a doubt if a step has less than one sample, or more than the batch of all devices.

    With few steps per epoch and leftover micro-batches a step counts up to twice its batch; by how much, examples,
    epochs and steps show where they are printed.
    """
    samples, steps = (summary.get(f"train_{what}_per_second", 0.0) for what in ("samples", "steps"))
    if not samples or not steps:
        return
    slack = 1 + _OFF + 0.0005 / steps
    total = search_integer(_TOTAL_BATCH, training)
    planned = _samples_of_a_step(training)
    most = max(total or 0, planned * (1 + _OFF)) if planned else 2 * (total or 0)
    if samples / steps < 1 / slack or (total and samples / steps > most * slack):
        sentence = (
            f"{samples:.6g} samples/s and {steps:.6g} steps/s mean {samples / steps:.4g} samples per step"
        )
        batch = f", but the global batch is {total}" if total else ""
        yield Problem("rates-contradict-batch", sentence + batch)


def _samples_of_a_step(training: bytes) -> float | None:
    """Return the printed samples of all epochs over the steps; None if the log does not print them."""
    examples, epochs, steps = (
        search_integer(rb"%s = ([\d,]+)\s" % words, training)
        for words in (b"Num examples", b"Num Epochs", b"Total optimization steps")
    )
    return examples * epochs / steps if examples and epochs and steps else None


def _summary(text: bytes) -> dict[str, float]:
    """Return the numbers of the last printed summary."""
    lines: list[bytes] = re.findall(rb"\{'train_runtime': [^\n}]*\}", text)
    pairs = _PAIR.findall(lines[-1]) if lines else []
    return {key.decode(): float(word) for key, word in pairs}


def _bars(context: LogContext, planned: float) -> list[_Bar]:
    """Return (step, steps, seconds) of the training bars: those with the planned number of steps."""
    if planned <= 0:
        return []
    # Rates are printed with three decimals, or with four digits in total.
    return [
        bar for bar in _all_bars(context.text) if abs(bar[1] / planned - 1) < _OFF + 0.0005 * bar[1] / planned
    ]


def _done(context: LogContext, summary: dict[str, float], bars: list[_Bar]) -> float | None:
    """Return the trained share of the work that the summary counts; ``None`` if it is all of it."""
    if bars:
        part, passed = bars[-1][0] / bars[-1][1], bars[-1][2]
        # A rarely updated bar lags in time as much as in steps.
        if part < (1 - _OFF) * min(1.0, passed / (summary["train_runtime"] + 1)):
            return part
    text = _last_training(context.text)
    examples, epochs, steps = (
        search_integer(rb"%s = ([\d,]+)\s" % words, text)
        for words in (b"Num examples", b"Num Epochs", b"Total optimization steps")
    )
    batch = search_integer(_TOTAL_BATCH, text)
    if not (examples and epochs and steps and batch and "epoch" in summary):
        return None
    done = summary["epoch"] + 0.005  # two decimals are printed
    # With max_steps the number of epochs is rounded up; if devices share a sequence the batch is not that of all.
    trained = max(done / epochs, done * -(-examples // batch) / steps)
    return trained if trained < 1 - _OFF else None


def _last_training(text: bytes) -> bytes:
    """Return ``text`` from the last start of training: an attempt that ran out of memory may precede it."""
    return text[max((start.start() for start in _START.finditer(text)), default=0) :]


def _earlier_trainings(context: LogContext) -> Iterator[Problem]:
    """Yield a doubt if the last training is not the only one with steps, apart from attempts out of memory.

    Each process may print the start of the same training. A start between the log's head and tail follows its steps.
    """
    parts = _START.split(context.text)
    trained = [part for part in parts[1:-1] if _TRAINED.search(part) and b"out of memory" not in part]
    if trained or len(_START.findall(context.notes)) >= len(parts):
        sentence = "the training starts more than once: the number is that of the last run; split the file"
        yield Problem(SEVERAL_RUNS, sentence)


def _resumed(context: LogContext, summary: dict[str, float], bars: list[_Bar]) -> bool:
    """Return whether the run resumed from a checkpoint, by its message (rarely printed) or a jump of its first bar."""
    if _RESUMED.search(context.text):
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


def extract_bars(text: bytes) -> Extract:
    """Return the step and the number of all steps of each bar without a title, and the lines that the Trainer logs."""
    return extract_fields(_BAR_OR_LOG, text)


def rising_bars(blocks: Iterator[dict[str, Floats]]) -> Iterator[dict[str, Floats]]:
    """Yield the training's bars from step 1 on, each step once: a loss draws the bar again."""
    found = [block for block in blocks if "total" in block]
    high, training = 0.0, _training_total(found)
    for columns in found:
        columns.pop("logged", None)
        totals, step = columns.pop("total"), columns["step"]
        highest = np.maximum.accumulate(np.concatenate(([high], np.where(totals == training, step, -1.0))))
        high = float(highest[-1])
        yield {name: values[highest[1:] > highest[:-1]] for name, values in columns.items()}


def _training_total(blocks: Sequence[Mapping[str, Floats]]) -> float:
    """Return the number of steps of the training's bar, among those of a script's own loops and of evaluations.

    It is the bar before the last line that the Trainer logs: an attempt that ran out of memory may precede it. Until
    there is such a line, it is the first unfinished bar: what runs before the training has ended, and an evaluation
    comes after a step. 0 without any bar.
    """
    if not blocks:
        return 0.0
    step, total = (np.concatenate([block[name] for block in blocks]) for name in ("step", "total"))
    bars = np.flatnonzero(np.isfinite(total))
    if not len(bars):
        return 0.0
    logged = np.flatnonzero(~np.isfinite(total))
    if len(logged) and len(before := bars[bars < logged[-1]]):
        return float(total[before[-1]])
    finished = set(total[step == total].tolist())
    return next((one for one in total[bars].tolist() if one not in finished), float(total[bars[0]]))


def doubts_of_steps(context: LogContext) -> tuple[Problem, ...]:
    """Return the doubts that are not about the summary, and one if an epoch's last batch is smaller."""
    training = _last_training(context.text)
    examples = search_integer(rb"Num examples = ([\d,]+)\s", training)
    batch = search_integer(_TOTAL_BATCH, training)
    found = [problem for problem in doubts(context) if problem.code not in _OF_SUMMARY]
    if examples and batch and (mean := examples / -(-examples // batch)) < (1 - _LEFTOVER) * batch:
        sentence = (
            f"the last batch of an epoch is smaller: {examples} samples are {mean:.4g} a step, not {batch}"
        )
        found.append(Problem(PARTIAL_BATCHES, sentence))
    return tuple(found)


_OF_BOTH = Format(
    name="hf-trainer",
    title="Hugging Face Trainer",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(),
    mark=_UNTITLED_BAR,
    facts=facts,
    end_state=end_state,
    notes=re.compile(rb"'eval_runtime': [^\s}]+[\s}]|" + _START.pattern),
    header=re.compile(rb"Running training|loss"),
)
"""What the format of the summary and that of the arrivals have in common; the mark is that of the arrivals."""

FORMAT = replace(
    _OF_BOTH,
    mark=re.compile(
        rb"'(?:train|eval)_runtime': |train_samples_per_second += |\{'loss': [^\n{]*'learning_rate': [^\n{]*'epoch': "
        rb"|Total train batch size \(w\. parallel, distributed & accumulation\)|Unsloth - 2x faster free finetuning"
    ),
    doubts=doubts,
    figures={
        "summary": re.compile(rb"train_samples_per_second(?:': '?| += +)([\d.]+(?:e[+-]\d+)?)[^\d.e]"),
    },
    computed_figures=computed_figures,
    without_records=(
        "the program prints its rate only at the end of the run, which the log does not contain; that of a resumed run "
        "counts earlier steps"
    ),
    by_arrival=replace(_OF_BOTH, extract=extract_bars, transform=rising_bars, doubts=doubts_of_steps),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"TrainingArguments(bf16=False, fp16={run.amp})"
    yield "***** Running training *****"
    yield f"  Instantaneous batch size per device = {run.batch_per_device}"
    yield f"  Total train batch size (w. parallel, distributed & accumulation) = {run.global_batch}"
    yield "  Gradient Accumulation steps = 1"
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield f"{{'loss': 0.1307, 'grad_norm': 0.1406, 'learning_rate': 2.756e-05, 'epoch': {line.step / total:.3f}}}"
    seconds = sum(run.step_times_s)
    yield (
        f"{{'train_runtime': {seconds:.4f}, 'train_samples_per_second': {overall_rate(run):.3f}, "
        f"'train_steps_per_second': {total / seconds:.3f}, 'train_loss': 0.2854, 'epoch': 1.0}}"
    )
