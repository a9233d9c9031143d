"""Rows of the exchange formats: one measured or failed run, independent of its source."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """One run of one case.

    ``speed`` is in ``unit`` over all devices, or none when the run gave no number (out of memory, failed,
    incomplete): an outcome is never a number. ``unit`` is null where no run said it. ``devices`` counts all
    devices over all ``nodes``. ``precision`` is the word for names, such as ``fp32``, ``fp16`` or ``amp``.
    ``repeat`` counts from 1. ``spoiled`` is true of a run that its machine spoiled. ``variant`` holds what else sets
    the case apart, as pairs of axis and value (framework, compiler, data, ...); empty where nothing does.
    ``hardware`` holds the kinds of machines it ran on, to be compared; empty where nobody says. ``one_machine`` is
    false of a run whose case's number is of several, known to differ.
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
    variant: tuple[tuple[str, str], ...] = ()
    hardware: frozenset[Hashable] = frozenset()
    one_machine: bool = True

    @property
    def topology(self) -> str:
        """Nodes and devices a node as DLPerf writes them: ``4n8g``; raises ``ValueError`` for uneven nodes."""
        if self.devices % self.nodes:
            raise ValueError(f"{self.devices} devices do not spread evenly over {self.nodes} nodes")
        return f"{self.nodes}n{self.devices // self.nodes}g"
