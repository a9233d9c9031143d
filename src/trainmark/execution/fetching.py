"""Bringing what a run's nodes wrote into the run's folder here."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path

from trainmark.node import Host, HostError, HostOSError
from trainmark.schema.names import RUNS
from trainmark.schema.plan import Plan

_MOST_LEVELS = 3
"""Folders of one case above that of a run: the longest is that of a short run for a choice or a batch."""


def is_shared(host: Host, there: Path, here: Path) -> bool:
    """Return whether a folder on a host and one here are the same, which their paths do not show."""
    token = f".trainmark-{secrets.token_hex(8)}"
    (here / token).touch()
    try:
        return host.has(there / token)
    finally:
        (here / token).unlink()


def fetch_all(places: Mapping[int, Host], plan: Plan, directory: Path) -> str | None:
    """Bring what the nodes of ``places`` wrote, one after the other; return why that of one could not be had, or None.

    Hosts that share a disk which is not ours have one folder: the first brings what all wrote.
    """
    lost, brought = None, False
    for node, host in places.items():
        try:
            if not brought or host.has(plan.nodes[node].directory):
                _fetch(host, plan, directory, node)
                brought = True
        except (HostError, HostOSError) as error:
            lost = lost or f"what {host.name} wrote could not be fetched: {error}"
    return lost


def _fetch(host: Host, plan: Plan, directory: Path, node: int) -> None:
    """Move a node's files into the run's folder; what would take the place of another node's keeps to ``nodeN``.

    The working tree of the program's source is left: it is not of the run, and goes with the folder.
    """
    there = plan.nodes[node].directory
    if is_shared(host, there, directory):
        return
    own = directory / f"node{node}"
    trees = {made.source.tree.name for made in plan.preparations if made.source and made.node == node}
    host.get(there, own, without=trees)
    host.remove(there)
    # The folders of the case, which this run alone uses now; what is above them is other runs' too.
    above = islice(takewhile(lambda folder: folder.name != RUNS, there.parents), _MOST_LEVELS)
    host.remove_empty(list(above))
    for path in sorted(own.iterdir()):
        if not (directory / path.name).exists():
            path.rename(directory / path.name)
    with suppress(OSError):
        own.rmdir()
