"""The network between hosts: each listens for a while and connects to others, which shows ports, clocks and links."""

import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainmark.check.formatting import rates, span
from trainmark.check.probe import Answer, Asked, Question, ask, script, started, wait_for_words
from trainmark.errors import TrainmarkError
from trainmark.node import Host, free_ports, remote_path
from trainmark.schema.check import CheckFinding, ClockOffset, Level, Quantity, Timing
from trainmark.schema.frozen import Frozen

SENT = 32 << 20
"""Bytes that are sent over a link to see how fast it is."""

MOST_FOR_ALL_PAIRS = 16
"""Of more hosts each connects to the first one and to those 1, 2, 4, … places on: as many as bits, not as hosts."""

IN_STEP_S = 0.1
"""Clocks that differ by more, beyond what the measuring can be wrong by, make times of different hosts misleading."""

_ROUNDS = 3
_TRIPS = 30
_CONNECT_S = 5.0
_LISTEN_S = 30.0


class _Peer(Frozen):
    name: str
    problem: str | None = None
    trip_s: float = 0.0
    ahead_s: float = 0.0
    seconds: float = 0.0


class _Peers(Frozen):
    peers: tuple[_Peer, ...]


@dataclass(slots=True)
class Network:
    """What was found: findings, the timings of links, and clocks against the first host's."""

    findings: list[CheckFinding] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    clocks: list[ClockOffset] = field(default_factory=list)


def peers_of(place: int, count: int) -> list[int]:
    """Return the places that the host at ``place`` connects to, of ``count`` hosts."""
    if count <= MOST_FOR_ALL_PAIRS:
        return [other for other in range(count) if other != place]
    strides = (1 << bit for bit in range((count - 1).bit_length()))
    near = {place + stride for stride in strides} | {place - stride for stride in (1, 2)}
    return sorted(({other % count for other in near} | {0}) - {place})


def check_network(hosts: Sequence[Host], timeout_s: float) -> Network:
    """Return what the network between two or more hosts is like.

    Each host listens on one port of those where ranks meet, for no longer than it takes, and only to who has a
    secret that is made for this check.
    """
    network = Network()
    secret = {"TRAINMARK_CHECK_SECRET": secrets.token_hex(16)}
    ports = _ports(hosts, network)
    hosts = [host for host in hosts if host.name in ports]
    patience_s = timeout_s * (1 + _ROUNDS * len(hosts))
    listeners = [
        Question(host, (_command(host, {"listen": _listening(host, ports, patience_s)}, secret),))
        for host in hosts
    ]
    with started(listeners) as asked:
        hosts = [one.question.host for one in asked if _listens(one, network)]
        links = _connect(hosts, ports, secret, timeout_s, network)
    _say_links(links, network)
    if hosts:
        _say_clocks(links, hosts[0].name, network)
    return network


def _ports(hosts: Sequence[Host], network: Network) -> dict[str, int]:
    """Return a port for each host: different ones, for two of them may be one machine."""
    ports: dict[str, int] = {}
    for host in hosts:
        try:
            port = free_ports(1, (host,))
            while port in ports.values():
                port = free_ports(1, (host,))
            ports[host.name] = port
        except (OSError, TrainmarkError) as error:
            network.findings.append(_finding("ports", Level.FAILURE, host.name, str(error), None))
    return ports


def _listening(host: Host, ports: Mapping[str, int], seconds: float) -> dict[str, Any]:
    return {"address": host.address, "port": ports[host.name], "seconds": seconds}


def _command(host: Host, about: object, secret: Mapping[str, str]) -> Any:
    return script(remote_path(host.paths, Path(sys.executable)), "mesh", about, secret, ("-I", "-S"))


def _listens(one: Asked, network: Network) -> bool:
    answer = wait_for_words(one, _LISTEN_S)
    if answer.problem is not None:
        name = one.question.host.name
        remedy = "give the host an address of its own, and let its ports be used"
        network.findings.append(_finding("ports", Level.FAILURE, name, answer.problem, remedy))
    return answer.problem is None


