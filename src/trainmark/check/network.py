"""Network check: each host listens and connects to others, which tests ports, clocks and links."""

import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from trainmark.check.formatting import rates, span
from trainmark.check.probe import (
    Probe,
    ProbeResult,
    RunningProbe,
    run_probe,
    script_command,
    start_probes,
    wait_for_output,
)
from trainmark.errors import TrainmarkError
from trainmark.node import Host, free_ports, remote_path
from trainmark.schema.check import CheckFinding, ClockOffset, Level, Quantity, Timing
from trainmark.schema.frozen import Frozen

LINK_BYTES = 32 << 20
"""Bytes that are sent over a link to measure its speed."""

ALL_PAIRS_LIMIT = 16
"""With more hosts, each connects to the first and to those 1, 2, 4, … positions on, so links grow as N log N."""

LONGER_TRIP_S = 0.001
"""Hosts of one training are in one building: a round trip this much longer than the others has a cause."""

MAX_OFFSET_S = 0.1
"""A larger clock offset (beyond its measurement error) makes times of different hosts incomparable."""

_ROUNDS = 3
_TRIPS = 30
_CONNECT_S = 5.0
_LISTEN_S = 30.0


class _PeerResult(Frozen):
    name: str
    problem: str | None = None
    trip_s: float = 0.0
    ahead_s: float = 0.0
    seconds: float = 0.0


class _PeerResults(Frozen):
    peers: tuple[_PeerResult, ...]


@dataclass(slots=True)
class NetworkResults:
    """Findings, link timings, and clock offsets from the first host."""

    findings: list[CheckFinding] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    clocks: list[ClockOffset] = field(default_factory=list)


def peers_of(place: int, count: int) -> list[int]:
    """Return the positions of the hosts that the host at ``place`` connects to, of ``count`` hosts."""
    if count <= ALL_PAIRS_LIMIT:
        return [other for other in range(count) if other != place]
    strides = (1 << bit for bit in range((count - 1).bit_length()))
    near = {place + stride for stride in strides} | {place - stride for stride in (1, 2)}
    return sorted(({other % count for other in near} | {0}) - {place})


def check_network(hosts: Sequence[Host], timeout_s: float) -> NetworkResults:
    """Return the state of the network between two or more hosts.

    Each host listens on one of the ports that ranks use, only while the check lasts, and accepts only connections
    with a secret that is generated for this check.
    """
    network = NetworkResults()
    secret = {"TRAINMARK_CHECK_SECRET": secrets.token_hex(16)}
    ports = _ports(hosts, network)
    hosts = [host for host in hosts if host.name in ports]
    patience_s = timeout_s * (1 + _ROUNDS * len(hosts))
    listeners = [
        Probe(host, (_command(host, {"listen": _listening(host, ports, patience_s)}, secret),))
        for host in hosts
    ]
    with start_probes(listeners) as running:
        hosts = [one.probe.host for one in running if _listens(one, network)]
        links = _connect(hosts, ports, secret, timeout_s, network)
    _add_links(links, network)
    network.findings += long_trips({link: min(one.trip_s for one in found) for link, found in links.items()})
    if hosts:
        _add_clocks(links, hosts[0].name, network)
    return network


def _ports(hosts: Sequence[Host], network: NetworkResults) -> dict[str, int]:
    """Return a port for each host; all differ because two hosts may share a machine."""
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


def _command(host: Host, argument: object, secret: Mapping[str, str]) -> Any:
    return script_command(
        remote_path(host.paths, Path(sys.executable)), "mesh", argument, secret, ("-I", "-S")
    )


def _listens(one: RunningProbe, network: NetworkResults) -> bool:
    result = wait_for_output(one, _LISTEN_S)
    if result.problem is not None:
        name = one.probe.host.name
        remedy = "check that the host has this address, and allow connections to its ports"
        network.findings.append(_finding("ports", Level.FAILURE, name, result.problem, remedy))
    return result.problem is None


def _connect(
    hosts: Sequence[Host],
    ports: Mapping[str, int],
    secret: Mapping[str, str],
    timeout_s: float,
    network: NetworkResults,
) -> dict[tuple[str, str], list[_PeerResult]]:
    """Connect each host in turn to its peers, in rounds; return the measurements of each link.

    A link that failed once is not tried again.
    """
    links: dict[tuple[str, str], list[_PeerResult]] = {}
    failed: set[tuple[str, str]] = set()
    for _ in range(_ROUNDS):
        for place, host in enumerate(hosts):
            peers = [hosts[other] for other in peers_of(place, len(hosts))]
            wanted = [peer for peer in peers if (host.name, peer.name) not in failed]
            if not wanted:
                continue
            argument = {
                "connect": [
                    {"name": peer.name, "address": peer.address, "port": ports[peer.name]} for peer in wanted
                ],
                "bytes": LINK_BYTES,
                "trips": _TRIPS,
                "timeout_s": _CONNECT_S,
            }
            result = run_probe(host, _command(host, argument, secret), timeout_s + _CONNECT_S * len(wanted))
            found, problem = _read(result)
            if problem is not None:
                failed |= {(host.name, peer.name) for peer in wanted}
                found_text = f"it cannot connect to the others: {problem}"
                network.findings.append(_finding("ports", Level.FAILURE, host.name, found_text, None))
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
                        "open the ports from 20000 to 32000 between the hosts (firewall, routes)",
                    )
                )
    return links


def _read(result: ProbeResult) -> tuple[tuple[_PeerResult, ...], str | None]:
    if result.problem is not None:
        return (), result.problem
    try:
        return _PeerResults.model_validate(result.value).peers, None
    except ValueError:
        return (), "its output cannot be parsed"


