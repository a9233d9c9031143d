"""How fast hosts are now: timings of each device in rounds, and an all-reduce between all ranks, by size."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from trainmark.check.formatting import rate, rates, size
from trainmark.check.outliers import LEVEL, compare, is_clear
from trainmark.check.probe import Question, ask_all, script
from trainmark.check.snapshot import HostLook
from trainmark.errors import TrainmarkError
from trainmark.node import Host, free_ports, remote_path
from trainmark.placement import FrameworkPython
from trainmark.schema.check import CheckFinding, Level, Quantity, Reduction, Timing
from trainmark.schema.frozen import Frozen
from trainmark.schema.plan import Command

ROUNDS = (5, 20)
"""How many rounds devices are timed in that are compared: at least, and at most where they differ too much."""

ROUNDS_ALONE = 3
"""The rounds of a device that there is no other to compare with."""

SIZES = (4 << 10, 1 << 20, 25 << 20, 100 << 20)
"""Bytes of an all-reduce's messages: a few numbers, two sizes of buckets, and the gradients of a network as a whole."""

FOUND_AT = 1.3
"""The slowdown that a check is meant to see."""

_ROUND_S = 0.5
"""Some periods (100 ms) of what holds processes up, such as a quota of CPUs."""
_REPEATS = 5


class _Round(Frozen):
    with_: str
    timings: tuple[Timing, ...]


class _OfSize(Frozen):
    size: int
    seconds: tuple[float, ...]


class _Reduced(Frozen):
    backend: str
    reductions: tuple[_OfSize, ...]


@dataclass(frozen=True, slots=True)
class Station:
    """A host to measure on: what was seen there, the environment's interpreter by its path here, and the devices."""

    host: Host
    look: HostLook
    interpreter: FrameworkPython
    devices: tuple[str, ...]

    def command(
        self, name: str, about: object, variables: Mapping[str, str] | None = None, rank: int | None = None
    ) -> Command:
        """Return the command that runs one of our scripts in the environment there."""
        python = remote_path(self.host.paths, self.interpreter.python)
        flags = ("-I",) if self.interpreter.isolated else ()
        given = {**self.interpreter.variables, **(variables or {})}
        made = script(python, name, about, given, flags)
        return Command(0, made.words, made.variables, rank=rank)


@dataclass(slots=True)
class Speeds:
    """What was measured, and with what on each host."""

    findings: list[CheckFinding] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    measured_with: dict[str, str] = field(default_factory=dict)


def measure_devices(
    stations: Sequence[Station],
    rounds: tuple[int, int],
    timeout_s: float,
    tell: Callable[[str], object],
    speeds: Speeds,
) -> None:
    """Time every device, in rounds over all hosts; hosts that are one machine take turns, others go together.

    ``rounds`` are how many at least, and at most where the rounds differ too much to see who is slower.
    A host that gives no answer, or one that cannot be read, is named, and not asked again.
    """
    alone = sum(len(station.devices) for station in stations) == 1
    least, most = (ROUNDS_ALONE, ROUNDS_ALONE) if alone else rounds
    failed: set[str] = set()
    taken: dict[tuple[str, Quantity, str], list[Timing]] = {}
    for number in range(most):
        if number >= least and is_clear(_joined(taken)):
            break
        tell(f"measuring, round {number + 1} of {least if number < least else most}")
        for turn in turns([station for station in stations if station.host.name not in failed]):
            about = [{"devices": station.devices, "round_s": _ROUND_S} for station in turn]
            answers = ask_all(
                [
                    Question(station.host, (station.command("speed", words),))
                    for station, words in zip(turn, about, strict=True)
                ],
                timeout_s,
            )
            for station, answer in zip(turn, answers, strict=True):
                name = station.host.name
                try:
                    if answer.problem is not None or answer.value is None:
                        raise ValueError(answer.problem)
                    seen = _round(name, answer.value)
                except ValueError as error:
                    why = answer.problem or f"its answer cannot be read ({type(error).__name__})"
                    failed.add(name)
                    speeds.findings.append(_failed("speed", name, why, station))
                    continue
                speeds.measured_with[name] = seen.with_
                for timing in seen.timings:
                    taken.setdefault((name, timing.quantity, timing.device), []).append(timing)
    speeds.timings += _joined(taken)


