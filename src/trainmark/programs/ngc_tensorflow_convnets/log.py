"""NVIDIA DeepLearningExamples, TensorFlow ConvNets with Horovod (``TensorFlow/Classification/ConvNets``).

    DLL 2022-11-24 04:11:33.524847 - (0, 210) total_ips : 9450.923141075082
    DLL 2020-08-14 03:35:07.412316 - (0, 21) imgs_per_sec : 358.4231 cross_entropy : 7.02 l2_loss : 0.78 ...

The first line is printed by ``--mode=training_benchmark``, the second by ``--mode=train`` (``utils/hooks``); both are
global. With ``display_every`` above 1 a record is the rate of one step of the interval, so the time stamps give the
window. ``train_throughput`` at the end is the mean over all steps after the tool's own warm-up. ``batch_size`` in
PARAMETER is that of one device; the number of devices is printed as ``Num GPUs``.
"""

import re
from collections.abc import Mapping

from trainmark.logs.format import (
    Format,
    LogContext,
    Published,
    dll_parameters,
    ends_with,
    parse_setting,
    search_integer,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read PARAMETER, and the trainer's own lines ``Num GPUs`` and ``Per-GPU Batch Size``."""
    words = dll_parameters(context)
    return Facts(
        model=words.get("arch"),
        precision=_precision(words),
        gpus=search_integer(rb"Num GPUs:? +(\d+)", context.text),
        batch_per_device=search_integer(rb"Per-GPU Batch Size:? +(\d+)", context.text)
        or parse_setting(words, "batch_size"),
        hardware=read_hardware(context.text),
    )


def _precision(words: Mapping[str, str]) -> Precision | None:
    """Return the precision from ``precision`` and ``amp`` (``use_tf_amp`` up to container 20.03)."""
    if words.get("precision") == "fp16":
        return Precision.FP16
    return precision_from_switch(words.get("amp", words.get("use_tf_amp")), Precision.AMP_FP16)


FORMAT = Format(
    name="ngc-tensorflow-convnets",
    title="NGC TensorFlow ConvNets",
    framework="tensorflow",
    unit="images/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(
        re.compile(
            rb"DLL (?P<stamp>\d{4}-\S+ \S+) - \((?P<epoch>\d+), (?P<step>\d+)\) "
            rb"(?:imgs_per_sec|[^\n]*?total_ips) : (?P<rate>\S+)\s"
        ),
        re.compile(
            rb"DLL (?P<stamp>\d{4}-\S+ \S+) - (?:Epoch: (?P<epoch>\d+) )?Iteration: (?P<step>\d+) "
            rb"[^\n]*?(?<![\w.])total_ips : (?P<rate>\S+)\s"
        ),
        re.compile(
            rb'DLLL \{[^\n]*?"datetime": "(?P<stamp>[^"]+)"[^\n]*?"step": ?\[(?P<epoch>\d+), ?(?P<step>\d+)\]'
            rb'[^\n]*"(?:total_ips|imgs_per_sec)": (?P<rate>[^,}\s]+)[,}]'
        ),
    ),
    mark=re.compile(rb"PARAMETER arch : [^\n]*iter_unit : |[^.]total_ips|use_static_loss_scaling"),
    figures={
        "summary": re.compile(
            rb'(?:DLL \S+ \S+ - \(\) +train_throughput : |"step": ?\[\][^\n]*"train_throughput": )([^\s,}]+)[\s,}]'
        )
    },
    parameters=dll_parameters,
    facts=facts,
    end_state=ends_with(
        re.compile(rb'\(\) +train_throughput : \S+ *(?:images/s|img/s)?\s|"train_throughput": \S+[,}]')
    ),
    header=re.compile(rb"PARAMETER"),
    fp16=Precision.AMP_FP16,
    published=(
        Published("mean-last-25", "PaddlePaddle/Perf"),
        Published("mean-skip-5", "PaddlePaddle/Perf"),
        Published("summary", "NVIDIA's own report"),
        Published("dlperf-speed", "Oneflow-Inc/DLPerf"),
        Published("dlperf-time", "Oneflow-Inc/DLPerf"),
    ),
)
