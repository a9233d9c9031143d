"""NVIDIA DeepLearningExamples, PyTorch GNMT (``PyTorch/Translation/GNMT``).

    0: TRAIN [0][10/1938]	Time 0.150 (0.160)	Data 1.5e-04 (2.1e-04)	Tok/s 60123 (58123)	Loss/tok 7.1 (8.0)	LR 2e-05
    0: Performance: Epoch: 0	Training: 470123 Tok/s	Validation: 900123 Tok/s

A record is an epoch: the mean over its steps of tokens (source and target) per second, summed over all devices. The
step lines cover one device and are not read."""

import re

from trainmark.logs.format import (
    Format,
    LogContext,
    ends_with,
    namespace_arguments,
    parse_setting,
    search_integer,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace; its batch counts sentences, not tokens."""
    words = namespace_arguments(context)
    known = {
        "fp16": Precision.AMP_FP16,
        "amp": Precision.AMP_FP16,
        "fp32": Precision.FP32,
        "tf32": Precision.TF32,
    }
    return Facts(
        model="gnmt",
        precision=known.get(words.get("math", "")),
        gpus=parse_setting(words, "world_size") or search_integer(rb"Using (\d+) workers", context.text),
        hardware=read_hardware(context.text),
    )


FORMAT = Format(
    name="nvidia-gnmt",
    title="NVIDIA GNMT",
    framework="pytorch",
    unit="tokens/s",
    scope=Scope.GLOBAL,
    records=(re.compile(rb"Performance: Epoch: (?P<epoch>\d+)\s+Training: (?P<rate>\d+) Tok/s\s"),),
    mark=re.compile(rb"TRAIN \[\d+\]\[\d+/\d+\]\s+Time [^\n]*\bTok/s |Performance: Epoch: \d+\s+Training: "),
    parameters=namespace_arguments,
    facts=facts,
    end_state=ends_with(re.compile(rb"Finished epoch \d+|Total training time ")),
    warmup_steps=0,
    without_records="the log has no complete epoch (the step lines cover only one device)",
    header=re.compile(rb"Namespace\("),
    fp16=Precision.AMP_FP16,
)
