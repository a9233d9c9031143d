"""NVIDIA DeepLearningExamples, PyTorch Transformer-XL (``PyTorch/LanguageModeling/Transformer-XL``).

    | epoch   1 step       20 | batches     20 / 2585 | lr 0.000e+00 | ms/batch 537.9 | tok/s   74243 | loss 10.08 | …

``tok/s`` covers all devices and the steps since the previous line, without evaluation. ``batch_size`` in the printed
Namespace is global and in sequences of ``tgt_len`` tokens. ``Training throughput`` is the mean of the lines.
"""

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
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace and the number of processes; a batch counts tokens."""
    words = namespace_arguments(context)
    gpus = search_integer(rb"world size: (\d+)", context.text)
    batch, length = parse_setting(words, "batch_size"), parse_setting(words, "tgt_len")
    tokens = batch * length if batch and length else None
    half = (
        Precision.FP16
        if words.get("apex_amp_opt_level") == "O3" and words.get("amp") == "apex"
        else Precision.AMP_FP16
    )
    return Facts(
        model="transformer-xl",
        precision=precision_from_switch(words.get("fp16"), half),
        gpus=gpus,
        batch_per_device=tokens // gpus if tokens and gpus and tokens % gpus == 0 else None,
        hardware=read_hardware(context.text),
    )


FORMAT = Format(
    name="nvidia-transformer-xl",
    title="NVIDIA Transformer-XL",
    framework="pytorch",
    unit="tokens/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"\| epoch +(?P<epoch>\d+) step +(?P<step>\d+) \| batches +\d+ / \d+ \| lr \S+ "
            rb"(?:\| ms/batch +[\d.]+ )?\| tok/s +(?P<rate>[\d.]+) \|"
        ),
    ),
    mark=re.compile(rb"\| epoch +\d+ step +\d+ \| batches|Namespace\([^\n]*\bmem_len="),
    figures={"summary": re.compile(rb"Training throughput: ([\d.]+) tok/s\s")},
    parameters=namespace_arguments,
    facts=facts,
    end_state=ends_with(re.compile(rb"Training throughput: ")),
    header=re.compile(rb"Namespace\("),
    fp16=Precision.AMP_FP16,
)
