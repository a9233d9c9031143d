"""Keras' progress bar (``model.fit``): Keras 2 and 3, verbose 1 and 2.

    195/195 [==============================] - 12s 63ms/step - loss: 1.5 - accuracy: 0.43
    195/195 ━━━━━━━━━━━━━━━━━━━━ 12s 63ms/step - accuracy: 0.43 - loss: 1.5
    195/195 - 12s - loss: 1.5 - 12s/epoch - 63ms/step

A record is the line that ends an epoch. Its step time is the mean of the epoch's steps without the first one
(TensorFlow 2.4 and later, verbose 1), in whole milliseconds; the seconds before it cover the whole epoch. The value
with more digits is used. Keras 3 prints the line twice, first with the ``0s`` that remain. ``evaluate`` and
``predict`` print such lines too, but without ``Epoch 1/3`` before them: only the first line after a heading is read as
an epoch. ``fit`` of one epoch prints no heading. The batch is not printed. With validation data the line is printed
after the validation, includes its time, and names ``val_`` metrics."""

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from trainmark.logs.format import Format, LogContext, unknown_end
from trainmark.logs.lines.fields import derived, extract
from trainmark.logs.lines.headings import drop_unheaded
from trainmark.logs.model import (
    SEVERAL_RUNS,
    Facts,
    Floats,
    Problem,
    Scope,
    Severity,
    median,
    read_hardware,
)
from trainmark.logs.synthetic import SampleRun, lines_of


def facts(context: LogContext) -> Facts:
    """Read the device, and whether a step is one sample (arrays before Keras 2.3, and in TensorFlow 1 and 2.0)."""
    text = context.text
    each = re.search(rb"Train on \d+ samples", text) or (
        b"s/sample" in text and re.search(rb"\d(?:ms|us|s)/sample", text)
    )
    return Facts(global_batch=1 if each else None, hardware=read_hardware(text))


def parameters(context: LogContext) -> dict[str, str]:
    """Return TensorFlow as the framework of Keras 2, by its bar; Keras 3 has three backends and prints none."""
    return {"framework": "tensorflow"} if _BAR_OF_KERAS_2.search(context.text) else {}


def transform(blocks: Iterator[dict[str, Floats]]) -> Iterator[dict[str, Floats]]:
    """Yield the records with the more precise step time: as printed, or the epoch's seconds over its steps."""
    for columns in blocks:
        taken, steps, seconds = columns["step_time_s"], columns["bar_steps"], columns["bar_s"]
        with np.errstate(divide="ignore", invalid="ignore"):
            finer = 0.5 / seconds < _printed_to(taken)
            yield {"step_time_s": np.where(finer & (steps > 0), seconds / steps, taken)}


