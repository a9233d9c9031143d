"""Reserve the hosts of a campaign: two campaigns on one machine would disturb each other."""

import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from hashlib import sha256

from trainmark.errors import InputError
from trainmark.node import Host, HostError, map_hosts

PATIENCE_S = 60.0
"""How long to wait for a host that another campaign holds, in seconds: a killed campaign may still be cleaning up."""

_PAUSE_S = 1.0


def reserve_hosts(
    hosts: Sequence[Host], suite: str, say: Callable[[str], None], patience_s: float = PATIENCE_S
) -> None:
    """Reserve the hosts against other campaigns until they are released or this process ends.

    An unreachable host is reserved once it can be reached. Raises ``InputError`` if another campaign uses a host and
    does not end soon, or if two names are the same machine.
    """
    token = secrets.token_hex(4)
    holders = {host.name: f"{token}{sha256(host.name.encode()).hexdigest()[:8]}" for host in hosts}
    names = {holder: name for name, holder in holders.items()}
    whose = f"suite {suite}, process {os.getpid()} on {socket.gethostname()}"
    deadline, announced = time.monotonic() + patience_s, False
    wanted = list(hosts)
    while wanted:
        answers = map_hosts(wanted, lambda host: _reserve(host, f"{holders[host.name]} {whose}"))
        held = {host.name: by for host, by in zip(wanted, answers, strict=True) if by is not None}
        for name, by in held.items():
            other = names.get(by.partition(" ")[0], name)
            if other != name:
                raise InputError(
                    f"{other} and {name} are the same machine under two names: remove one of them from the hosts"
                )
        if not held:
            return
        name, by = next(iter(held.items()))
        by = by.partition(" ")[2] or "somebody"
        if time.monotonic() > deadline:
            raise InputError(
                f"{name}: in use by another campaign ({by}); wait until it ends, or remove this host"
            )
        if not announced:
            say(f"{name}: in use by another campaign ({by}); waiting up to {patience_s:g} s")
            announced = True
        wanted = [host for host in wanted if host.name in held]
        time.sleep(_PAUSE_S)


def _reserve(host: Host, by: str) -> str | None:
    try:
        return host.reserve(by)
    except HostError:
        return None
