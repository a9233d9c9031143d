"""Doubts about runs whose recorded work, or whose log's facts, differ from the case; a missing fact is none."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from trainmark.insight.recipe import recipe_from
from trainmark.logs import Facts, ParsedLog
from trainmark.logs.events import HEAD_LINES, RunEvents, read_parameters
from trainmark.logs.facts import TF32_UNKNOWN
from trainmark.measure.pooling import fingerprint, pooling_differences
from trainmark.schema.case import BEST, MAX_BATCH, UNKNOWN, Case
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import About, Measurement, Suspicion
from trainmark.schema.precision import HALF, SINGLE
from trainmark.schema.results import RunResult, StoredManifest, pooled
from trainmark.schema.suite import Protocol
from trainmark.tasks import TASKS, model_word, same_model
from trainmark.workload import Card

_OF_THE_MACHINE = ("workload", "nodes", "devices_per_node", "data", "loader", "device", "options", "where")
"""Axes whose values a run may write in its own way or not at all."""

MACHINES_DIFFER = "machines-differ"
"""The code of a doubt about a case whose number comes from runs on different machines."""

_SHOWN = 3
_FP32_OR_TF32 = "fp32 or tf32"
_PIECES = re.compile(r"[\s=:,'\"]+")
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
    "nodes",
    "devices_per_node",
)
"""Axes whose values programs write in their own way, and those that are compared with the facts of the log."""


def machine_suspicions(
    runs: Sequence[RunResult], manifests: Mapping[str, StoredManifest]
) -> tuple[Suspicion, ...]:
    """Return a doubt for each other machine in a case's number, and for each run with an unknown machine.

    A campaign never pools such runs, but a result directory assembled by hand can contain them.
    """
    counted = pooled(runs)
    known = [(run, manifest) for run in counted if (manifest := _manifest(run, manifests)) is not None]
    if not known:
        return ()
    first, there = known[0]
    observed = {fingerprint(there)}
    doubts = []
    for run, manifest in known[1:]:
        if fingerprint(manifest) in observed:
            continue
        observed.add(fingerprint(manifest))
        reported = list(_differences(there, manifest))
        more = f" and {len(reported) - _SHOWN} more" if len(reported) > _SHOWN else ""
        sentence = (
            f"run {run.repeat} was measured on another machine than run {first.repeat}, and the number includes both: "
            f"{'; '.join(reported[:_SHOWN])}{more}"
        )
        doubts.append(Suspicion(code=MACHINES_DIFFER, sentence=sentence, about=About.MACHINE))
    for run in counted:
        if _manifest(run, manifests) is None:
            sentence = (
                f"run {run.repeat} has no readable manifest: it is unknown whether it was measured on the machine "
                f"of run {first.repeat}"
            )
            doubts.append(Suspicion(code="machine-unknown", sentence=sentence, about=About.MACHINE))
    return tuple(doubts)


def _manifest(run: RunResult, manifests: Mapping[str, StoredManifest]) -> Manifest | None:
    found = manifests.get(run.manifest or "")
    return found if isinstance(found, Manifest) else None


def _differences(one: Manifest, other: Manifest) -> Iterator[str]:
    """Yield the facts that forbid pooling runs of the two manifests, different hosts first."""
    hosts = [", ".join(node.hostname or "-" for node in manifest.nodes) for manifest in (other, one)]
    if hosts[0] != hosts[1]:
        yield f"host {hosts[0]} instead of {hosts[1]}"
    for path, before, now in pooling_differences(one, other):
        yield f"{path} is {now} instead of {before}"


def _is_sparse(measurement: Measurement, last_step: int | None, steps: int) -> bool:
    """Return whether a log has a record for every few steps, and its last one is within these of the run's end."""
    records = measurement.measured_steps + measurement.warmup_steps
    interval = (last_step or 0) // max(records - 1, 1)
    return interval > 1 and last_step is not None and abs(steps - last_step) <= interval


