"""Where the processes of a run start: from a case, a card and a machine to commands that can be read."""

from trainmark.placement.container import Surroundings, removal
from trainmark.placement.machine import free_ports, this_machine
from trainmark.placement.place import Run, device_of, inside, place, surroundings
from trainmark.placement.plan import (
    Checkout,
    Command,
    Container,
    Interpreter,
    Machine,
    Plan,
    Preparation,
    Task,
)
from trainmark.placement.preparation import containerised, prepare, prepared_key, source_key

__all__ = [
    "Checkout",
    "Command",
    "Container",
    "Interpreter",
    "Machine",
    "Plan",
    "Preparation",
    "Run",
    "Surroundings",
    "Task",
    "containerised",
    "device_of",
    "free_ports",
    "inside",
    "place",
    "prepare",
    "prepared_key",
    "removal",
    "source_key",
    "surroundings",
    "this_machine",
]