def _add_links(links: Mapping[tuple[str, str], Sequence[_PeerResult]], network: NetworkResults) -> None:
    if not links:
        return
    for (host, peer), found in links.items():
        network.timings.append(
            Timing(
                quantity=Quantity.LINK,
                host=host,
                device=peer,
                kind="TCP",
                amount=float(LINK_BYTES),
                unit="bytes",
                seconds=tuple(one.seconds for one in found),
            )
        )
    trips = [min(one.trip_s for one in found) * 1e3 for found in links.values()]
    speeds = [timing.rate for timing in network.timings]
    hosts = tuple(dict.fromkeys(host for link in links for host in link))
    both = all((peer, host) in links for host, peer in links)
    directions = "in both directions" if both else "not all in both directions"
    found_ = (
        f"{len(links)} connections {directions}: round trip {span(trips, 'ms')}, {rates(speeds, 'bytes')}"
    )
    network.findings.append(CheckFinding(check="ports", level=Level.OK, hosts=hosts, found=found_))


def long_trips(trips: Mapping[tuple[str, str], float]) -> list[CheckFinding]:
    """Return a warning for each host whose packets all take longer than those of the others, then for single lines.

    ``trips`` has the shortest round trip of each link, in seconds: other load does not make all trips of a link long.
    With two hosts there is nothing to compare.
    """
    lines: dict[frozenset[str], float] = {}
    for link, trip_s in trips.items():
        line = frozenset(link)
        lines[line] = min(trip_s, lines.get(line, trip_s))
    findings = []
    for host in dict.fromkeys(name for link in trips for name in link):
        others = [trip_s for line, trip_s in lines.items() if host not in line]
        own = min(trip_s for line, trip_s in lines.items() if host in line)
        if others and own - median(others) > LONGER_TRIP_S:
            findings.append(_long_trip((host,), "a packet to each other host and back", own, others))
    slow_hosts = {name for found in findings for name in found.hosts}
    single = {line: trip_s for line, trip_s in lines.items() if not line & slow_hosts}
    for line, trip_s in single.items():
        others = [other for one, other in single.items() if one != line]
        if others and trip_s - median(others) > LONGER_TRIP_S:
            findings.append(
                _long_trip(tuple(sorted(line)), "a packet between the two and back", trip_s, others)
            )
    return findings


def _long_trip(hosts: tuple[str, ...], packet: str, trip_s: float, others: Sequence[float]) -> CheckFinding:
    return CheckFinding(
        check="round-trip",
        level=Level.WARNING,
        hosts=hosts,
        found=f"{packet} takes at least {trip_s * 1e3:.3g} ms",
        others=span([other * 1e3 for other in others], "ms"),
        remedy="check the cable, the port of the switch, the route and traffic shaping (tc qdisc)",
    )


def _add_clocks(
    links: Mapping[tuple[str, str], Sequence[_PeerResult]], first: str, network: NetworkResults
) -> None:
    """Add each clock's offset from the first host's, measured in the shortest round trip between the two.

    The findings compare with the first host, or with a host of the median clock if the first one differs from that.
    """
    for host in dict.fromkeys(name for link in links for name in link if name != first):
        offsets = [(one.trip_s, one.ahead_s) for one in links.get((first, host), ())]
        offsets += [(one.trip_s, -one.ahead_s) for one in links.get((host, first), ())]
        if offsets:
            trip_s, ahead_s = min(offsets)
            network.clocks.append(ClockOffset(host=host, against=first, offset_s=ahead_s, error_s=trip_s / 2))
    clocks = _from_usual_clock(network.clocks)
    out_of_step = [found for found in clocks if not _is_near(found)]
    for found in out_of_step:
        side = "ahead of" if found.offset_s > 0 else "behind"
        network.findings.append(
            _finding(
                "clocks",
                Level.WARNING,
                found.host,
                f"its clock is {abs(found.offset_s):.3g} s {side} that of {found.against} (± {found.error_s:.2g} s)",
                "synchronise both with the same time server (chrony, systemd-timesyncd)",
            )
        )
    near = [found for found in clocks if found not in out_of_step]
    if near:
        most = max(near, key=lambda found: abs(found.offset_s))
        found_text = (
            f"clocks are within {abs(most.offset_s) * 1e3:.3g} ms (± {most.error_s * 1e3:.2g} ms) "
            f"of {most.against}'s"
        )
        names = tuple(found.host for found in near)
        network.findings.append(CheckFinding(check="clocks", level=Level.OK, hosts=names, found=found_text))


def _is_near(found: ClockOffset) -> bool:
    return abs(found.offset_s) - found.error_s <= MAX_OFFSET_S


def _from_usual_clock(clocks: Sequence[ClockOffset]) -> Sequence[ClockOffset]:
    """Return the offsets from a host that has the time of most hosts: three hosts blamed by one wrong clock are right.

    ``clocks`` are the offsets from the first host, which stays the reference if it has that time, or of two hosts.
    """
    if len(clocks) < 2:
        return clocks
    first = ClockOffset(host=clocks[0].against, against=clocks[0].against, offset_s=0.0, error_s=0.0)
    ordered = sorted((first, *clocks), key=lambda found: found.offset_s)
    usual = ordered[len(ordered) // 2]
    if _is_near(usual):
        return clocks
    return [
        ClockOffset(
            host=found.host,
            against=usual.host,
            offset_s=found.offset_s - usual.offset_s,
            error_s=found.error_s + usual.error_s,
        )
        for found in (first, *clocks)
        if found is not usual
    ]


def _finding(check: str, level: Level, host: str, found: str, remedy: str | None) -> CheckFinding:
    return CheckFinding(check=check, level=level, hosts=(host,), found=found, remedy=remedy)
