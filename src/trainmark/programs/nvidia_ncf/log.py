"""NVIDIA DeepLearningExamples, PyTorch NCF (``PyTorch/Recommendation/NCF``).

    DLL 2024-03-03 04:51:30.337358 - (3,) train_throughput : 7.386e+06 samples/s hr@10 : 0.81 None …
    DLL 2024-03-03 04:51:55.337358 - () best_train_throughput : 7447588.6 samples/s …
    mean_train_throughput : 7386178.4 …

A record is an epoch: its samples on all devices over its training time. The program's own result is that of the best
epoch, or the mean of all including the first."""

import re

from trainmark.logs.format import Format, LogContext, dll_parameters, ends_with, parse_setting, search_integer
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read PARAMETER; ``batch_size`` is that of all devices."""
    words = dll_parameters(context)
    return Facts(
        model="ncf",
        precision=precision_from_switch(words.get("amp", words.get("fp16")), Precision.AMP_FP16),
        gpus=parse_setting(words, "world_size") or search_integer(rb"Number of devices: (\d+)", context.text),
        global_batch=parse_setting(words, "batch_size"),
        hardware=read_hardware(context.text),
    )


FORMAT = Format(
    name="nvidia-ncf",
    title="NVIDIA NCF",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"DLL \d{4}-\S+ \S+ - (?:\((?P<epoch>\d+),\)|Epoch: (?P<_epoch>\d+)) "
            rb"[^\n]*?\btrain_throughput : (?P<rate>[\d.e+]+) samples/s"
        ),
    ),
    mark=re.compile(rb"train_throughput : [\d.e+]+ samples/s"),
    figures={"summary": re.compile(rb"mean_train_throughput : ([\d.e+]+) samples/s")},
    parameters=dll_parameters,
    facts=facts,
    end_state=ends_with(re.compile(rb"best_train_throughput : ")),
    warmup_steps=1,
    header=re.compile(rb"PARAMETER"),
    fp16=Precision.AMP_FP16,
)
