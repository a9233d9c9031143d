"""What one machine is and does: facts, telemetry, and the jobs that run on it, bounded and ended as a whole."""

from typing import TYPE_CHECKING

from trainmark.lazy import lazy

if TYPE_CHECKING:
    from trainmark.node.facts import Roots, collect, collect_node
    from trainmark.node.host import Host, Job, JobEnd, Look, Paths, path_there, spoken
    from trainmark.node.jobs import NOT_FOUND, JobOnHost, Pulse, Runner, Said, last_step, prober, run_jobs
    from trainmark.node.local import LocalHost, rank_codes, read_tail
    from trainmark.node.machine import free_ports
    from trainmark.node.processes import held

__all__ = [
    "NOT_FOUND",
    "Host",
    "Job",
    "JobEnd",
    "JobOnHost",
    "LocalHost",
    "Look",
    "Paths",
    "Pulse",
    "Roots",
    "Runner",
    "Said",
    "collect",
    "collect_node",
    "free_ports",
    "held",
    "last_step",
    "path_there",
    "prober",
    "rank_codes",
    "read_tail",
    "run_jobs",
    "spoken",
]

__getattr__ = lazy(__name__)