def work_suspicions(
    case: Case,
    card: Card,
    protocol: Protocol,
    measurement: Measurement,
    events: RunEvents,
    last_step: int | None = None,
) -> tuple[Suspicion, ...]:
    """Return a doubt for each axis on which the run's records contradict the case, and for damaged events.

    ``last_step`` is the last one in the log of a program of another project.
    """
    doubts = []
    # A program without a flag for the number of steps runs as many as its data allow.
    expected = protocol.measured_steps - card.unlogged_steps
    all_steps = protocol.steps - card.unlogged_steps
    # A log's own warm-up may be another one than the suite's.
    complete = last_step is not None and measurement.measured_steps + measurement.warmup_steps == all_steps
    complete = complete or _is_sparse(measurement, last_step, all_steps)
    # The steps of a number that the program computed itself, of the whole run, are unknown.
    is_counted = measurement.measured_steps > 0 or measurement.rule == "window"
    if card.takes_steps and is_counted and measurement.measured_steps != expected and not complete:
        sentence = f"{measurement.measured_steps} steps were measured instead of {expected}"
        doubts.append(Suspicion(code="steps-differ", sentence=sentence, about=About.WORK))
    if events.damaged_lines:
        sentence = f"{events.damaged_lines} lines of its events cannot be read and were skipped"
        doubts.append(Suspicion(code="events-damaged", sentence=sentence, about=About.WORK))
    words = events.parameters.reported()
    requested_values = {axis: case.value(axis) for axis in case.axes if axis not in _OF_THE_MACHINE}
    for axis, requested in {**requested_values, "world_size": case.world_size}.items():
        recorded = words.get(axis)
        if isinstance(recorded, Mapping):
            # An object with its own settings; its name may be AdamW if the case's value is adamw.
            recorded = str(recorded["name"]).lower() if "name" in recorded else None
        if recorded is None or requested in (MAX_BATCH, BEST, UNKNOWN) or str(recorded) == str(requested):
            continue
        sentence = f"the case requests {axis} {requested}, but the run recorded {recorded}"
        doubts.append(
            Suspicion(code=f"{axis.replace('_', '-')}-differs", sentence=sentence, about=About.WORK)
        )
    return tuple(doubts)


def version_suspicions(events: RunEvents, manifest: Manifest | None) -> tuple[Suspicion, ...]:
    """Return a doubt if a run reports another framework version than was found in its environment."""
    reported = events.parameters.framework_version
    there = manifest.nodes[0].framework if manifest is not None and manifest.nodes else None
    if reported is None or there is None or there.version in (None, reported):
        return ()
    sentence = (
        f"the run reports {there.framework} {reported}, but its environment had {there.version} when the "
        "campaign began: the environment has changed since"
    )
    return (Suspicion(code="framework-version-differs", sentence=sentence, about=About.WORK),)


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
    """Yield the settings that the program printed, for axes that the case states."""
    values = {axis: case.value(axis) for axis in case.axes if axis not in _ELSEWHERE}
    requested = {axis: value for axis, value in values.items() if value != UNKNOWN}
    if not requested:
        return
    with log.open(encoding="utf-8", errors="replace") as file:
        recipe = recipe_from(read_parameters(islice(file, HEAD_LINES)))
    for axis, reading in recipe.readings.items():
        if axis in requested:
            yield axis, reading.value, requested[axis]


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


def stated_work_doubts(
    stated_unit: str | None, stated: int | None, printed: int | None, unit: str | None, log_unit: str | None
) -> Iterator[Suspicion]:
    """Yield the doubts about the stated work of a step, of which ``printed`` is the log's own, in ``log_unit``.

    ``unit`` is that of the number: the stated one, unless the log does not show when its steps ended.
    """
    if unit == log_unit and stated is not None and printed not in (None, stated):
        sentence = f"the log says {printed:,} units per step; the card's work_per_step is {stated:,}"
        yield Suspicion(code="work-per-step-differs", sentence=sentence, about=About.WORK)
    if stated_unit is None or unit in (None, stated_unit):
        return
    reason = (
        "the work of a step is not stated (--work-per-step N)"
        if stated is None
        else f"the log does not show when its steps ended, so {stated:,} of each cannot be counted"
    )
    sentence = f"the number is in {unit} and not in the stated {stated_unit}: {reason}"
    yield Suspicion(code="stated-unit-unused", sentence=sentence, about=About.WORK)
