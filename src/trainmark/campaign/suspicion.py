"""Doubts about a run that is kept all the same: what it did is not what was asked, or its machine was not quiet."""

from trainmark.logs.events import RunEvents
from trainmark.node.telemetry import SLOWDOWNS
from trainmark.words.case import BEST, MAX_BATCH, Case
from trainmark.words.measurement import About, Measurement, Suspicion
from trainmark.words.suite import Protocol
from trainmark.words.telemetry import TelemetrySummary
from trainmark.workload import Card

_OF_THE_MACHINE = ("workload", "nodes", "devices_per_node", "data", "loader", "device", "options")
"""Axes that a run may word in its own way, or say nothing of."""

THROTTLED_SHARE = 0.01
"""The share of a window's samples with a throttled clock from which a result is in doubt."""
FOREIGN_CPU_SHARE = 0.10
"""The share of all cores that other processes may take."""


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
        if said is None or asked in (MAX_BATCH, BEST) or str(said) == str(asked):
            continue
        sentence = f"{axis} {asked} was asked for, and the run says that it was {said}"
        doubts.append(
            Suspicion(code=f"{axis.replace('_', '-')}-differs", sentence=sentence, about=About.WORK)
        )
    return tuple(doubts)


def machine_suspicions(telemetry: TelemetrySummary | None) -> tuple[Suspicion, ...]:
    """Return a doubt for throttled clocks, foreign processes on a GPU, and others' work on the cores."""
    if telemetry is None:
        return ()
    doubts: list[tuple[str, str]] = []
    where = f" on node {telemetry.node}" if telemetry.node else ""
    for gpu in telemetry.gpus:
        slow = {reason: share for reason, share in gpu.reason_shares.items() if reason in SLOWDOWNS}
        if slow and max(slow.values()) >= THROTTLED_SHARE:
            reasons = ", ".join(f"{reason} in {share:.0%}" for reason, share in sorted(slow.items()))
            doubts.append(
                (
                    "gpu-throttled",
                    f"GPU {gpu.index} was throttled{where} in the window: {reasons} of the samples",
                )
            )
        if gpu.foreign_pids:
            sentence = (
                f"other processes computed on GPU {gpu.index}{where}: {', '.join(map(str, gpu.foreign_pids))}"
            )
            doubts.append(("gpu-shared", sentence))
    other = telemetry.cpu_other_mean
    if other is not None and other >= FOREIGN_CPU_SHARE:
        doubts.append(
            ("cpu-shared", f"other processes took {other:.0%} of the cores{where} during the window")
        )
    return tuple(Suspicion(code=code, sentence=text, about=About.MACHINE) for code, text in doubts)
