"""Fetch the files of a run's nodes into the run's folder on this machine."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path

from trainmark.node import Host, HostError, HostOSError
from trainmark.schema.names import RUNS
from trainmark.schema.plan import Plan

_MOST_LEVELS = 3
"""The largest number of a case's folder levels above a run, which short runs have."""


def is_shared(host: Host, there: Path, here: Path) -> bool:
    """Return whether a folder on a host and one on this machine are the same, whatever their paths."""
    token = f".trainmark-{secrets.token_hex(8)}"
    (here / token).touch()
    try:
        return host.has(there / token)
    finally:
        (here / token).unlink()


def fetch_all(places: Mapping[int, Host], plan: Plan, directory: Path) -> str | None:
    """Fetch the files of the nodes in ``places``, one after the other; return why one failed, or None.

    Hosts with a shared disk that this machine does not have use one folder: the first fetch gets all files.
    """
    lost, brought = None, False
    for node, host in places.items():
        try:
            if not brought or host.has(plan.nodes[node].directory):
                _fetch(host, plan, directory, node)
                brought = True
        except (HostError, HostOSError) as error:
            lost = lost or f"the files of {host.name} could not be fetched: {error}"
    return lost


def _fetch(host: Host, plan: Plan, directory: Path, node: int) -> None:
    """Move a node's files into the run's folder; files that another node also has stay in ``nodeN``.

    The working tree of the program's source is not fetched: it is not part of the run and is removed with the folder.
    """
    there = plan.nodes[node].directory
    if is_shared(host, there, directory):
        return
    own = directory / f"node{node}"
    trees = {made.source.tree.name for made in plan.preparations if made.source and made.node == node}
    host.get(there, own, without=trees)
    host.remove(there)
    # Only the case's folders, which no other run uses now; the folders above them are shared with other runs.
    above = islice(takewhile(lambda folder: folder.name != RUNS, there.parents), _MOST_LEVELS)
    host.remove_empty(list(above))
    for path in sorted(own.iterdir()):
        if not (directory / path.name).exists():
            path.rename(directory / path.name)
    with suppress(OSError):
        own.rmdir()
