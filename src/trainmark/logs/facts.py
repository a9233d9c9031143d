"""The facts of a log: from its text, its reader's flags and the hints in its name; each assumption is a doubt.

A hint (``4n8g/r50_b128_fp32_1.log``, ``pytorch_gpu8_amp_bs256.txt``, ``…_N1C8_log``) fills in facts that the text
lacks, as a flag does; one that contradicts the text is reported.
"""

import re
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from trainmark.logs.format import Format
from trainmark.logs.model import Facts, Problem, Records, Severity, has_tf32
from trainmark.logs.plausibility import is_possible
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
TF32_UNKNOWN = "tf32-unknown"
"""Problem code of a log that reports single precision but not whether TF32 was on."""
_COUNTS = ("nodes", "gpus", "batch_per_device")
_FLAG = {"nodes": "--nodes", "gpus": "--gpus", "batch_per_device": "--batch", "precision": "--precision"}
_WORDS = {
    "nodes": "nodes",
    "gpus": "devices",
    "batch_per_device": "batch per device",
    "precision": "precision",
}
_SHORTEST_TOKENS = 512
"""Fewer tokens than a device trains on in a step; a smaller batch is one of sequences."""


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


class MergedFacts(NamedTuple):
    """Merged facts, the problems found, and the facts on which the user's flags contradict the log."""

    facts: Facts
    problems: tuple[Problem, ...]
    contested: frozenset[str]


def merge_facts(
    logged: Facts,
    hints: Hints,
    given: Facts,
    *,
    tf32_logged: bool = False,
    named_fp16: Precision | None = None,
) -> MergedFacts:
    """Return the merged facts of a run.

    Facts ``logged`` in the text win. Missing ones are taken from ``given`` (flags), then from the name's ``hints``.
    Every contradiction is a problem (a single one if flag and name agree); a contradiction between flag and text makes
    the fact contested. ``tf32_logged``: the log distinguishes TF32 from FP32. ``named_fp16`` is the precision that
    "fp16" in a name means for the program that wrote the log.
    """
    problems: list[Problem] = []
    contested: set[str] = set()
    logged, assumed = _over_nodes(logged, hints, given)
    problems += assumed
    values: dict[str, int | None] = {}
    for name in _COUNTS:
        text, hint, flag = getattr(logged, name), getattr(hints, name), getattr(given, name)
        values[name] = text if text is not None else flag if flag is not None else hint
        if text is not None and flag is not None and text != flag:
            problems.append(_contradiction(name, "log", text, flag))
            contested.add(name)
        elif text is None and flag is not None and hint is not None and hint != flag:
            problems.append(_contradiction(name, "name", hint, flag))
        if text is not None and hint is not None and hint not in (text, flag):
            problems.append(
                Problem(
                    "name-contradicts-log",
                    f"the name says {hint} {_WORDS[name]}, the log says {text}: the log's value is used",
                )
            )
        elif text is None and flag is None and hint is not None:
            problems.append(
                Problem(
                    "from-name",
                    f"{_WORDS[name]} ({hint}) is taken from the log's name: the text does not contain it",
                    Severity.NOTE,
                )
            )
    if named_fp16 in hints.precisions:
        hints = hints._replace(precisions=frozenset({named_fp16}))
    logged = replace(logged, hardware=logged.hardware or given.hardware or hints.hardware)
    precision, doubts = _precision(logged, hints, given, tf32_logged=tf32_logged)
    if any(doubt.code == "flag-contradicts-log" for doubt in doubts):
        contested.add("precision")
    facts = replace(
        logged,
        model=logged.model or given.model or hints.model,
        precision=precision,
        nodes=values["nodes"],
        gpus=values["gpus"],
        batch_per_device=values["batch_per_device"],
        global_batch=logged.global_batch or given.global_batch,
    )
    return MergedFacts(facts, (*problems, *doubts), frozenset(contested))


