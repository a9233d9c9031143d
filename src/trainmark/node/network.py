"""Which network interface has an address."""

import socket

import psutil


def interface_of(address: str) -> str | None:
    """Return the interface of this machine that has an address (or a name's), None where none has it."""
    try:
        asked = {str(found[4][0]) for found in socket.getaddrinfo(address, None)}
    except OSError:
        return None
    for name, addresses in psutil.net_if_addrs().items():
        if asked & {one.address.partition("%")[0] for one in addresses}:
            return name
    return None
