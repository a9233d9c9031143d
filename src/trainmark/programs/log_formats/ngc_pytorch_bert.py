"""NVIDIA DeepLearningExamples, PyTorch BERT pre-training (``PyTorch/LanguageModeling/BERT``).

    DLL 2023-07-28 15:23:04.992899 - Training Epoch: 0 Training Iteration: 11  average_loss : 9.11 …

No line has a rate: an iteration is one optimizer step of ``gradient_accumulation_steps`` micro-batches, and the time
stamps give the window. The counter repeats when loss scaling skips a step; skipped steps did their work and count.
``run_squad.py`` prints ``step_loss`` every 50 steps instead of an average. ``training_sequences_per_second`` in the
last line is global. A tqdm bar also prints ``Iteration:``.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import (
    Format,
    LogContext,
    Published,
    dll_parameters,
    ends_with,
    namespace_arguments,
    parse_setting,
)
from trainmark.logs.model import Facts, Problem, Scope, read_hardware
from trainmark.logs.precision import precision_from_switch
from trainmark.logs.synthetic import SampleRun, dll_stamp, end_of, lines_of, overall_rate
from trainmark.schema.precision import Precision

_ACCUMULATION = 4


def parameters(context: LogContext) -> dict[str, str]:
    """Return the arguments (printed as a Namespace inside PARAMETER) and the PARAMETER lines."""
    return namespace_arguments(context) | dll_parameters(context)


def facts(context: LogContext) -> Facts:
    """Read the arguments; ``train_batch_size`` is printed before or after its division by the accumulation."""
    words = parameters(context)
    accumulation = parse_setting(words, "gradient_accumulation_steps")
    batch, micro = parse_setting(words, "train_batch_size"), parse_setting(words, "batch_size_per_gpu")
    if micro is None and batch is not None and accumulation:
        divides = batch % accumulation == 0 and batch > accumulation
        micro = batch // accumulation if divides else batch
    fp16 = words.get("fp16", words.get("amp"))
    return Facts(
        model="bert",
        precision=precision_from_switch(fp16, Precision.AMP_FP16),
        gpus=parse_setting(words, "n_gpu_total") or parse_setting(words, "world_size"),
        batch_per_device=micro or batch,
        accumulation=accumulation or (1 if _is_fine_tuning(context.text) else None),
        hardware=read_hardware(context.text),
    )


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Return a doubt if an assumed number of micro-batches a step decides the number."""
    if not _is_fine_tuning(context.text) or parse_setting(parameters(context), "gradient_accumulation_steps"):
        return ()
    sentence = (
        "the log does not print gradient_accumulation_steps: 1 micro-batch a step is assumed, and with n the rate is "
        "n times as high"
    )
    return (Problem("accumulation-assumed", sentence),)


def _is_fine_tuning(text: bytes) -> bool:
    """Return whether the lines are those of ``run_squad.py``, which prints the loss of a step and no average."""
    return re.search(rb"Training Iteration: \d+ +step_loss : ", text) is not None


FORMAT = Format(
    name="ngc-pytorch-bert",
    title="NGC PyTorch BERT",
    framework="pytorch",
    unit="sequences/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"DLL (?P<stamp>\d{4}-\S+ \S+) - Training Epoch: (?P<epoch>\d+) Training Iteration: (?P<step>\d+) "
            rb" ?(?:average_loss|final_loss|step_loss) : \S+\s"
        ),
        re.compile(
            rb'DLLL \{[^\n]*?"datetime": "(?P<stamp>[^"]+)"[^\n]*?"step": ?\[(?P<epoch>\d+), ?(?P<step>\d+)\]'
            rb'[^\n]*"(?:average_loss|final_loss|step_loss)": [^,}\s]+[,}]'
        ),
    ),
    mark=re.compile(
        rb"Training Epoch: \d+ Training Iteration|training_sequences_per_second|max_predictions_per_seq=\d+"
    ),
    figures={"summary": re.compile(rb'training_sequences_per_second(?: : |": )([^\s,}]+)[\s,}]')},
    parameters=parameters,
    facts=facts,
    end_state=ends_with(
        re.compile(
            rb"training_sequences_per_second[^\n]*(?:raw_train_time|final_loss)(?: : |\": )[^\s,}]+[\s,}]"
        )
    ),
    doubts=doubts,
    warmup_steps=2,
    header=re.compile(rb'PARAMETER (?!checkpoint)|"PARAMETER"|Namespace\('),
    fp16=Precision.AMP_FP16,
    accumulates=True,
    published=(
        Published("summary", "PaddlePaddle/Perf"),
        Published("dlperf-time", "Oneflow-Inc/DLPerf"),
    ),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"{dll_stamp(run.start)} PARAMETER Config : [\"Namespace(bert_model='bert-base', fp16={run.amp}, "
        f"gradient_accumulation_steps={_ACCUMULATION}, max_predictions_per_seq=20, n_gpu_total={run.gpus}, "
        f'train_batch_size={run.batch_per_device})"] '
    )
    yield f"{dll_stamp(run.start)} PARAMETER batch_size_per_gpu : {run.batch_per_device // _ACCUMULATION} "
    for line in lines_of(run):
        yield (
            f"{dll_stamp(line.clock)} Training Epoch: 0 Training Iteration: {line.step}  average_loss : 9.11  "
            "step_loss : 9.1  learning_rate : 0.004 "
        )
    seconds = sum(run.step_times_s)
    yield (
        f"{dll_stamp(end_of(run))}  e2e_train_time : {seconds + 9} s training_sequences_per_second : "
        f"{overall_rate(run)} sequences/s final_loss : 8.5 None raw_train_time : {seconds} s"
    )
