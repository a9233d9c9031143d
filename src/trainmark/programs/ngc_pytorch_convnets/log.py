"""NVIDIA DeepLearningExamples, PyTorch ConvNets (``PyTorch/Classification/ConvNets``), text and JSON stream.

    DLL 2023-08-04 05:47:54.922593 - Epoch: 0 Iteration: 2  train.loss : 6.37 None train.compute_ips : 746.15
    images/s train.total_ips : 742.94 images/s train.lr : 0.1  …

``total_ips`` is global and covers one step including the wait for data; ``compute_ips`` excludes the wait and is not
read. ``batch_size`` in PARAMETER is that of one device. ``Epoch:`` lines without an iteration and ``Summary:``
repeat the arithmetic mean of all records including the warm-up.
"""

import re

from trainmark.logs.format import Format, LogContext, Published, dll_parameters, ends_with, parse_setting
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read PARAMETER: per-device batch, world size, amp."""
    words = dll_parameters(context)
    gpus, batch = parse_setting(words, "world_size"), parse_setting(words, "batch_size")
    if gpus is None and words.get("distributed") == "False":
        gpus = 1
    # Older versions had --fp16 instead of --amp, which trains the network itself in FP16.
    pure = words.get("fp16") == "True"
    # Every iteration is one micro-batch: optimizer_batch_size changes when weights move, not what a rate counts.
    return Facts(
        model=words.get("arch"),
        precision=Precision.FP16 if pure else precision_from_switch(words.get("amp"), Precision.AMP_FP16),
        gpus=gpus,
        batch_per_device=batch,
        hardware=read_hardware(context.text),
    )


FORMAT = Format(
    name="ngc-pytorch-convnets",
    title="NGC PyTorch ConvNets",
    framework="pytorch",
    unit="images/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"DLL (?P<stamp>\d{4}-\S+ \S+) - Epoch: (?P<epoch>\d+) Iteration: (?P<step>\d+) "
            rb"[^\n]*train\.total_ips : (?P<rate>\S+)\s"
        ),
        re.compile(
            rb'DLLL \{[^\n]*?"datetime": "(?P<stamp>[^"]+)"[^\n]*?"step": ?\[(?P<epoch>\d+), ?(?P<step>\d+)\]'
            rb'[^\n]*"train\.total_ips": (?P<rate>[^,}\s]+)[,}]'
        ),
    ),
    mark=re.compile(
        rb"PARAMETER data : [^\n]*data_backend : [^\n]*arch : [^\n]*memory_format|train\.total_ips"
    ),
    figures={
        "summary": re.compile(
            rb'(?:Summary: [^\n]*train\.total_ips : |"step": ?\[\][^\n]*"train\.total_ips": )([^\s,}]+)[\s,}]'
        )
    },
    parameters=dll_parameters,
    facts=facts,
    end_state=ends_with(
        re.compile(rb'Experiment ended|"step": ?\[\], ?"data": ?\{[^\n]*train\.total_ips[^\n]*\}\s*\n')
    ),
    header=re.compile(rb"PARAMETER"),
    fp16=Precision.AMP_FP16,
    published=(
        Published("mean-skip-9", "PaddlePaddle/Perf"),
        Published("mean-last-90", "PaddlePaddle/Perf"),
        Published("summary", "NVIDIA's own report"),
        Published("dlperf-time", "Oneflow-Inc/DLPerf"),
    ),
)
