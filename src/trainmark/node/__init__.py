"""What one machine is and does: facts, telemetry, and the jobs that run on it, bounded and ended as a whole."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.node.archives import packed
    from trainmark.node.facts import Roots, collect, collect_node
    from trainmark.node.host import (
        ClockOffset,
        Host,
        HostError,
        HostGoneError,
        HostOSError,
        Job,
        JobEnd,
        Look,
        Paths,
        path_there,
        spoken,
    )
    from trainmark.node.jobs import (
        NOT_FOUND,
        Carried,
        Ended,
        JobOnHost,
        Pulse,
        Runner,
        Said,
        Watch,
        mark_below,
        prober,
        probes_mark,
        run_jobs,
        unwatched,
    )
    from trainmark.node.local import LocalHost, last_step, rank_codes, read_tail
    from trainmark.node.machine import free_ports
    from trainmark.node.pace import StepPace
    from trainmark.node.parallel import on_each
    from trainmark.node.processes import held
    from trainmark.node.remote import RemoteHost, hosts_of

__all__ = [
    "NOT_FOUND",
    "Carried",
    "ClockOffset",
    "Ended",
    "Host",
    "HostError",
    "HostGoneError",
    "HostOSError",
    "Job",
    "JobEnd",
    "JobOnHost",
    "LocalHost",
    "Look",
    "Paths",
    "Pulse",
    "RemoteHost",
    "Roots",
    "Runner",
    "Said",
    "StepPace",
    "Watch",
    "collect",
    "collect_node",
    "free_ports",
    "held",
    "hosts_of",
    "last_step",
    "mark_below",
    "on_each",
    "packed",
    "path_there",
    "prober",
    "probes_mark",
    "rank_codes",
    "read_tail",
    "run_jobs",
    "spoken",
    "unwatched",
]

__getattr__ = attach(
    __name__,
    {
        ".archives": ("packed",),
        ".facts": ("Roots", "collect", "collect_node"),
        ".host": (
            "ClockOffset",
            "Host",
            "HostError",
            "HostGoneError",
            "HostOSError",
            "Job",
            "JobEnd",
            "Look",
            "Paths",
            "path_there",
            "spoken",
        ),
        ".jobs": (
            "NOT_FOUND",
            "Carried",
            "Ended",
            "JobOnHost",
            "Pulse",
            "Runner",
            "Said",
            "Watch",
            "mark_below",
            "prober",
            "probes_mark",
            "run_jobs",
            "unwatched",
        ),
        ".local": ("LocalHost", "last_step", "rank_codes", "read_tail"),
        ".machine": ("free_ports",),
        ".pace": ("StepPace",),
        ".parallel": ("on_each",),
        ".processes": ("held",),
        ".remote": ("RemoteHost", "hosts_of"),
    },
)