def _printed_to(step_time_s: Floats) -> Floats:
    """Return the rounding error, as a share, of times printed in whole seconds, milli- or microseconds."""
    unit = np.where(step_time_s >= 1, 1.0, np.where(step_time_s >= 1e-3, 1e-3, 1e-6))
    share: Floats = 0.5 * unit / step_time_s
    return share


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check what else the time includes, what it leaves out, and how precise it is."""
    text = context.text
    found = []
    is_old = b"us/step" in text and b"Train on " not in text and _OF_KERAS_3.search(text) is None
    if is_old and re.search(rb"\dus/step", text):
        sentence = "a step time in microseconds may be that of a sample: old versions of Keras print samples as steps"
        found.append(Problem("unit-unclear", sentence))
    if b"val_" in text and _VALIDATED.search(text):
        sentence = "the epoch times include validation (the lines name val_ metrics)"
        found.append(Problem("evaluation-included", sentence))
    bars = _whole_lines(context)
    read = (*_doubts_of_evaluation(bars), *_doubts_of_turns(bars)) or (*_doubts_of_trainings(bars),)
    return (*found, *read, *_doubts_of_bars(bars))


def _whole_lines(context: LogContext) -> bytes:
    """Return the text without the lines that were cut by leaving out the middle of a long log."""
    if len(context.text) == len(context.head):
        return context.text
    return context.head[: context.head.rfind(b"\n") + 1] + context.tail[context.tail.find(b"\n") + 1 :]


def _doubts_of_evaluation(text: bytes) -> Iterator[Problem]:
    """Yield a doubt if a bar without a heading names no metric, or has other steps than another bar."""
    start = heading.start() if (heading := _HEADING.search(text)) else len(text)
    if not len(without := _bars(text[:start])):
        return
    differ = len({int(steps) for steps in (*without[:, 0], *_bars(text)[:, 0])}) > 1
    if differ or _PREDICTED.search(text[:start]):
        sentence = (
            "there are bars without 'Epoch 1/3' before them: those of evaluate or predict are read as epochs"
        )
        yield Problem("evaluation-read", sentence)


def _doubts_of_trainings(text: bytes) -> Iterator[Problem]:
    """Yield a problem of a log of several trainings: a doubt if their epochs differ in steps or their steps in time."""
    starts = [start.start() for start in FORMAT.header.finditer(text)] if FORMAT.header else []
    parts = [text[start:end] for start, end in pairwise([0, *starts[1:], len(text)])]
    trainings = [bars[bars[:, 0] > 0] for part in parts if len(bars := _bars(part))]
    trainings = [bars for bars in trainings if len(bars)]
    steps = sorted({int(steps) for bars in trainings for steps in bars[:, 0]})
    if len(steps) > 1:
        sentence = (
            f"epochs have {steps[0]} to {steps[-1]} steps: the log has several trainings, of other data or another "
            "batch; split it"
        )
        yield Problem(SEVERAL_RUNS, sentence)
    elif len(trainings) > 1:
        times = [bars[1:, 2] if len(bars) > 1 else bars[:, 2] for bars in trainings]
        typical = [median(each) for each in times]
        differ = max(typical) / min(typical) - 1
        unlike = differ > _EXACT_TRAINING + max(float(_printed_to(each).max()) for each in times)
        sentence = (
            f"the log has {len(trainings)} trainings, whose steps take {min(typical):.3g} to {max(typical):.3g} s: the "
            "number is that of all of them; split it"
        )
        yield Problem(SEVERAL_RUNS, sentence, Severity.DOUBT if unlike else Severity.NOTE)


def _doubts_of_turns(text: bytes) -> Iterator[Problem]:
    """Yield a problem if epochs begin in turn, as two jobs or several ranks print: a doubt if their steps differ."""
    epochs = [int(heading[1]) for heading in _HEADING.finditer(text)]
    if sum(after not in (1, before + 1) for before, after in pairwise(epochs)) < _FEWEST_TURNS:
        return
    bars = _all_bars(text)
    taken = bars[bars[:, 0] > 0][:, 2]
    if not len(taken):
        return
    differ = median(np.abs(taken / median(taken) - 1))
    sentence = (
        f"the epochs of several trainings, or of several ranks, begin in turn, and their steps take "
        f"{taken.min():.3g} to {taken.max():.3g} s: the first bar below each 'Epoch' is used; split the log"
    )
    unlike = differ > _EXACT_TRAINING + float(np.median(_printed_to(taken)))
    yield Problem(SEVERAL_RUNS, sentence, Severity.DOUBT if unlike else Severity.NOTE)


def _bars(text: bytes) -> Floats:
    """Return the bars that are read as epochs, a row each: its steps, its seconds and the time of a step."""
    return _table([drop_unheaded(_HEADING, pattern, text, None)[0] for pattern in FORMAT.records])


def _all_bars(text: bytes) -> Floats:
    """Return all bars of whole epochs, and those of other work, in the form of ``_bars``."""
    return _table([text] * len(FORMAT.records))


def _table(texts: list[bytes]) -> Floats:
    """Return the bars in ``texts``, one for each pattern of a record."""
    found = [
        derived(extract(pattern, text).columns) for pattern, text in zip(FORMAT.records, texts, strict=True)
    ]
    names = ("bar_steps", "bar_s", "step_time_s")
    tables = [np.stack([columns[name] for name in names], axis=1) for columns in found if columns]
    return np.concatenate([*tables, np.empty((0, 3))])


def _doubts_of_bars(text: bytes) -> Iterator[Problem]:
    """Yield doubts about the bars of complete epochs, without the first epoch if there are others."""
    table = _bars(text)
    table = table[1:] if len(table) > 1 else table
    table = table[(table[:, 0] > 0) & (table[:, 2] > 0)]
    if not len(table):
        return
    steps, seconds, taken = table.T
    if (fewest := int(median(steps))) < _FEWEST_STEPS:
        sentence = (
            f"an epoch has only {fewest} steps, and its last batch may not be full: the rate may be up to "
        )
        yield Problem("few-steps", f"{sentence}{1 / fewest:.0%} lower")
    exact, printed = 0.5 / np.maximum(seconds, 1e-9), _printed_to(taken)
    if (known := median(np.minimum(exact, printed))) > _EXACT:
        sentence = f"the printed times have so few digits that the rate is uncertain by {known:.0%}"
        yield Problem("few-digits", sentence)
    off = seconds - steps * taken
    beyond = np.abs(off) > 0.1 * seconds + 0.5 + printed * steps * taken
    if median(beyond) == 1:
        printed_s, whole = median(taken), median(seconds / steps)
        sentence = (
            f"a step takes {printed_s:.3g} s by the line but {whole:.3g} s by the epoch's seconds: one of them leaves "
            "out the first step of each epoch, or the other includes time between steps"
        )
        yield Problem("rates-contradict-clock", sentence)


_VALIDATED = re.compile(rb"(?:ms|s|us)/step[^\n]* val_\w+: |val_\w+: [^\n]*(?:ms|s|us)/step")
_BAR_OF_KERAS_2 = re.compile(rb"\d+/\d+ \[=[=>.]*\] - ")
_OF_KERAS_3 = re.compile(rb"\d/\d+ - \d+s - \d+us/step|\xe2\x94\x81")
"""Only Keras 3 prints the time of a step behind a second dash, and draws its bar with lines."""
_EXACT = 0.02
_EXACT_TRAINING = 0.01
"""Difference of two trainings' steps that is that of two runs of one program, beyond the printed digits."""
_FEWEST_STEPS = 20
_FEWEST_TURNS = 2
"""A run that goes on from a checkpoint begins an epoch anew once."""
_HEADING = re.compile(rb"Epoch (\d+)/\d+\s")
_PREDICTED = re.compile(rb"(?:\] -|\xe2\x94\x81) \d+s \d+[mu]?s/(?:step|sample) *[\r\n]")
"""A bar of ``predict``, which names no metric."""
_TIME = rb"(?:(?P<step_time_ms>[\d.]+)ms|(?P<step_time_us>[\d.]+)us|(?P<step_time_s>[\d.]+)s)/(?:step|sample)[\s-]"
_STEPS = rb"\b(?P<bar_steps>\d+)/(?P=bar_steps) "

