"""Hints from a log's name: ``4n8g/r50_b128_fp32_1.log``, ``pytorch_gpu8_amp_bs256.txt``, ``…_N1C8_log``.

A hint fills in facts that the text lacks; a hint that contradicts the text is reported.
"""

import re
from pathlib import PurePath
from typing import NamedTuple

from trainmark.logs.plausibility.bounds import is_possible
from trainmark.schema.precision import HALF, SINGLE, Precision

_WORD = r"(?:(?<=[\W_])|^)"  # a token starts at the name's start or after a separator
_END = r"(?=[\W_]|$)"
_NODES_BY_GPUS = re.compile(rf"{_WORD}(\d+)n(\d+)[gc]{_END}", re.IGNORECASE)
_N_C = re.compile(rf"{_WORD}N(\d+)C(\d+){_END}")
"""Paddle's test names: N4C32 is 4 nodes with 32 cards in total."""
_GPUS = re.compile(rf"{_WORD}(?:gpu|gpus|c|N)(\d+){_END}")
_GPUS_AFTER = re.compile(rf"{_WORD}(\d+)gpus?{_END}", re.IGNORECASE)
_SPEED = re.compile(r"_(\d+)_speed$")
_NODES = re.compile(rf"{_WORD}(\d+)[ _-]?nodes?{_END}", re.IGNORECASE)
_BATCH = re.compile(rf"{_WORD}(?:bs|bz|b|batch)_?(\d+){_END}", re.IGNORECASE)
_REPEAT = re.compile(r"_(\d+)$")
_ACCELERATOR = re.compile(rf"{_WORD}((?:V|A|H|P|B)\d{{2,3}}|T4|L40S?){_END}")
_MAY_HINT = re.compile(r"[A-Za-z]_?\d|\d[ _-]?[A-Za-z]|_\d+_speed|amp|mixed", re.IGNORECASE)
"""In each name with a hint: letters beside a number, or the words of a precision that has no number."""
_SUFFIXES = (".log", ".txt", ".json", ".jsonl", ".gz", ".bz2", ".xz", ".zst", ".out", ".err")

_PRECISIONS: tuple[tuple[re.Pattern[str], frozenset[Precision]], ...] = (
    (re.compile(rf"{_WORD}pure_?fp16{_END}", re.IGNORECASE), frozenset({Precision.FP16})),
    (re.compile(rf"{_WORD}tf32{_END}", re.IGNORECASE), frozenset({Precision.TF32})),
    (re.compile(rf"{_WORD}(?:amp|mixed)_?bf16{_END}", re.IGNORECASE), frozenset({Precision.AMP_BF16})),
    (re.compile(rf"{_WORD}(?:amp|mixed)(?:_?fp16)?{_END}", re.IGNORECASE), frozenset({Precision.AMP_FP16})),
    (re.compile(rf"{_WORD}fp16{_END}", re.IGNORECASE), HALF[0]),
    (re.compile(rf"{_WORD}bf16{_END}", re.IGNORECASE), HALF[1]),
    (re.compile(rf"{_WORD}fp32{_END}", re.IGNORECASE), SINGLE),
)


class Hints(NamedTuple):
    """Facts in the name of a log; ``precisions`` are those that agree with it (empty: it names none)."""

    model: str | None = None
    precisions: frozenset[Precision] = frozenset()
    nodes: int | None = None
    gpus: int | None = None
    batch_per_device: int | None = None
    repeat: int | None = None
    hardware: str | None = None


def read_hints(path: str) -> Hints:
    """Return the hints in the file name of ``path``, and in its folder's name if that is ``<n>n<g>g``."""
    parts = PurePath(path).parts
    if not parts or path == "-":
        return Hints()
    name = _without_suffixes(parts[-1])
    folder = parts[-2] if len(parts) > 1 else ""
    accelerator = next((m for part in reversed(parts) if (m := _ACCELERATOR.search(part))), None)
    hardware = accelerator[1] if accelerator else None
    if not _MAY_HINT.search(name) and not _MAY_HINT.search(folder):
        return Hints(hardware=hardware)
    nodes, gpus = _devices(name)
    if gpus is None and (placed := re.fullmatch(r"(\d+)n(\d+)[gc]", folder, re.IGNORECASE)):
        nodes, gpus = int(placed[1]), int(placed[1]) * int(placed[2])
    batch = _BATCH.search(name) or re.search(r"_bz(\d+)$", folder)
    precisions = next((agree for pattern, agree in _PRECISIONS if pattern.search(name)), frozenset())
    repeat = _REPEAT.search(name) if _BATCH.search(name) and not _SPEED.search(name) else None
    size = int(batch[1]) if batch else None
    if not is_possible(gpus, nodes):
        nodes, gpus = None, None  # a hash or another number, not a machine
    return Hints(
        model=_model(name),
        precisions=precisions,
        nodes=nodes,
        gpus=gpus or None,
        batch_per_device=size if is_possible(batch=size) else None,
        repeat=int(repeat[1]) if repeat else None,
        hardware=hardware,
    )


def _devices(name: str) -> tuple[int | None, int | None]:
    """Return (nodes, devices over all nodes)."""
    if match := _NODES_BY_GPUS.search(name):
        return int(match[1]), int(match[1]) * int(match[2])
    if match := _N_C.search(name):
        nodes, cards = int(match[1]), int(match[2])
        # N4C8 can mean 8 cards in total or per node: only the number of nodes is certain.
        return nodes, cards if nodes == 1 or cards > 8 else None
    if match := _NODES.search(name):
        return int(match[1]), None
    if match := _SPEED.search(name) or _GPUS.search(name) or _GPUS_AFTER.search(name):
        return None, int(match[1])
    return None, None


def _model(name: str) -> str | None:
    """Return the part before the batch in a DLPerf name, or between repository and mode in a benchmark name."""
    if match := re.match(r"[a-z]+_(.+)_[sm]p_bs\d+", name):
        return match[1]
    match = re.match(r"([A-Za-z0-9.-]+)_b\d+_", name)
    return match[1] if match else None


def _without_suffixes(name: str) -> str:
    while True:
        shorter = next((name[: -len(s)] for s in _SUFFIXES if name.lower().endswith(s)), None)
        if not shorter:
            return name
        name = shorter
