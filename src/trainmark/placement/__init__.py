"""Where the processes of a run start: from a case, a card and the hosts to commands that can be read."""

from trainmark.node import free_ports
from trainmark.placement.container import removal
from trainmark.placement.planner import place
from trainmark.placement.preparation import containerised, prepare, prepared_key, source_key
from trainmark.placement.spec import Container, FrameworkPython, PlacementHost, RunSpec, device_of

__all__ = [
    "Container",
    "FrameworkPython",
    "PlacementHost",
    "RunSpec",
    "containerised",
    "device_of",
    "free_ports",
    "place",
    "prepare",
    "prepared_key",
    "removal",
    "source_key",
]
