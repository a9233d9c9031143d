"""One set of facts from three sources: the log's text, its name, and the reader's flags."""

from dataclasses import dataclass, replace

from trainmark.logs.hardware import has_tf32
from trainmark.logs.hints import Hints
from trainmark.logs.model import Facts, Problem, Severity
from trainmark.schema.case import SINGLE, Precision

TF32_UNKNOWN = "tf32-unknown"
"""The code of a log that names single precision and not whether TF32 was on."""

_COUNTS = ("nodes", "gpus", "batch_per_device")
_FLAG = {"nodes": "--nodes", "gpus": "--gpus", "batch_per_device": "--batch", "precision": "--precision"}
_WORDS = {
    "nodes": "nodes",
    "gpus": "devices",
    "batch_per_device": "batch per device",
    "precision": "precision",
}


@dataclass(frozen=True, slots=True)
class Settled:
    """Facts, the problems met on the way, and the facts on which the reader contradicts the log."""

    facts: Facts
    problems: tuple[Problem, ...]
    contested: frozenset[str]


def settle(
    said: Facts,
    hints: Hints,
    given: Facts,
    *,
    tf32_said: bool = False,
    named_fp16: Precision | None = None,
) -> Settled:
    """Return what is known of a run.

    What the text ``said`` stands. What it leaves open is taken from ``given`` (flags), then from the name's
    ``hints``. Every contradiction is a problem, one where flag and name say the same; one between flag and text makes
    the fact contested.
    ``tf32_said`` is whether the log itself tells TF32 from FP32; ``named_fp16`` is what "fp16" in a name means for
    the program that wrote the log.
    """
    problems: list[Problem] = []
    contested: set[str] = set()
    said, assumed = _over_nodes(said, hints, given)
    problems += assumed
    values: dict[str, int | None] = {}
    for name in _COUNTS:
        text, hint, flag = getattr(said, name), getattr(hints, name), getattr(given, name)
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
                    f"the name says {hint} {_WORDS[name]}, the log says {text}: the log is believed",
                )
            )
        elif text is None and flag is None and hint is not None:
            problems.append(
                Problem(
                    "from-name",
                    f"{_WORDS[name]} ({hint}) is taken from the log's name; its text does not say it",
                    Severity.NOTE,
                )
            )
    if named_fp16 in hints.precisions:
        hints = replace(hints, precisions=frozenset({named_fp16}))
    hardware = said.hardware or given.hardware or hints.hardware
    precision = _precision(said, hints, given, hardware, problems, contested, tf32_said=tf32_said)
    facts = Facts(
        model=said.model or given.model or hints.model,
        precision=precision,
        nodes=values["nodes"],
        gpus=values["gpus"],
        batch_per_device=values["batch_per_device"],
        accumulation=said.accumulation,
        hardware=hardware,
        gpus_per_node=said.gpus_per_node,
        global_batch=said.global_batch,
    )
    return Settled(facts, tuple(problems), frozenset(contested))


def _over_nodes(said: Facts, hints: Hints, given: Facts) -> tuple[Facts, list[Problem]]:
    """Turn one node's devices into the devices of all nodes, by whichever source tells the number of nodes."""
    own = said.gpus_per_node
    if said.gpus is not None or own is None:
        return said, []
    wholes = [total // own for total in (given.gpus, hints.gpus) if total and total % own == 0]
    nodes = said.nodes or given.nodes or hints.nodes or next(iter(wholes), None)
    found = replace(said, gpus=own * (nodes or 1))
    if nodes:
        return found, []
    sentence = f"the log tells {own} devices of its node and not how many nodes: one is assumed; give --nodes"
    return found, [Problem("one-node-assumed", sentence, Severity.NOTE)]


def _precision(
    said: Facts,
    hints: Hints,
    given: Facts,
    hardware: str | None,
    problems: list[Problem],
    contested: set[str],
    *,
    tf32_said: bool,
) -> Precision | None:
    text, flag = said.precision, given.precision
    agrees = text is None or not hints.precisions or text in hints.precisions
    if text is Precision.FP16 and Precision.AMP_FP16 in hints.precisions:
        agrees = True  # people name pure FP16 runs "amp" too; both are FP16 computation
    if not agrees and flag not in hints.precisions:
        named = " or ".join(sorted(hints.precisions))
        problems.append(
            Problem(
                "name-contradicts-log", f"the name says {named}, the log says {text}: the log is believed"
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
    if found is Precision.FP32 and not tf32_said and has_tf32(hardware) is not False:
        device = f"{hardware}, which has TF32" if has_tf32(hardware) else "a device that may have TF32"
        problems.append(
            Problem(
                TF32_UNKNOWN,
                f"single precision on {device}: the log does not say whether it was on; "
                "say --precision fp32 or --precision tf32",
                Severity.NOTE,
            )
        )
        return None
    return found


def _contradiction(name: str, source: str, said: object, flag: object) -> Problem:
    where = "the log" if source == "log" else "the log's name"
    return Problem(
        f"flag-contradicts-{source}",
        f"{_FLAG[name]} says {flag} {_WORDS[name]}, {where} says {said}",
    )
