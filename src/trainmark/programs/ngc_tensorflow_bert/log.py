"""NVIDIA DeepLearningExamples, TensorFlow BERT pre-training (``TensorFlow/LanguageModeling/BERT``).

    DLL 2023-08-01 04:16:56.456185 - Iteration: 6  throughput_train : 537.102 sequences/s mlm_loss : 10.41 …

``throughput_train`` is global and covers one optimizer step. Iteration 1 repeats while loss scaling skips steps. The
tool's own summary divides only the steps that were not skipped by the total time, which is too low with AMP. A second
``Throughput Average`` is that of the evaluation.
"""

import re

from trainmark.logs.format import (
    Format,
    LogContext,
    Published,
    dll_parameters,
    ends_with,
    parse_setting,
    search_integer,
    search_word,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the command's flags, if printed (``set -x``), and PARAMETER."""
    words, text = dll_parameters(context), context.text
    switch = search_word(rb"(?:--amp=?|\bamp\s*:) *(\w*)", text)
    amp = "true" if switch == "" else switch or words.get("amp")
    return Facts(
        model="bert",
        precision=precision_from_switch(amp, Precision.AMP_FP16),
        gpus=parse_setting(words, "num_gpus")
        or search_integer(rb"num_gpus\s*[:=]\s*(\d+)|mpirun [^\n]*-np (\d+)", text),
        batch_per_device=search_integer(rb"train_batch_size[=: ]+(\d+)", text)
        or parse_setting(words, "train_batch_size"),
        accumulation=search_integer(rb"num_accumulation_steps[=: ]+(\d+)", text),
        hardware=read_hardware(text),
    )


FORMAT = Format(
    name="ngc-tensorflow-bert",
    title="NGC TensorFlow BERT",
    framework="tensorflow",
    unit="sequences/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"DLL (?P<stamp>\d{4}-\S+ \S+) - Iteration: (?P<step>\d+) +throughput_train : (?P<rate>\S+)\s"
        ),
        re.compile(
            rb'DLLL \{[^\n]*?"datetime": "(?P<stamp>[^"]+)"[^\n]*?"step": ?\[?(?P<step>\d+)\]?, ?"data"'
            rb'[^\n]*"throughput_train": (?P<rate>[^,}\s]+)[,}]'
        ),
    ),
    mark=re.compile(
        rb"throughput_train|Throughput Average \(sentences/sec\)|run_pretraining\.py[^\n]*num_accumulation"
    ),
    figures={
        "summary": re.compile(
            rb'(?:DLL \S+ \S+ - +throughput_train : |"step": ?\[\][^\n]*"throughput_train": )([^\s,}]+)[\s,}]'
        )
    },
    parameters=dll_parameters,
    facts=facts,
    end_state=ends_with(
        re.compile(rb'DLL \S+ \S+ - +throughput_train : \S+\s|"step": ?\[\][^\n]*"throughput_train"')
    ),
    warmup_steps=5,
    header=re.compile(rb"PARAMETER|run_pretraining\.py"),
    fp16=Precision.AMP_FP16,
    accumulates=True,
    published=(
        Published("mean-skip-9", "PaddlePaddle/Perf"),
        Published("summary", "NVIDIA's own report"),
        Published("dlperf-speed", "Oneflow-Inc/DLPerf"),
    ),
)
