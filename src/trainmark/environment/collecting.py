"""Collecting the manifest of the node that this process runs on."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from trainmark import __version__
from trainmark.environment.accelerators import read_accelerators
from trainmark.environment.git import read_git
from trainmark.environment.host import Roots, read_host
from trainmark.environment.nvml import Nvml, open_nvml
from trainmark.words.manifest import FrameworkVersions, Manifest, Node


def collect(
    framework: FrameworkVersions | None,
    *,
    environ: Mapping[str, str] | None = None,
    environment_lock: str | None = None,
    git_dir: Path | None = None,
) -> Manifest:
    """Return the manifest of this node alone, now.

    ``framework`` comes from ``describe`` (None when no framework is concerned); ``environ`` is what the run's
    processes are given (this process' own by default); ``git_dir`` is the tree whose state is to be kept.
    """
    with open_nvml() as nvml:
        node = collect_node(
            framework,
            roots=Roots(),
            environ=os.environ if environ is None else environ,
            nvml=nvml,
            now=datetime.now(UTC),
            environment_lock=environment_lock,
            git_dir=git_dir,
        )
    return Manifest(nodes=(node,))


def collect_node(
    framework: FrameworkVersions | None,
    *,
    roots: Roots,
    environ: Mapping[str, str],
    nvml: Nvml | None,
    now: datetime,
    environment_lock: str | None = None,
    git_dir: Path | None = None,
) -> Node:
    """Return the facts of a node out of its trees (``roots``), its variables and its NVML."""
    host = read_host(roots, environ, platform.machine())
    return Node(
        hostname=host.hostname,
        collected=now,
        os=host.os,
        cpu=host.cpu,
        memory=host.memory,
        accelerators=read_accelerators(nvml),
        virtualisation=host.virtualisation,
        container=host.container,
        framework=framework,
        environment_lock=environment_lock,
        git=None if git_dir is None else read_git(git_dir),
        variables=host.variables,
        trainmark=__version__,
    )
