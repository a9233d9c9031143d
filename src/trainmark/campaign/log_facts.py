"""Compare the facts in another program's log with the case: a contradiction is a doubt, a missing fact is not."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from trainmark.insight.recipe import recipe_from
from trainmark.logs import Facts, ParsedLog
from trainmark.logs.hints import TF32_UNKNOWN
from trainmark.logs.parameters import HEAD_LINES, read_parameters
from trainmark.schema.case import BEST, MAX_BATCH, UNKNOWN, Case
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.precision import HALF, SINGLE
from trainmark.tasks import TASKS, model_word, same_model
from trainmark.workload import Card

_FP32_OR_TF32 = "fp32 or tf32"
_PIECES = re.compile(r"[\s=:,'\"]+")


def missing_facts(logged: Facts, case: Case) -> Facts:
    """Return the facts that the log lacks, from the case; ``logged`` are the facts read from the log."""
    batch = case.batch_per_device if isinstance(case.batch_per_device, int) else None
    return Facts(
        nodes=case.nodes if logged.nodes is None else None,
        gpus=case.world_size if logged.gpus is None and logged.gpus_per_node is None else None,
        batch_per_device=batch if logged.batch_per_device is None else None,
    )


def contradictions(
    case: Case, card: Card, commands: Sequence[str], alone: ParsedLog, read: ParsedLog, log: Path
) -> tuple[Suspicion, ...]:
    """Return a doubt for each fact in which the log contradicts the case.

    ``alone`` is the log read without further facts, ``read`` the same log read with the missing facts from the case. A
    model's name agrees if it equals the case's name, if one of the two is only the family of the other, or if it is a
    word of the command, because the card passes the program's own name. If the card passes no name and the case's model
    is unknown to trainmark, the name is the card's choice for the program's only model, and any name in the log agrees.
    """
    logged = alone.facts
    differing = [
        (name, logged_value, requested)
        for name, logged_value, requested in (
            ("model", logged.model if _is_named(case, card) else None, case.model),
            ("precision", logged.precision or _single(alone), case.precision),
            ("batch_per_device", _whole_batch(logged), case.batch_per_device),
            ("nodes", logged.nodes, case.nodes),
            ("world_size", read.facts.gpus if logged.gpus or logged.gpus_per_node else None, case.world_size),
            *_recipe(log, case),
        )
        if logged_value is not None and not _agrees(name, logged_value, requested, commands)
    ]
    return tuple(
        Suspicion(
            code=f"{name.replace('_', '-')}-differs",
            sentence=f"the log says {name.replace('_', ' ')} {value}; the case requests {requested}",
            about=About.WORK,
        )
        for name, value, requested in {pair[0]: pair for pair in reversed(differing)}.values()
    )


def _whole_batch(logged: Facts) -> int | None:
    """Return the batch of a device per step: logs print the size of one micro-batch."""
    return None if logged.batch_per_device is None else logged.batch_per_device * (logged.accumulation or 1)


def _is_named(case: Case, card: Card) -> bool:
    axis = card.axes.get("model")
    passed = axis is not None and (axis.flags or (axis.values or {}).get(case.model))
    return bool(passed) or any(case.model in task.models for task in TASKS.values())


def _single(alone: ParsedLog) -> str | None:
    """Return the precision of a log that shows single precision but not whether TF32 was on; otherwise None."""
    return _FP32_OR_TF32 if any(problem.code == TF32_UNKNOWN for problem in alone.problems) else None


def _recipe(log: Path, case: Case) -> Iterator[tuple[str, object, object]]:
    """Yield the settings that the program printed, for axes that the case has."""
    with log.open(encoding="utf-8", errors="replace") as file:
        recipe = recipe_from(read_parameters(islice(file, HEAD_LINES)))
    for axis, reading in recipe.readings.items():
        if axis in case.axes and axis not in _ELSEWHERE:
            yield axis, reading.value, case.value(axis)


_ELSEWHERE = (
    "workload",
    "task",
    "model",
    "data",
    "loader",
    "compiler",
    "device",
    "framework",
    "options",
    "where",
)
"""Axes whose values programs write in their own way."""


def _agrees(name: str, logged: object, requested: object, commands: Iterable[str]) -> bool:
    if str(logged) == str(requested) or requested in (MAX_BATCH, BEST, UNKNOWN):
        return True
    if name == "precision":
        if logged == _FP32_OR_TF32:
            return requested in SINGLE
        return any({logged, requested} <= one for one in HALF)
    if name != "model":
        return False
    if str(logged).isalpha() and str(requested).startswith(f"{logged}_"):
        return True  # the family alone ("bert"): its size is among the program's arguments
    word = model_word(str(logged))
    if same_model(word, model_word(str(requested))):
        return True
    return word in {model_word(piece) for text in commands for piece in _PIECES.split(text)}
