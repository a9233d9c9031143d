"""Lookup of the network interface that has an address."""

import ipaddress
import os
import socket
from collections.abc import Mapping

import psutil


def find_interface(address: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the interface of this machine with an address (or a host name's address), or None.

    A machine's own name often resolves to the loopback, where no other machine reaches it; then the interface of
    the incoming ssh connection is returned.
    """
    requested = _addresses(address)
    if not _is_address(address):
        requested = {one for one in requested if not ipaddress.ip_address(one).is_loopback}
        requested = requested or set(environ.get("SSH_CONNECTION", "").split()[2:3])
    for name, addresses in psutil.net_if_addrs().items():
        if requested & {one.address.partition("%")[0] for one in addresses}:
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
