"""Facts about a run, merged from three sources: the log's text, its name, and the user's flags."""

from dataclasses import replace
from typing import NamedTuple

from trainmark.logs.hardware import has_tf32
from trainmark.logs.hints import Hints
from trainmark.logs.model import Facts, Problem, Severity
from trainmark.schema.precision import SINGLE, Precision

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
    hardware = logged.hardware or given.hardware or hints.hardware
    precision = _precision(logged, hints, given, hardware, problems, contested, tf32_logged=tf32_logged)
    facts = Facts(
        model=logged.model or given.model or hints.model,
        precision=precision,
        nodes=values["nodes"],
        gpus=values["gpus"],
        batch_per_device=values["batch_per_device"],
        accumulation=logged.accumulation,
        hardware=hardware,
        gpus_per_node=logged.gpus_per_node,
        global_batch=logged.global_batch,
        sequence_length=logged.sequence_length,
    )
    return MergedFacts(facts, tuple(problems), frozenset(contested))


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
    logged: Facts,
    hints: Hints,
    given: Facts,
    hardware: str | None,
    problems: list[Problem],
    contested: set[str],
    *,
    tf32_logged: bool,
) -> Precision | None:
    text, flag = logged.precision, given.precision
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
        contested.add("precision")
    if flag is not None and (text is None or {flag, text} <= SINGLE):
        return flag
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
        return None
    return found


def _contradiction(name: str, source: str, value: object, flag: object) -> Problem:
    where = "the log" if source == "log" else "the log's name"
    return Problem(
        f"flag-contradicts-{source}",
        f"{_FLAG[name]} says {flag} {_WORDS[name]}, {where} says {value}",
    )
