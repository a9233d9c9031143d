"""GluonCV ``scripts/classification/imagenet/train_imagenet.py`` and MXNet's ``Speedometer``.

    INFO:root:Epoch[0] Batch [49]	Speed: 197.514000 samples/sec	accuracy=0.001	lr=0.4

``Speed`` covers the steps since the record before and counts the whole batch of the process, all its devices; with a
``kv_store`` of ``dist…`` there is a process a node, and each prints its own. The
Namespace's ``batch_size`` is of one device in GluonCV and global in MXNet's ``example/image-classification``.
"""

import re

from trainmark.logs.format import Format, LogContext, integer, listed, namespace, unknowable
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace."""
    words = namespace(context)
    gpus, batch = integer(words, "num_gpus"), integer(words, "batch_size")
    if "gpus" in words and gpus is None:
        gpus = listed(words["gpus"])
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
    """Say whose rate a line prints: with a distributed ``kv_store`` each worker prints its own."""
    words = namespace(context)
    store = words.get("kv_store") or words.get("kvstore") or ""
    return Scope.NODE if store.startswith("dist") else Scope.GLOBAL


def _workers(context: LogContext) -> int | None:
    """Return how many workers print into this log, by their tags or by how often each said its settings."""
    tags = {int(tag) for tag in re.findall(rb"\bNode\[(\d{1,6})\]", context.text)}
    said = len(re.findall(rb"Namespace\([^\n]*kv_?store='dist", context.text))
    count = max(max(tags, default=0) + 1, said)
    return count if count > 1 else None


FORMAT = Format(
    name="gluoncv",
    title="gluon-cv",
    framework="mxnet",
    unit="images/s",
    scope=Scope.GLOBAL,
    scope_said=scope,
    records=(
        re.compile(
            rb"Epoch\[(?P<epoch>\d+)\] Batch ?\[(?:\d+-)?(?P<step>\d+)\]\s+Speed: *(?P<rate>\S+) samples/sec"
        ),
    ),
    mark=re.compile(rb"Epoch\[\d+\] Batch ?\[|Namespace\([^\n]*kv_store="),
    parameters=namespace,
    facts=facts,
    ending=unknowable,
    header=re.compile(rb"Namespace\("),
)
