"""Keras' progress bar (``model.fit``): Keras 2 and 3, verbose 1 and 2.

    195/195 [==============================] - 12s 63ms/step - loss: 1.5 - accuracy: 0.43
    195/195 ━━━━━━━━━━━━━━━━━━━━ 12s 63ms/step - accuracy: 0.43 - loss: 1.5
    195/195 - 12s - loss: 1.5 - 12s/epoch - 63ms/step

A record is the line that ends an epoch; its time is the mean of the epoch's steps, the first one left out (TensorFlow
2.4 and later, verbose 1). Keras 3 prints it twice, first with the ``0s`` that are left. The batch is not printed. With
validation data the line is printed after the validation, whose time is then in it, and it names ``val_`` metrics."""

import re

from trainmark.logs.format import Format, LogContext, unknowable
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Problem, Scope


def facts(context: LogContext) -> Facts:
    """Read the device, and whether a step is a sample, as it was for arrays before Keras 2.3 and in TensorFlow 1 and
    2.0."""
    each = re.search(rb"Train on \d+ samples|\d(?:ms|us|s)/sample", context.text)
    return Facts(global_batch=1 if each else None, hardware=read_hardware(context.text))


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Say that validation is in the time."""
    if re.search(rb"\dus/step", context.text) and b"Train on " not in context.text:
        sentence = (
            "steps of microseconds are samples in old versions of the program, which this log may be of"
        )
        return (Problem("unit-unclear", sentence),)
    if not re.search(rb"(?:ms|s|us)/step[^\n]* val_\w+: |val_\w+: [^\n]*(?:ms|s|us)/step", context.text):
        return ()
    return (
        Problem(
            "evaluation-included", "the epochs' times hold their validation (the lines name val_ metrics)"
        ),
    )


_TIME = rb"(?:(?P<step_time_ms>[\d.]+)ms|(?P<step_time_us>[\d.]+)us|(?P<step_time_s>[\d.]+)s)/(?:step|sample)[\s-]"

FORMAT = Format(
    name="keras",
    title="Keras",
    framework="tensorflow",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(rb"=\] - \d+s " + _TIME),
        re.compile(rb"\b(?P<_steps>\d+)/(?P=_steps) (?:\xe2\x94\x81)+ [1-9]\d*s " + _TIME),
        re.compile(rb"\b(?P<_steps>\d+)/(?P=_steps) - \d+s (?:[^\n]*- \d+s/epoch )?- " + _TIME),
    ),
    mark=re.compile(
        rb"\d+/\d+ (?:\[[=>.]+\]|(?:\xe2\x94\x81)+) [^\n]*/step|Epoch \d+/\d+\n[^\n]{0,20}\d+/\d+ (?:\[|\xe2\x94\x81)"
    ),
    facts=facts,
    ending=unknowable,
    doubts=doubts,
    warmup_steps=1,
    header=re.compile(rb"Epoch 1/\d+"),
    without_records="no epoch came to its end",
)
