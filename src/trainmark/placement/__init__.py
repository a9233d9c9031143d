"""Where the processes of a run start: from a case, a card and a machine to commands that can be read."""

from trainmark.placement.machine import free_ports, this_machine
from trainmark.placement.place import Run, place
from trainmark.placement.plan import Command, Interpreter, Machine, Plan

__all__ = ["Command", "Interpreter", "Machine", "Plan", "Run", "free_ports", "place", "this_machine"]
