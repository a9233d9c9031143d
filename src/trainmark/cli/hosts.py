"""The hosts that ``--hosts`` and ``--engine`` name, connected for as long as a verb needs them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from trainmark.node import Host


@contextmanager
def chosen_hosts(given: str | None, engine: str | None) -> "Iterator[tuple[Host, ...]]":
    """Give the hosts in their order, this machine alone where none is named; let their agents go in the end.

    Raises ``InputError`` for a hosts file that is none and for an engine that is not known. A host that cannot be
    reached is given all the same: it says why when it is needed.
    """
    from trainmark.node import LocalHost, RemoteHost, hosts_of, on_each
    from trainmark.schema.hosts import EngineName
    from trainmark.suite import load_hosts

    if engine is not None and engine not in set(EngineName):
        raise InputError(
            f"--engine {engine}: not an engine{nearest(engine, EngineName)} ({', '.join(EngineName)})"
        )
    if given is None:
        if engine is not None:
            raise InputError(f"--engine {engine}: nothing to reach; give --hosts")
        yield (LocalHost(),)
        return
    hosts = hosts_of(load_hosts(given, os.environ, None if engine is None else EngineName(engine)))
    try:
        yield hosts
    finally:
        on_each([host for host in hosts if isinstance(host, RemoteHost)], RemoteHost.close)
