"""NVIDIA DeepLearningExamples, MXNet ConvNets (``MxNet/Classification/RN50v1.5``), usually under mpirun.

    [1,0]<stdout>:DLL 2023-07-31 06:20:01.765747 - Epoch: 0 Iteration: 39  train.loss : 7.0 train.ips : 1502.24 …

``train.ips`` is global (rank 0 prints) and covers the steps since the previous record. ``batch_size`` in PARAMETER is
global too, unlike the PyTorch examples. ``Summary:`` is the arithmetic mean of the epochs; the table at the end
(``benchmark.py``) is the harmonic mean of the epochs after the first, printed with five digits. AMP runs print
``amp : False`` and ``dtype : float16``: FP16 computation with FP32 master weights.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format, LogContext, Published, count_items, dll_parameters, parse_setting
from trainmark.logs.model import EndState, Facts, Scope, read_hardware
from trainmark.logs.synthetic import SampleRun, dll_stamp, end_of, lines_of, overall_rate
from trainmark.schema.precision import Precision

_TABLE = re.compile(rb"train\.ips\s*\n *\| *\d+ *\| *\n-+ *\n *\d+ *\| *([\d.]+) *\|")
_SUMMARY = re.compile(rb'(?:Summary: [^\n]*train\.ips : |"step": ?\[\][^\n]*"train\.ips": )([^\s,}]+)[\s,}]')


def facts(context: LogContext) -> Facts:
    """Read PARAMETER; the global batch is divided by the devices."""
    words = dll_parameters(context)
    gpus, batch = count_items(words.get("gpus")), parse_setting(words, "batch_size")
    if gpus and words.get("kv_store") == "horovod" and context.ranks > gpus and context.ranks % gpus == 0:
        gpus = context.ranks  # Horovod starts one process per device; the list covers one node
    arch, layers = words.get("arch"), words.get("num_layers")
    dtype, amp = words.get("dtype"), words.get("amp")
    precision = {"float16": Precision.AMP_FP16, "float32": Precision.FP32}.get(dtype or "")
    return Facts(
        model=f"{arch}-{layers}" if arch and layers else arch,
        precision=Precision.AMP_FP16 if amp == "True" else precision,
        gpus=gpus,
        batch_per_device=batch // gpus if batch and gpus and batch % gpus == 0 else None,
        hardware=read_hardware(context.text),
    )


def end_state(context: LogContext) -> EndState:
    """Search the table if ``benchmark.py`` ran the training, else the summary."""
    by_benchmark = b"dllogger_log : benchmark_report" in context.text
    found = (_TABLE if by_benchmark else _SUMMARY).search(context.tail)
    return EndState.FOUND if found else EndState.MISSING


FORMAT = Format(
    name="ngc-mxnet-convnets",
    title="NGC MXNet ConvNets",
    framework="mxnet",
    unit="images/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"DLL (?P<stamp>\d{4}-\S+ \S+) - Epoch: (?P<epoch>\d+) Iteration: (?P<step>\d+) "
            rb"[^\n]*train\.ips : (?P<rate>\S+)\s"
        ),
        re.compile(
            rb'DLLL \{[^\n]*?"datetime": "(?P<stamp>[^"]+)"[^\n]*?"step": ?\[(?P<epoch>\d+), ?(?P<step>\d+)\]'
            rb'[^\n]*"train\.ips": (?P<rate>[^,}\s]+)[,}]'
        ),
    ),
    mark=re.compile(rb"PARAMETER arch : [^\n]*kv_store : |train\.ips"),
    figures={"summary": _SUMMARY, "table": _TABLE},
    parameters=dll_parameters,
    facts=facts,
    end_state=end_state,
    header=re.compile(rb"PARAMETER"),
    fp16=Precision.AMP_FP16,
    published=(
        Published("table", "PaddlePaddle/Perf"),
        Published("summary", "NVIDIA's own report"),
        Published("dlperf-speed", "Oneflow-Inc/DLPerf"),
        Published("dlperf-time", "Oneflow-Inc/DLPerf"),
    ),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    devices = list(range(run.gpus))
    dtype = "float16" if run.amp else "float32"
    yield (
        f"{dll_stamp(run.start)} PARAMETER arch : resnetv15  num_layers : 50  gpus : {devices}  kv_store : horovod  "
        f"dtype : {dtype}  amp : False  batch_size : {run.global_batch}  disp_batches : {run.interval} "
    )
    for line in lines_of(run):
        yield (
            f"{dll_stamp(line.clock)} Epoch: 0 Iteration: {line.step - 1}  train.loss : 7.002006530761719 "
            f"train.ips : {line.rate} images/s train.lr : 0.015974400000000002"
        )
    yield f"{dll_stamp(end_of(run))} Epoch: 0  train.loss : 6.4  train.ips : {overall_rate(run)} images/s"
    yield f"{dll_stamp(end_of(run))} Summary: train.loss : 6.4  train.ips : {overall_rate(run)} images/s"
