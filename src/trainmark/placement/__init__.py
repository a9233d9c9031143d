"""Placement of a run's processes: from a case, a card and the hosts to readable commands."""

from trainmark.node import free_ports
from trainmark.placement.planner import Planner, build_plan, removal_command
from trainmark.placement.preparation import container_python, prepare, prepare_packages, prepared_key
from trainmark.placement.spec import Container, FrameworkPython, PlacementHost, RunSpec, device_of, place_of

__all__ = [
    "Container",
    "FrameworkPython",
    "PlacementHost",
    "Planner",
    "RunSpec",
    "build_plan",
    "container_python",
    "device_of",
    "free_ports",
    "place_of",
    "prepare",
    "prepare_packages",
    "prepared_key",
    "removal_command",
]
