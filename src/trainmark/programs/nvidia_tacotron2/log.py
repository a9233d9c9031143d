"""NVIDIA DeepLearningExamples, PyTorch Tacotron 2 and WaveGlow (``PyTorch/SpeechSynthesis/Tacotron2``).

    DLL 2020-11-04 00:43:24.835653 - (0, 12) train_items_per_sec : 12345.6 items/s
    DLL 2020-11-04 00:53:24.835653 - (0,) train_items_per_sec : 12001.2 items/s

Items are frames of a spectrogram (Tacotron 2) or audio samples (WaveGlow) on all devices. Each step has its line; its
time excludes waiting for data between steps. The line of an epoch is the mean of its steps."""

import re

from trainmark.logs.format import Format, LogContext, dll_parameters, ends_with, parse_setting
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Problem, Scope, Severity
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read PARAMETER; its batch counts utterances, not items."""
    words = dll_parameters(context)
    return Facts(
        model=(words.get("model_name") or "").lower() or None,
        precision=precision_from_switch(
            words.get("amp", words.get("amp_run", words.get("fp16_run"))), Precision.AMP_FP16
        ),
        gpus=parse_setting(words, "world_size"),
        hardware=read_hardware(context.text),
    )


def doubts(_: LogContext) -> tuple[Problem, ...]:
    """Return a note on the time that the program leaves out."""
    sentence = "the program's step times exclude waiting for data between steps"
    return (Problem("data-left-out", sentence, Severity.NOTE),)


FORMAT = Format(
    name="nvidia-tacotron2",
    title="NVIDIA Tacotron 2 and WaveGlow",
    framework="pytorch",
    unit="items/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"DLL \d{4}-\S+ \S+ - \((?P<epoch>\d+), (?P<step>\d+)\) train_items_per_sec : (?P<rate>[\d.e+]+) items/s"
        ),
    ),
    mark=re.compile(rb"train_items_per_sec : "),
    parameters=dll_parameters,
    facts=facts,
    doubts=doubts,
    end_state=ends_with(re.compile(rb"run_time : |\(\d+,\) train_items_per_sec : ")),
    header=re.compile(rb"PARAMETER"),
    fp16=Precision.AMP_FP16,
)
