"""Doubts about a run that is kept all the same: what it did is not what was asked."""

from collections.abc import Mapping

from trainmark.logs.events import RunEvents
from trainmark.words.case import BEST, MAX_BATCH, Case
from trainmark.words.manifest import Manifest
from trainmark.words.measurement import About, Measurement, Suspicion
from trainmark.words.suite import Protocol
from trainmark.workload import Card

_OF_THE_MACHINE = ("workload", "nodes", "devices_per_node", "data", "loader", "device", "options", "where")
"""Axes that a run may word in its own way, or say nothing of."""


def work_suspicions(
    case: Case, card: Card, protocol: Protocol, measurement: Measurement, events: RunEvents
) -> tuple[Suspicion, ...]:
    """Return a doubt for each axis on which the run says that it was another than the case asks, and for its events."""
    doubts = []
    # A program that cannot be told how many steps to take does as many as its data give.
    expected = protocol.measured_steps - card.unlogged_steps
    if card.takes_steps and measurement.measured_steps != expected:
        sentence = f"{expected} steps were to be measured, and {measurement.measured_steps} were"
        doubts.append(Suspicion(code="steps-differ", sentence=sentence, about=About.WORK))
    if events.damaged_lines:
        sentence = f"{events.damaged_lines} lines of its events cannot be read and were left out"
        doubts.append(Suspicion(code="events-damaged", sentence=sentence, about=About.WORK))
    words = events.parameters.said()
    asked_for = {axis: case.value(axis) for axis in case.axes if axis not in _OF_THE_MACHINE}
    for axis, asked in {**asked_for, "world_size": case.world_size}.items():
        said = words.get(axis)
        if isinstance(said, Mapping):
            # With settings of its own; a framework's name for it may be AdamW where the case's is adamw.
            said = str(said["name"]).lower() if "name" in said else None
        if said is None or asked in (MAX_BATCH, BEST) or str(said) == str(asked):
            continue
        sentence = f"{axis} {asked} was asked for, and the run says that it was {said}"
        doubts.append(
            Suspicion(code=f"{axis.replace('_', '-')}-differs", sentence=sentence, about=About.WORK)
        )
    return tuple(doubts)


def version_suspicions(events: RunEvents, manifest: Manifest | None) -> tuple[Suspicion, ...]:
    """Return a doubt where a run says another version of its framework than its environment was seen to have."""
    said = events.parameters.framework_version
    there = manifest.nodes[0].framework if manifest is not None and manifest.nodes else None
    if said is None or there is None or there.version in (None, said):
        return ()
    sentence = (
        f"the run says that it was {there.framework} {said}, and its environment had {there.version} when the "
        "campaign began: it was changed meanwhile"
    )
    return (Suspicion(code="framework-version-differs", sentence=sentence, about=About.WORK),)
