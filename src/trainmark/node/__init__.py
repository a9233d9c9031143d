"""Hosts: their facts and telemetry, and the jobs that run on them with limits and full clean-up."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.node.archives import pack_folder
    from trainmark.node.host import (
        ClockOffset,
        Host,
        HostError,
        HostGoneError,
        HostOSError,
        Job,
        JobEnd,
        JobStatus,
        Paths,
        display_name,
        remote_path,
    )
    from trainmark.node.jobs import (
        NOT_FOUND,
        CommandOutput,
        CommandRunner,
        Heartbeat,
        JobOnHost,
        JobResult,
        JobsResult,
        Watch,
        child_mark,
        ignore_heartbeat,
        map_hosts,
        probe_mark,
        probe_runner,
        run_jobs,
    )
    from trainmark.node.local import LocalHost, last_step, rank_codes, read_tail
    from trainmark.node.machine import Roots, collect, collect_node, free_ports
    from trainmark.node.pace import RecentPace, StepPace
    from trainmark.node.processes import deferred_signals
    from trainmark.node.remote import RemoteHost, connect_hosts

__all__ = [
    "NOT_FOUND",
    "ClockOffset",
    "CommandOutput",
    "CommandRunner",
    "Heartbeat",
    "Host",
    "HostError",
    "HostGoneError",
    "HostOSError",
    "Job",
    "JobEnd",
    "JobOnHost",
    "JobResult",
    "JobStatus",
    "JobsResult",
    "LocalHost",
    "Paths",
    "RecentPace",
    "RemoteHost",
    "Roots",
    "StepPace",
    "Watch",
    "child_mark",
    "collect",
    "collect_node",
    "connect_hosts",
    "deferred_signals",
    "display_name",
    "free_ports",
    "ignore_heartbeat",
    "last_step",
    "map_hosts",
    "pack_folder",
    "probe_mark",
    "probe_runner",
    "rank_codes",
    "read_tail",
    "remote_path",
    "run_jobs",
]

__getattr__ = attach(
    __name__,
    {
        ".archives": ("pack_folder",),
        ".host": (
            "ClockOffset",
            "Host",
            "HostError",
            "HostGoneError",
            "HostOSError",
            "Job",
            "JobEnd",
            "JobStatus",
            "Paths",
            "remote_path",
            "display_name",
        ),
        ".jobs": (
            "NOT_FOUND",
            "JobsResult",
            "JobResult",
            "JobOnHost",
            "Heartbeat",
            "CommandRunner",
            "CommandOutput",
            "Watch",
            "child_mark",
            "probe_runner",
            "probe_mark",
            "map_hosts",
            "run_jobs",
            "ignore_heartbeat",
        ),
        ".local": ("LocalHost", "last_step", "rank_codes", "read_tail"),
        ".machine": ("Roots", "collect", "collect_node", "free_ports"),
        ".pace": ("RecentPace", "StepPace"),
        ".processes": ("deferred_signals",),
        ".remote": ("RemoteHost", "connect_hosts"),
    },
)