def _connect(
    hosts: Sequence[Host],
    ports: Mapping[str, int],
    secret: Mapping[str, str],
    timeout_s: float,
    network: Network,
) -> dict[tuple[str, str], list[_Peer]]:
    """Let one host after the other connect to its peers, in rounds; return what each link showed.

    A link that failed once is not tried again.
    """
    links: dict[tuple[str, str], list[_Peer]] = {}
    failed: set[tuple[str, str]] = set()
    for _ in range(_ROUNDS):
        for place, host in enumerate(hosts):
            peers = [hosts[other] for other in peers_of(place, len(hosts))]
            wanted = [peer for peer in peers if (host.name, peer.name) not in failed]
            if not wanted:
                continue
            about = {
                "connect": [
                    {"name": peer.name, "address": peer.address, "port": ports[peer.name]} for peer in wanted
                ],
                "bytes": SENT,
                "trips": _TRIPS,
                "timeout_s": _CONNECT_S,
            }
            answer = ask(host, _command(host, about, secret), timeout_s + _CONNECT_S * len(wanted))
            found, problem = _read(answer)
            if problem is not None:
                failed |= {(host.name, peer.name) for peer in wanted}
                said = f"it cannot be asked to reach the others: {problem}"
                network.findings.append(_finding("ports", Level.FAILURE, host.name, said, None))
            for peer in found:
                link = (host.name, peer.name)
                if peer.problem is None:
                    links.setdefault(link, []).append(peer)
                    continue
                failed.add(link)
                network.findings.append(
                    _finding(
                        "ports",
                        Level.FAILURE,
                        host.name,
                        f"no connection to {peer.name} at port {ports[peer.name]}: {peer.problem}",
                        "let the ports from 20000 to 32000 through between the hosts (firewall, routes)",
                    )
                )
    return links


def _read(answer: Answer) -> tuple[tuple[_Peer, ...], str | None]:
    if answer.problem is not None:
        return (), answer.problem
    try:
        return _Peers.model_validate(answer.value).peers, None
    except ValueError:
        return (), "its answer cannot be read"


def _say_links(links: Mapping[tuple[str, str], Sequence[_Peer]], network: Network) -> None:
    if not links:
        return
    for (host, peer), found in links.items():
        network.timings.append(
            Timing(
                quantity=Quantity.LINK,
                host=host,
                device=peer,
                kind="TCP",
                amount=float(SENT),
                unit="bytes",
                seconds=tuple(one.seconds for one in found),
            )
        )
    trips = [min(one.trip_s for one in found) * 1e3 for found in links.values()]
    speeds = [timing.rate for timing in network.timings]
    hosts = tuple(dict.fromkeys(host for link in links for host in link))
    both = all((peer, host) in links for host, peer in links)
    ways = "in both directions" if both else "not all in both directions"
    found_ = f"{len(links)} connections {ways}: {span(trips, 'ms')} there and back, {rates(speeds, 'bytes')}"
    network.findings.append(CheckFinding(check="ports", level=Level.OK, hosts=hosts, found=found_))


def _say_clocks(links: Mapping[tuple[str, str], Sequence[_Peer]], first: str, network: Network) -> None:
    """Say how far the clocks are from the first host's, each by the shortest of all round trips with it."""
    for host in dict.fromkeys(name for link in links for name in link if name != first):
        seen = [(one.trip_s, one.ahead_s) for one in links.get((first, host), ())]
        seen += [(one.trip_s, -one.ahead_s) for one in links.get((host, first), ())]
        if seen:
            trip_s, ahead_s = min(seen)
            network.clocks.append(ClockOffset(host=host, against=first, offset_s=ahead_s, error_s=trip_s / 2))
    apart = [found for found in network.clocks if abs(found.offset_s) - found.error_s > IN_STEP_S]
    for found in apart:
        side = "ahead of" if found.offset_s > 0 else "behind"
        network.findings.append(
            _finding(
                "clocks",
                Level.WARNING,
                found.host,
                f"its clock is {abs(found.offset_s):.3g} s {side} that of {first} (± {found.error_s:.2g} s)",
                "let both follow one time server (chrony, systemd-timesyncd)",
            )
        )
    near = [found for found in network.clocks if found not in apart]
    if near:
        most = max(near, key=lambda found: abs(found.offset_s))
        said = f"clocks are within {abs(most.offset_s) * 1e3:.3g} ms (± {most.error_s * 1e3:.2g} ms) of {first}'s"
        names = tuple(found.host for found in near)
        network.findings.append(CheckFinding(check="clocks", level=Level.OK, hosts=names, found=said))


def _finding(check: str, level: Level, host: str, found: str, remedy: str | None) -> CheckFinding:
    return CheckFinding(check=check, level=level, hosts=(host,), found=found, remedy=remedy)
