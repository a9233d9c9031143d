"""Rows of the exchange formats: one measured or failed run, independent of its source."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """One run of one case.

    ``speed`` is in ``unit`` over all devices, or None if the run gave no number (out of memory, failed, incomplete): an
    outcome is never a number. ``unit`` is None if no run states it. ``devices`` counts all devices over all ``nodes``.
    ``precision`` is the word for names, such as ``fp32``, ``fp16`` or ``amp``. ``repeat`` counts from 1. ``spoiled`` is
    true for a run disturbed by its machine, or not looked at unlike disturbed repeats: ``inspected`` is then false.
    ``variant`` holds the other axes that distinguish the case, as pairs of axis and value
    (framework, compiler, data, ...). ``hardware`` holds the kinds of machines of the run, for
    comparison; empty if unknown. ``one_machine`` is false if the case's number comes from several machines that are
    known to differ.
    """

    log: str
    model: str
    precision: str
    batch_per_device: int
    devices: int
    nodes: int
    speed: float | None
    unit: str | None
    repeat: int = 1
    spoiled: bool = False
    inspected: bool = True
    variant: tuple[tuple[str, str], ...] = ()
    hardware: frozenset[Hashable] = frozenset()
    one_machine: bool = True

    @property
    def disturbance(self) -> str:
        """The reason why a spoiled run is left out, as the predicate of a sentence."""
        return (
            "was disturbed by its machine"
            if self.inspected
            else "was not watched, unlike its disturbed repeats"
        )

    @property
    def topology(self) -> str:
        """Nodes and devices per node as DLPerf writes them: ``4n8g``; raises ``ValueError`` for uneven nodes."""
        if self.devices % self.nodes:
            raise ValueError(f"{self.devices} devices do not spread evenly over {self.nodes} nodes")
        return f"{self.nodes}n{self.devices // self.nodes}g"
