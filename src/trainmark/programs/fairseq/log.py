"""fairseq: NVIDIA's Transformer (``PyTorch/Translation/Transformer``), and fairseq's own ``train_inner`` lines.

    Transformer | epoch 0 | step 3870 |avg loss 5.113 |avg tokens 36795.500 |tokens/s 210024.282 |walltime 680.313 |
    2020-11-03 10:11:12 | INFO | train_inner | epoch 001:  100 / 1500 loss=9.1, … wps=30112.5, … wpb=3590.2, … wall=40
    | epoch 001:    100 / 5000 loss=9.1, … wps=30112, ups=1, wpb=28800.0, … wall=100, train_wall=95

``tokens/s`` (``wps``) is global, in the last line (2019) the mean since the epoch's start; ``avg tokens`` (``wpb``) is
the mean per step over the interval. The line ``| Translated … tokens/s`` is evaluation. ``max_tokens`` is the limit of
one device, and more than the tokens of a step.
"""

import re

from trainmark.logs.format import (
    Format,
    LogContext,
    Published,
    ends_with,
    namespace_arguments,
    parse_setting,
    search_integer,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace; either of ``amp`` and ``fp16`` means mixed precision."""
    words = namespace_arguments(context)
    switches = [word for key in ("amp", "fp16") if (word := words.get(key)) is not None]
    on = "True" if "True" in switches else switches[0] if switches else None
    pure = words.get("memory_efficient_fp16") == "True"
    bf16 = words.get("bf16") == "True"
    mixed = Precision.FP16 if pure else Precision.AMP_FP16
    return Facts(
        model=words.get("arch"),
        precision=Precision.AMP_BF16 if bf16 else precision_from_switch(on, mixed),
        gpus=parse_setting(words, "distributed_world_size")
        or search_integer(rb"training on (\d+) (?:GPUs|devices)", context.text),
        batch_per_device=parse_setting(words, "max_tokens"),
        hardware=read_hardware(context.text),
    )


FORMAT = Format(
    name="fairseq",
    title="NGC PyTorch Transformer (fairseq)",
    framework="pytorch",
    unit="tokens/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"Transformer \| epoch (?P<epoch>\d+) \| step (?P<step>\d+) \|avg loss \S+ \|avg tokens (?P<samples>\S+) "
            rb"\|tokens/s (?P<rate>\S+) \|walltime (?P<clock_s>\S+) \|"
        ),
        re.compile(
            rb"\| train_inner \| epoch (?P<epoch>\d+): +(?P<step>\d+) / \d+ [^\n]*\bwps=(?P<rate>[^,\s]+), "
            rb"[^\n]*\bwpb=(?P<samples>[^,\s]+), [^\n]*\bwall=(?P<clock_s>[^,\s]+)\s"
        ),
        re.compile(
            rb"\| epoch (?P<epoch>\d+): +(?P<step>\d+) / \d+ loss=[^\n]*\bwps=(?P<average_rate>[^,\s]+),"
        ),
    ),
    mark=re.compile(
        rb"Transformer \| epoch \d|\| epoch \d+: +\d+ / \d+ loss="
        rb"|\| train_inner \||\| distributed init done!|max tokens per GPU ="
    ),
    parameters=namespace_arguments,
    facts=facts,
    end_state=ends_with(re.compile(rb"done training in ")),
    samples_of_step=True,
    header=re.compile(rb"Namespace\(|train_inner"),
    fp16=Precision.AMP_FP16,
    published=(Published("mean-last-350", "PaddlePaddle/Perf"),),
)