def _joined(taken: Mapping[tuple[str, Quantity, str], Sequence[Timing]]) -> list[Timing]:
    """Return the timings of a device's rounds as one."""
    return [
        found[0].model_copy(update={"seconds": tuple(one.seconds[0] for one in found)})
        for found in taken.values()
    ]


def turns(stations: Sequence[Station]) -> list[list[Station]]:
    """Return the hosts in groups that are measured together: no two of a group have one kernel, and so one machine."""
    groups: list[list[Station]] = []
    for station in stations:
        boot = station.look.boot_id
        place = next(
            (group for group in groups if boot and all(other.look.boot_id != boot for other in group)), None
        )
        if place is None:
            groups.append([station])
        else:
            place.append(station)
    return groups


def reduce_all(stations: Sequence[Station], ranks: int, timeout_s: float, speeds: Speeds) -> None:
    """Time an all-reduce over ``ranks`` ranks on each host, with torch.distributed (gloo, on GPUs NCCL)."""
    world = ranks * len(stations)
    if world < 2:
        return
    names = tuple(station.host.name for station in stations)
    without = [name for name in names if not speeds.measured_with.get(name, "").startswith("torch")]
    if without:
        instead = speeds.measured_with.get(without[0], "nothing")
        found = f"not measured: the environment has no torch ({instead} instead)"
        speeds.findings.append(
            CheckFinding(check="all-reduce", level=Level.NOTE, hosts=tuple(without), found=found)
        )
        return
    if len({station.devices for station in stations}) > 1:
        found = "not measured: the hosts have not the same devices"
        speeds.findings.append(CheckFinding(check="all-reduce", level=Level.NOTE, hosts=names, found=found))
        return
    try:
        port = free_ports(1, [station.host for station in stations])
    except (OSError, TrainmarkError) as error:
        speeds.findings.append(
            CheckFinding(check="all-reduce", level=Level.FAILURE, hosts=names, found=str(error))
        )
        return
    answers = ask_all(
        [
            Question(
                station.host,
                tuple(_rank(stations, node, local, ranks, port, timeout_s) for local in range(ranks)),
            )
            for node, station in enumerate(stations)
        ],
        timeout_s,
    )
    wrong = [(station, answer) for station, answer in zip(stations, answers, strict=True) if answer.problem]
    for station, answer in wrong:
        speeds.findings.append(_failed("all-reduce", station.host.name, str(answer.problem), station))
    if wrong:
        return
    try:
        reduced = _Reduced.model_validate(answers[0].value)
    except ValueError:
        speeds.findings.append(_failed("all-reduce", names[0], "its answer cannot be read", stations[0]))
        return
    speeds.reductions += [
        Reduction(size=one.size, ranks=world, backend=reduced.backend, seconds=one.seconds)
        for one in reduced.reductions
    ]
    said = "; ".join(f"{size(one.size)} in {median(one.seconds) * 1e3:.3g} ms" for one in reduced.reductions)
    found = f"{world} ranks, {reduced.backend}: {said}"
    speeds.findings.append(CheckFinding(check="all-reduce", level=Level.OK, hosts=names, found=found))


