"""The hosts of ``--hosts`` and ``--engine``, connected while a verb needs them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from trainmark.node import Host


@contextmanager
def chosen_hosts(given: str | None, engine: str | None) -> "Iterator[tuple[Host, ...]]":
    """Yield the hosts in their order (by default this machine only), and close their connections at the end.

    Raises ``InputError`` for an invalid hosts file or an unknown engine. A host that cannot be reached is included;
    it reports the reason when it is used.
    """
    from trainmark.node import LocalHost, RemoteHost, connect_hosts, map_hosts
    from trainmark.schema.hosts import EngineName
    from trainmark.suite import load_hosts

    if engine is not None and engine not in set(EngineName):
        raise InputError(
            f"--engine {engine}: unknown engine{nearest(engine, EngineName)} ({', '.join(EngineName)})"
        )
    if given is None:
        if engine is not None:
            raise InputError(f"--engine {engine}: add --hosts; without it only this machine is used")
        yield (LocalHost(),)
        return
    hosts = connect_hosts(load_hosts(given, os.environ, None if engine is None else EngineName(engine)))
    try:
        yield hosts
    finally:
        map_hosts([host for host in hosts if isinstance(host, RemoteHost)], RemoteHost.close)
