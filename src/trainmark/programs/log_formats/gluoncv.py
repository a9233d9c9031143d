"""GluonCV ``scripts/classification/imagenet/train_imagenet.py`` and MXNet's ``Speedometer``.

    INFO:root:Epoch[0] Batch [49]	Speed: 197.514000 samples/sec	accuracy=0.001	lr=0.4

``Speed`` covers the steps since the previous record and the whole batch of the process, on all its devices; with a
``kv_store`` of ``dist…`` each node has a process that prints its own speed. The Namespace's ``batch_size`` is that of
one device in GluonCV and global in MXNet's ``example/image-classification``.

After an epoch whose steps are a multiple of ``log_interval``, GluonCV prints the last record again, with its step less
one (the index of the step instead of their number) and the rate of a step over no time: it is left out.
"""

import re
from collections.abc import Iterator

import numpy as np

from trainmark.logs.format import (
    Format,
    LogContext,
    count_items,
    namespace_arguments,
    parse_setting,
    unknown_end,
)
from trainmark.logs.model import Facts, Floats, Scope, median, read_hardware
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace."""
    words = namespace_arguments(context)
    gpus, batch = parse_setting(words, "num_gpus"), parse_setting(words, "batch_size")
    if "gpus" in words and gpus is None:
        gpus = count_items(words["gpus"])
        batch = batch // gpus if batch and gpus and batch % gpus == 0 else None
    precision = {"float16": Precision.AMP_FP16, "float32": Precision.FP32}.get(words.get("dtype", ""))
    workers = _workers(context) if scope(context) is Scope.NODE else 1
    return Facts(
        model=words.get("model") or words.get("network"),
        precision=precision,
        nodes=workers if workers != 1 else None,
        gpus=gpus if workers == 1 else gpus * workers if gpus and workers else None,
        gpus_per_node=gpus if workers is None else None,
        batch_per_device=batch,
        hardware=read_hardware(context.text),
    )


def scope(context: LogContext) -> Scope:
    """Return the scope of the rate: with a distributed ``kv_store`` each worker prints its own."""
    words = namespace_arguments(context)
    store = words.get("kv_store") or words.get("kvstore") or ""
    return Scope.NODE if store.startswith("dist") else Scope.GLOBAL


def _workers(context: LogContext) -> int | None:
    """Return the number of workers that print into this log, by their tags or their printed settings."""
    tags = {int(tag) for tag in re.findall(rb"\bNode\[(\d{1,6})\]", context.text)}
    settings = len(re.findall(rb"Namespace\([^\n]*kv_?store='dist", context.text))
    count = max(max(tags, default=0) + 1, settings)
    return count if count > 1 else None


def transform(blocks: Iterator[dict[str, Floats]]) -> Iterator[dict[str, Floats]]:
    """Yield the records without those that repeat the last one of their epoch."""
    before, interval = np.full(2, np.nan), 0.0
    for columns in blocks:
        # The records of several workers that print every step may be out of order by one.
        interval = interval or median(np.abs(np.diff(columns["step"])))
        steps = np.concatenate((before[:1], columns["step"]))
        epochs = np.concatenate((before[1:], columns["epoch"]))
        repeats = (np.diff(steps) == -1) & (np.diff(epochs) == 0) & (interval > 1)
        before = np.array([steps[-1], epochs[-1]])
        yield {name: values[~repeats] for name, values in columns.items()}


FORMAT = Format(
    name="gluoncv",
    title="gluon-cv",
    framework="mxnet",
    unit="images/s",
    scope=Scope.GLOBAL,
    find_scope=scope,
    records=(
        re.compile(
            rb"Epoch\[(?P<epoch>\d+)\] Batch ?\[(?:\d+-)?(?P<step>\d+)\]\s+Speed: *(?P<rate>\S+) samples/sec"
        ),
    ),
    mark=re.compile(rb"Epoch\[\d+\] Batch ?\[|Namespace\([^\n]*kv_store="),
    parameters=namespace_arguments,
    facts=facts,
    end_state=unknown_end,
    transform=transform,
    header=re.compile(rb"Namespace\("),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"Namespace(batch_size={run.batch_per_device}, dtype='{'float16' if run.amp else 'float32'}', "
        f"log_interval={run.interval}, model='mobilenet1.0', num_gpus={run.gpus})"
    )
    for line in lines_of(run):
        yield (
            f"INFO:root:Epoch[0] Batch [{line.step - 1}]\tSpeed: {line.rate:.6f} samples/sec\t"
            "accuracy=0.001172\tlr=0.400000"
        )
    yield "INFO:root:[Epoch 0] validation: err-top1=0.9 err-top5=0.8"