def judge_speeds(timings: Sequence[Timing]) -> list[CheckFinding]:
    """Return what the timings of devices and links say: the rates, and who is slower than the others."""
    seen = [timing for timing in timings if timing.quantity is not Quantity.LINK] + _links_by_host(timings)
    findings: list[CheckFinding] = []
    compared = compare(seen)
    together = {(one.quantity, one.kind) for one in compared}
    for timing in seen:
        if (timing.quantity, timing.kind) not in together:
            found = f"{rate(timing.rate, timing.unit)} on {timing.device} ({timing.kind}); there is no other to compare"
            findings.append(_say(timing.quantity, Level.OK, (timing.host,), found))
    for group in compared:
        hosts = tuple(dict.fromkeys(timing.host for timing in group.timings))
        unit = group.timings[0].unit
        found = (
            f"{rates([timing.rate for timing in group.timings], unit)} on {len(group.timings)} x {group.kind}"
        )
        if not group.slow:
            found += f"; none is {group.bound:.2f} times slower than the others"
            findings.append(_say(group.quantity, Level.OK, hosts, found))
        for timing, factor in group.slow:
            others = [one.rate for one in group.timings if one not in [slow for slow, _ in group.slow]]
            where = "" if timing.device in ("cpu", _ALL) else f"{timing.device}: "
            findings.append(
                CheckFinding(
                    check=group.quantity.value,
                    level=Level.WARNING,
                    hosts=(timing.host,),
                    found=f"{where}{factor:.2f} times slower than the others: {rate(timing.rate, unit)}",
                    others=rates(others, unit) if others else None,
                    remedy="see to clocks, cooling, other processes and settings there, or leave it out "
                    f"(a healthy host is named in at most {LEVEL:.0%} of checks)",
                )
            )
        if group.bound > FOUND_AT:
            noisy = (
                f"the rounds differ so much that only a device {group.bound:.2f} times slower would be named"
            )
            findings.append(
                CheckFinding(
                    check=group.quantity.value,
                    level=Level.NOTE,
                    hosts=hosts,
                    found=noisy,
                    remedy="check again when nothing else runs there",
                )
            )
    return findings


_ALL = "links"


def _links_by_host(timings: Sequence[Timing]) -> list[Timing]:
    """Return one timing a host: by round that of the fastest link that it is an end of.

    Of two hosts both have the same links, and nobody can say whose fault it is; from three on a slow host has no
    fast link, and every other one has.
    """
    links = [timing for timing in timings if timing.quantity is Quantity.LINK]
    hosts = list(dict.fromkeys(timing.host for timing in links))
    if len(hosts) < 3:
        return []
    return [
        mine[0].model_copy(
            update={
                "host": host,
                "device": _ALL,
                "seconds": tuple(map(min, zip(*(timing.seconds for timing in mine), strict=False))),
            }
        )
        for host in hosts
        if (mine := [timing for timing in links if host in (timing.host, timing.device)])
    ]


def _round(host: str, value: Mapping[str, object]) -> _Round:
    """Return a round's answer; raises ``ValueError`` for one that is none."""
    timings = value.get("timings")
    if not isinstance(timings, list):
        raise ValueError("no timings")
    named = tuple(Timing.model_validate({**dict(one), "host": host}) for one in timings)
    if any(len(timing.seconds) != 1 or not timing.seconds[0] > 0 for timing in named):
        raise ValueError("a time that is none")
    return _Round(with_=str(value.get("with")), timings=named)


def _rank(
    stations: Sequence[Station], node: int, local: int, ranks: int, port: int, timeout_s: float
) -> Command:
    station, first = stations[node], stations[0].host
    rank = node * ranks + local
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(ranks * len(stations)),
        "MASTER_ADDR": first.address,
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    if (interface := station.host.interface) is not None:
        variables |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    about = {
        "device": station.devices[0],
        "sizes": SIZES,
        "repeats": _REPEATS,
        "timeout_s": max(1.0, timeout_s - 5),
    }
    return station.command("reduce", about, variables, rank if ranks > 1 else None)


def _failed(check: str, host: str, why: str, station: Station) -> CheckFinding:
    return CheckFinding(
        check=check,
        level=Level.FAILURE,
        hosts=(host,),
        found=f"it cannot be measured: {why}",
        remedy=f"see that {station.interpreter.python} runs there",
    )


def _say(quantity: Quantity, level: Level, hosts: tuple[str, ...], found: str) -> CheckFinding:
    return CheckFinding(check=quantity.value, level=level, hosts=hosts, found=found)
