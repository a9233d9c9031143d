"""Megatron-LM (``megatron/training/training.py``) and its derivatives (Megatron-DeepSpeed, GPT-NeoX, Primus).

     [2024-01-01 12:00:00.123456] iteration      122/  250000 | consumed samples:       124928 | elapsed time per
    iteration (ms): 86545.2 | throughput per GPU (TFLOP/s/GPU): 150.1 | learning rate: 9.150E-06 | global batch size:
    1024 | lm loss: 2.504220E+00 | …

The time is the mean per iteration since the previous line, without evaluation and checkpoints. The batch is that of all
devices and of this iteration; during batch-size ramp-up ``consumed samples`` give the samples since the previous line.
AMD's fork prints a second time after a slash, its average. Before 2020 the line had no batch: it is that of the
arguments, for each group of devices that share a model. GPT-NeoX begins the line with ``samples/sec``, of all devices.
Megatron-Bridge prints the same line (``src/megatron/bridge/training/utils/train_utils.py``) without the arguments.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format, LogContext, config_lines, ends_with, parse_setting, search_integer
from trainmark.logs.model import Facts, Problem, Scope, read_hardware
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.schema.precision import Precision

_ARGUMENT = re.compile(rb"\n *(?:\d+: *)?(\w+) \.{3,} ?([^\n]+)")
_STEP = rb"iteration +(?P<step>\d+)/ *\d+ \|"
_SECONDS = (
    rb"[^\n]*?elapsed time per iteration "
    rb"\((?:ms\): (?P<step_time_ms>[\d.]+)|s\): (?P<step_time_s>[\d.]+))[ /|]"
)
_CONSUMED = rb" consumed samples: +(?P<consumed>\d+) \|"
_BATCH = rb"[^\n]*? global batch size: +(?P<batch>\d+) \|"
_STAMP = rb"\[(?P<stamp>\d{4}-\d\d-\d\d [\d:.]+)\] "
_TIME = _STEP + _SECONDS
_MODEL_PARALLEL = re.compile(
    rb"\b(?:(?:tensor_|pipeline_)?model|pipe|tensor|pipeline)_parallel_size[\"']?(?: \.{3,} ?|[=:] *)(\d+)\b"
)


def parameters(context: LogContext) -> dict[str, str]:
    """Return the arguments, as printed between dots."""
    return config_lines(context, _ARGUMENT)


def facts(context: LogContext) -> Facts:
    """Read the arguments; ``micro_batch_size`` is that of a group of devices that share one model."""
    words, text = parameters(context), context.text
    world = search_integer(rb"using world size: (\d+)", text) or parse_setting(words, "world_size")
    micro = parse_setting(words, "micro_batch_size") or parse_setting(words, "batch_size")
    split = [words.get(f"{kind}_parallel_size", "1") for kind in ("tensor_model", "pipeline_model", "model")]
    whole = parse_setting(words, "global_batch_size") or parse_setting(words, "train_batch_size")
    if whole is None and world and (group := parse_setting(words, "model_parallel_size")):
        # Before 2020 a step was one batch of each group of devices that share a model.
        whole = world // group * (parse_setting(words, "batch_size") or 0) or None
    return Facts(
        precision=_precision(words),
        gpus=world,
        batch_per_device=micro if split == ["1"] * 3 and world and whole == world * (micro or 0) else None,
        global_batch=whole,
        hardware=read_hardware(text),
    )


def _precision(words: dict[str, str]) -> Precision | None:
    if words.get("bf16") == "True" or words.get("params_dtype") == "torch.bfloat16":
        return Precision.BF16
    if words.get("fp16") == "True" or words.get("params_dtype") in ("torch.half", "torch.float16"):
        return Precision.FP16
    return Precision.FP32 if words.get("params_dtype") in ("torch.float32", "torch.float") else None


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check for model parallelism if no line prints the global batch: a given batch may be that of several devices."""
    printed = facts(context).global_batch or re.search(rb"global batch size: |samples/sec: ", context.text)
    return () if printed else tuple(model_parallel(context))


def model_parallel(context: LogContext) -> Iterator[Problem]:
    """Yield a doubt if several devices share one model, because a given batch then counts once per group of them."""
    sizes = {int(size) for size in _MODEL_PARALLEL.findall(context.text) if len(size) < 6}
    if largest := max((size for size in sizes if size > 1), default=0):
        sentence = (
            f"the log reports a model-parallel size of {largest}: a per-device batch times all devices counts the same "
            "samples several times"
        )
        yield Problem("model-parallel", sentence)


FORMAT = Format(
    name="megatron-lm",
    title="Megatron-LM",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(_STAMP + _STEP + _CONSUMED + _SECONDS + _BATCH),
        re.compile(_STEP + _CONSUMED + _SECONDS + _BATCH),
        re.compile(_STAMP + _TIME + _BATCH),
        re.compile(_TIME + _BATCH),
        re.compile(rb"samples/sec: (?P<rate>[\d.]+) \| iteration +(?P<step>\d+)/ *\d+ \|"),
        re.compile(_TIME),
    ),
    mark=re.compile(
        rb"iteration +\d+/ *\d+ \| (?:consumed samples|elapsed time)|using world size: \d+, data-parallel"
    ),
    parameters=parameters,
    facts=facts,
    doubts=doubts,
    end_state=ends_with(
        re.compile(rb"after training is done|exiting program at iteration|training finished")
    ),
    figures={"tflops": re.compile(rb"(?:TFLOP/s/GPU\)|TFLOPs): ([\d.]+)[ /|]")},
    samples_of_step=True,
    warmup_steps=5,
    header=re.compile(rb"using world size|\.{10} |arguments"),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"using world size: {run.gpus}, data-parallel-size: {run.gpus}, tensor-model-parallel size: 1, pipeline 1"
    yield "------------------------ arguments ------------------------"
    yield f"  global_batch_size ............................... {run.global_batch}"
    yield f"  micro_batch_size ................................ {run.batch_per_device}"
    yield f"  params_dtype .................................... torch.{'bfloat16' if run.amp else 'float32'}"
    for line in lines_of(run):
        yield (
            f" [{line.clock:%Y-%m-%d %H:%M:%S.%f}] iteration {line.step:8d}/{len(run.step_times_s):8d} | "
            f"consumed samples: {line.step * run.global_batch:12d} | "
            f"elapsed time per iteration (ms): {line.step_time_s * 1000:.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): 150.1 | learning rate: 9.150000E-06 | "
            f"global batch size: {run.global_batch:5d} | lm loss: 2.504220E+00 | loss scale: 1.0 | "
            "grad norm: 0.231 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    yield "[after training is done] datetime: 2024-01-01 12:00:00"