def _over_nodes(logged: Facts, hints: Hints, given: Facts) -> tuple[Facts, list[Problem]]:
    """Return ``logged`` with the devices of all nodes, using the number of nodes from any source."""
    own = logged.gpus_per_node
    if logged.gpus is not None or own is None:
        return logged, []
    wholes = [total // own for total in (given.gpus, hints.gpus) if total and total % own == 0]
    nodes = logged.nodes or given.nodes or hints.nodes or next(iter(wholes), None)
    found = replace(logged, gpus=own * (nodes or 1))
    if nodes:
        return found, []
    sentence = f"the log reports {own} devices per node but not the number of nodes: one node is assumed (pass --nodes)"
    return found, [Problem("one-node-assumed", sentence, Severity.NOTE)]


def _precision(
    logged: Facts, hints: Hints, given: Facts, *, tf32_logged: bool
) -> tuple[Precision | None, list[Problem]]:
    """Return the precision of a run on the hardware of ``logged``, and the problems of its sources."""
    problems: list[Problem] = []
    text, flag, hardware = logged.precision, given.precision, logged.hardware
    agrees = text is None or not hints.precisions or text in hints.precisions
    if text is Precision.FP16 and Precision.AMP_FP16 in hints.precisions:
        agrees = True  # people name pure FP16 runs "amp" too; both are FP16 computation
    if not agrees and flag not in hints.precisions:
        named = " or ".join(sorted(hints.precisions))
        problems.append(
            Problem(
                "name-contradicts-log", f"the name says {named}, the log says {text}: the log's value is used"
            )
        )
    if flag is not None and text is not None and flag != text and not {flag, text} <= SINGLE:
        problems.append(_contradiction("precision", "log", text, flag))
    if flag is not None and (text is None or {flag, text} <= SINGLE):
        return flag, problems
    found = text
    if found is None and hints.precisions:
        if hints.precisions == SINGLE:
            found = Precision.FP32
        elif len(hints.precisions) == 1:
            found = next(iter(hints.precisions))
        if found is not None:
            problems.append(
                Problem("from-name", f"precision ({found}) is taken from the log's name", Severity.NOTE)
            )
    if found is Precision.FP32 and not tf32_logged and has_tf32(hardware) is not False:
        device = f"{hardware}, which has TF32" if has_tf32(hardware) else "a device that may have TF32"
        problems.append(
            Problem(
                TF32_UNKNOWN,
                f"single precision on {device}: the log does not report whether TF32 was on; "
                "pass --precision fp32 or --precision tf32",
                Severity.NOTE,
            )
        )
        return None, problems
    return found, problems


def _contradiction(name: str, source: str, value: object, flag: object) -> Problem:
    where = "the log" if source == "log" else "the log's name"
    return Problem(
        f"flag-contradicts-{source}",
        f"{_FLAG[name]} says {flag} {_WORDS[name]}, {where} says {value}",
    )


def with_accumulation(
    facts: Facts, known: Format, records: Records, given: Facts
) -> tuple[Facts, tuple[Problem, ...]]:
    """Return the facts with one micro-batch a step if the reader gives the batch and the log states no accumulation.

    Only records without a rate need it.
    """
    needed = known.accumulates and records.rate is None and records.count
    if not needed or facts.accumulation or facts.global_batch or given.batch_per_device is None:
        return facts, ()
    sentence = (
        "the log does not state the micro-batches of a step (gradient accumulation): 1 is assumed, and with n the rate "
        "is n times as high (add --batch with the samples of all micro-batches)"
    )
    return replace(facts, accumulation=1), (Problem("accumulation-assumed", sentence),)


def batch_of_sequences(facts: Facts, unit: str, records: Records, given: Facts) -> tuple[Problem, ...]:
    """Return a doubt if a rate in tokens comes from a given batch that is too small to be one of tokens."""
    batch = given.batch_per_device
    if unit != "tokens/s" or batch is None or not is_of_sequences(facts):
        return ()
    if records.rate is not None or not records.count:
        return ()
    sentence = (
        f"the number is in tokens/s, but --batch {batch} probably counts sequences, and then it is sequences/s: give "
        "batch x sequence length"
    )
    return (Problem("batch-of-sequences", sentence),)


def is_of_sequences(facts: Facts) -> bool:
    """Return whether the batch of a device is too small to be one of tokens, and the log has no other."""
    batch = facts.batch_per_device
    return facts.global_batch is None and batch is not None and batch < _SHORTEST_TOKENS