FORMAT = Format(
    name="keras",
    title="Keras",
    framework=None,
    parameters=parameters,
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(rb"/(?P<bar_steps>\d+) \[=+\] - (?P<bar_s>\d+)s " + _TIME),
        re.compile(_STEPS + rb"(?:\xe2\x94\x81)+ (?P<bar_s>[1-9]\d*)s " + _TIME),
        re.compile(_STEPS + rb"- (?P<bar_s>\d+)s (?:[^\n]*- \d+s/epoch )?- " + _TIME),
    ),
    mark=re.compile(
        rb"\d+/\d+ (?:\[[=>.]+\]|(?:\xe2\x94\x81)+) [^\n]*/step|Epoch \d+/\d+\n[^\n]{0,20}\d+/\d+ (?:\[|\xe2\x94\x81)"
    ),
    facts=facts,
    end_state=unknown_end,
    transform=transform,
    doubts=doubts,
    heading=_HEADING,
    warmup_steps=1,
    header=re.compile(rb"Epoch 1/\d+"),
    without_records="the log has no complete epoch",
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``: each interval is an epoch."""
    total = len(run.step_times_s) // run.interval
    for epoch, line in enumerate(lines_of(run), start=1):
        yield f"Epoch {epoch}/{total}"
        yield (
            f"{run.interval}/{run.interval} [==============================] - {line.step_time_s * run.interval:.0f}s "
            f"{line.step_time_s * 1000:.0f}ms/step - loss: 1.5000 - accuracy: 0.4300"
        )
