"""NVIDIA DeepLearningExamples, PyTorch NCF (``PyTorch/Recommendation/NCF``).

    DLL 2024-03-03 04:51:30.337358 - (3,) train_throughput : 7.386e+06 samples/s hr@10 : 0.81 None …
    DLL 2024-03-03 04:51:55.337358 - () best_train_throughput : 7447588.6 samples/s …
    mean_train_throughput : 7386178.4 …

A record is an epoch: its samples over its training time, of all devices. The program's own result is the best epoch's
or the mean of all, the first one included."""

import re

from trainmark.logs.format import Format, LogContext, dll_parameters, ends_with, integer, search_integer
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import by_switch
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read PARAMETER; ``batch_size`` is of all devices."""
    words = dll_parameters(context)
    return Facts(
        model="ncf",
        precision=by_switch(words.get("amp", words.get("fp16")), Precision.AMP_FP16),
        gpus=integer(words, "world_size") or search_integer(rb"Number of devices: (\d+)", context.text),
        global_batch=integer(words, "batch_size"),
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
    ending=ends_with(re.compile(rb"best_train_throughput : ")),
    warmup_steps=1,
    header=re.compile(rb"PARAMETER"),
    fp16=Precision.AMP_FP16,
)
