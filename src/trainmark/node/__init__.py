"""What one machine is and does: facts, telemetry, and the jobs that run on it, bounded and ended as a whole."""

from trainmark.node.facts import Roots, collect, collect_node
from trainmark.node.host import Host, Job, JobEnd, Look
from trainmark.node.local import LocalHost, rank_codes, read_tail
from trainmark.node.machine import free_ports, this_machine
from trainmark.node.processes import held

__all__ = [
    "Host",
    "Job",
    "JobEnd",
    "LocalHost",
    "Look",
    "Roots",
    "collect",
    "collect_node",
    "free_ports",
    "held",
    "rank_codes",
    "read_tail",
    "this_machine",
]
