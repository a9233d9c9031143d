"""Which network interface has an address."""

import ipaddress
import os
import socket
from collections.abc import Mapping

import psutil


def find_interface(address: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the interface of this machine that has an address (or a name's), None where none has it.

    A machine often knows its own name by the loopback, where no other one reaches it; then it is the interface by
    which ssh came in.
    """
    asked = _addresses(address)
    if not _is_address(address):
        asked = {one for one in asked if not ipaddress.ip_address(one).is_loopback}
        asked = asked or set(environ.get("SSH_CONNECTION", "").split()[2:3])
    for name, addresses in psutil.net_if_addrs().items():
        if asked & {one.address.partition("%")[0] for one in addresses}:
            return name
    return None


def _addresses(name: str) -> set[str]:
    try:
        return {str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(name, None)}
    except OSError:
        return set()


def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True
