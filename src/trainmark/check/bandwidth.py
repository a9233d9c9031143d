"""Speed measurements: timings of each device in rounds, and an all-reduce between all ranks, by message size."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from trainmark.check.formatting import rate, rates, size
from trainmark.check.outliers import LEVEL, compare, is_clear
from trainmark.check.probe import Probe, run_probes, script_command
from trainmark.check.snapshot import HostSnapshot
from trainmark.errors import TrainmarkError
from trainmark.measure.device_peaks import find_peak
from trainmark.node import Host, free_ports, remote_path
from trainmark.placement import FrameworkPython
from trainmark.schema.check import CheckFinding, Level, Quantity, Reduction, Timing
from trainmark.schema.frozen import Frozen
from trainmark.schema.plan import Command
from trainmark.schema.precision import Precision

ROUNDS = (5, 20)
"""Minimum and maximum number of timing rounds; extra rounds are taken while the rounds differ too much."""

MOST_EXTRA_S = 180.0
"""Seconds of measuring after which no extra round starts: on busy hosts a round can take a minute."""

ROUNDS_SINGLE = 3
"""Timing rounds of a single device, which is compared with no other."""

SIZES = (4 << 10, 1 << 20, 25 << 20, 100 << 20)
"""All-reduce message sizes in bytes: a few numbers, two gradient bucket sizes, and all gradients of a network."""

DETECTABLE_SLOWDOWN = 1.3
"""The slowdown factor that a check should detect."""

_ROUND_S = 0.5
"""Several periods (100 ms each) of a CPU quota, which stalls processes once a period."""
_REPEATS = 5


class _Round(Frozen):
    with_: str
    timings: tuple[Timing, ...]


class _SizeTimings(Frozen):
    size: int
    seconds: tuple[float, ...]


class _ReductionResult(Frozen):
    backend: str
    reductions: tuple[_SizeTimings, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A host to measure on: its snapshot, the environment's interpreter (by its local path), and its devices."""

    host: Host
    snapshot: HostSnapshot
    interpreter: FrameworkPython
    devices: tuple[str, ...]

    def command(
        self, name: str, options: object, variables: Mapping[str, str] | None = None, rank: int | None = None
    ) -> Command:
        """Return the command that runs one of our scripts in the host's environment."""
        python = remote_path(self.host.paths, self.interpreter.python)
        flags = ("-I",) if self.interpreter.isolated else ()
        given = {**self.interpreter.variables, **(variables or {})}
        made = script_command(python, name, options, given, flags)
        return Command(0, made.words, made.variables, rank=rank)


@dataclass(slots=True)
class SpeedResults:
    """Measured timings and findings, and the library that each host was measured with."""

    findings: list[CheckFinding] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    measured_with: dict[str, str] = field(default_factory=dict)


def measure_devices(
    targets: Sequence[Target],
    precisions: Sequence[Precision],
    rounds: tuple[int, int],
    timeout_s: float,
    progress: Callable[[str], object],
    speeds: SpeedResults,
) -> None:
    """Time every device in rounds over all hosts; hosts on the same machine take turns, others run in parallel.

    Matrix products are timed in each of ``precisions``.

    ``rounds`` are the minimum and the maximum; the maximum applies while the rounds differ too much to rank hosts.
    No extra round starts after ``MOST_EXTRA_S``. A host whose probe fails becomes a finding and is not measured again.
    """
    began = time.monotonic()
    single = sum(len(target.devices) for target in targets) == 1
    least, most = (ROUNDS_SINGLE, ROUNDS_SINGLE) if single else rounds
    failed: set[str] = set()
    rounds_taken: dict[tuple[str, Quantity, str, Precision | None], list[Timing]] = {}
    for number in range(most):
        extra = number >= least
        if extra and (is_clear(_joined(rounds_taken)) or time.monotonic() - began > MOST_EXTRA_S):
            break
        of = f"at most {most}, as the rounds differ" if extra else least
        progress(f"measuring, round {number + 1} of {of}")
        for turn in measurement_groups([target for target in targets if target.host.name not in failed]):
            options = [
                {"devices": target.devices, "round_s": _ROUND_S, "precisions": precisions} for target in turn
            ]
            results = run_probes(
                [
                    Probe(target.host, (target.command("speed", words),))
                    for target, words in zip(turn, options, strict=True)
                ],
                timeout_s,
            )
            for target, result in zip(turn, results, strict=True):
                name = target.host.name
                try:
                    if result.problem is not None or result.value is None:
                        raise ValueError(result.problem)
                    measured = _round(name, result.value)
                except ValueError as error:
                    why = result.problem or f"its output cannot be parsed ({type(error).__name__})"
                    failed.add(name)
                    speeds.findings.append(_failed("speed", name, why, target))
                    continue
                speeds.measured_with[name] = measured.with_
                for timing in measured.timings:
                    key = (name, timing.quantity, timing.device, timing.precision)
                    rounds_taken.setdefault(key, []).append(timing)
    speeds.timings += _joined(rounds_taken)


def _joined(
    rounds_taken: Mapping[tuple[str, Quantity, str, Precision | None], Sequence[Timing]],
) -> list[Timing]:
    """Return one timing a device, with the seconds of all its rounds."""
    return [
        found[0].model_copy(update={"seconds": tuple(one.seconds[0] for one in found)})
        for found in rounds_taken.values()
    ]


def measurement_groups(targets: Sequence[Target]) -> list[list[Target]]:
    """Return the hosts in groups that are measured in parallel; hosts that share a kernel are in different groups."""
    groups: list[list[Target]] = []
    for target in targets:
        boot_id = target.snapshot.boot_id
        group = next(
            (
                group
                for group in groups
                if boot_id and all(other.snapshot.boot_id != boot_id for other in group)
            ),
            None,
        )
        if group is None:
            groups.append([target])
        else:
            group.append(target)
    return groups


def reduce_all(targets: Sequence[Target], ranks: int, timeout_s: float, speeds: SpeedResults) -> None:
    """Time an all-reduce over ``ranks`` ranks on each host, with torch.distributed (gloo, on GPUs NCCL)."""
    world = ranks * len(targets)
    if world < 2:
        return
    names = tuple(target.host.name for target in targets)
    without = [name for name in names if not speeds.measured_with.get(name, "").startswith("torch")]
    if without:
        instead = speeds.measured_with.get(without[0], "nothing")
        found = f"not measured: the environment has no torch ({instead} instead)"
        speeds.findings.append(
            CheckFinding(check="all-reduce", level=Level.NOTE, hosts=tuple(without), found=found)
        )
        return
    if len({target.devices for target in targets}) > 1:
        found = "not measured: the hosts have different devices"
        speeds.findings.append(CheckFinding(check="all-reduce", level=Level.NOTE, hosts=names, found=found))
        return
    try:
        port = free_ports(1, [target.host for target in targets])
    except (OSError, TrainmarkError) as error:
        speeds.findings.append(
            CheckFinding(check="all-reduce", level=Level.FAILURE, hosts=names, found=str(error))
        )
        return
    results = run_probes(
        [
            Probe(
                target.host,
                tuple(_rank(targets, node, local, ranks, port, timeout_s) for local in range(ranks)),
            )
            for node, target in enumerate(targets)
        ],
        timeout_s,
    )
    wrong = [(target, result) for target, result in zip(targets, results, strict=True) if result.problem]
    for target, result in wrong:
        speeds.findings.append(_failed("all-reduce", target.host.name, str(result.problem), target))
    if wrong:
        return
    try:
        reduced = _ReductionResult.model_validate(results[0].value)
    except ValueError:
        speeds.findings.append(_failed("all-reduce", names[0], "its output cannot be parsed", targets[0]))
        return
    speeds.reductions += [
        Reduction(size=one.size, ranks=world, backend=reduced.backend, seconds=one.seconds)
        for one in reduced.reductions
    ]
    summary = "; ".join(
        f"{size(one.size)} in {median(one.seconds) * 1e3:.3g} ms" for one in reduced.reductions
    )
    found = f"{world} ranks, {reduced.backend}: {summary}"
    speeds.findings.append(CheckFinding(check="all-reduce", level=Level.OK, hosts=names, found=found))


_OF_DEVICES = "clocks, cooling, other processes and settings"
_CAUSES = {Quantity.LINK: "cable, port of the switch, MTU, route and other traffic"}
"""Usual causes of a slow host, by what is slow there."""


def compare_speeds(timings: Sequence[Timing]) -> list[CheckFinding]:
    """Return the findings on device and link timings: the rates, and the hosts that are slower than the others."""
    measured = [timing for timing in timings if timing.quantity is not Quantity.LINK] + _links_by_host(
        timings
    )
    findings: list[CheckFinding] = []
    compared = compare(measured)
    compared_kinds = {(one.quantity, one.kind, one.precision) for one in compared}
    for timing in measured:
        if (timing.quantity, timing.kind, timing.precision) not in compared_kinds:
            shown = f"{rate(timing.rate, timing.unit)}{_in(timing.precision)}"
            found = f"{shown} on {timing.device} ({timing.kind}), not compared{_of_data_sheet([timing])}"
            findings.append(_finding(timing.quantity, Level.OK, (timing.host,), found))
    for group in compared:
        hosts = tuple(dict.fromkeys(timing.host for timing in group.timings))
        unit = group.timings[0].unit
        shown = f"{rates([timing.rate for timing in group.timings], unit)}{_in(group.precision)}"
        found = f"{shown} on {len(group.timings)} x {group.kind}"
        is_sensitive = group.bound <= DETECTABLE_SLOWDOWN
        if not group.slow and is_sensitive:
            found += (
                f"; none is {group.bound:.2f} times slower than the others{_of_data_sheet(group.timings)}"
            )
            findings.append(_finding(group.quantity, Level.OK, hosts, found))
        for timing, factor in group.slow:
            others = [one.rate for one in group.timings if one not in [slow for slow, _ in group.slow]]
            where = "" if timing.device in ("cpu", _ALL) else f"{timing.device}: "
            findings.append(
                CheckFinding(
                    check=group.quantity.value,
                    level=Level.WARNING,
                    hosts=(timing.host,),
                    found=f"{where}{factor:.2f} times slower than the others: "
                    f"{rate(timing.rate, unit)}{_in(group.precision)}",
                    others=rates(others, unit) if others else None,
                    remedy=f"check its {_CAUSES.get(group.quantity, _OF_DEVICES)}, or exclude it "
                    f"(at most {LEVEL:.0%} of checks name a healthy host)",
                )
            )
        if not is_sensitive:
            noisy = f"the rounds differ so much that only a device {group.bound:.2f} times slower would be detected"
            noisy = noisy if group.slow else f"{found}: {noisy}"
            findings.append(
                CheckFinding(
                    check=group.quantity.value,
                    level=Level.NOTE,
                    hosts=hosts,
                    found=noisy,
                    remedy="check again when the hosts are idle",
                )
            )
    return findings


def _in(precision: Precision | None) -> str:
    return "" if precision is None else f" in {precision}"


def _of_data_sheet(timings: Sequence[Timing]) -> str:
    """Return the share of the data sheet's peak or bandwidth that the devices reach; empty if it is unknown.

    Nothing is judged by it: a healthy device at its power limit reaches less than its peak.
    """
    first = timings[0]
    peak = find_peak(first.kind)
    if peak is None:
        return ""
    if first.quantity is Quantity.MATRIX_PRODUCT and first.precision is not None:
        most, unit, scale = peak.dense_tflops(first.precision), "TFLOP/s", 1e12
    elif first.quantity is Quantity.MEMORY_COPY:
        most, unit, scale = peak.bandwidth_gb_per_s, "GB/s", 1e9
    else:
        return ""
    if most is None:
        return ""
    shares = [timing.rate / (most * scale) for timing in timings]
    low, high = (f"{share:.0%}" for share in (min(shares), max(shares)))
    return f"; {low if low == high else f'{low} to {high}'} of {most:g} {unit} ({peak.vendor_document})"


_ALL = "links"


def _links_by_host(timings: Sequence[Timing]) -> list[Timing]:
    """Return one timing a host: in each round, that of the fastest link at this host.

    Two hosts share the same links, so a slow link cannot be attributed to either; with three or more, only a slow
    host has no fast link.
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
    """Return a parsed round; raise ``ValueError`` when the output has no valid timings."""
    timings = value.get("timings")
    if not isinstance(timings, list):
        raise ValueError("no timings")
    named = tuple(Timing.model_validate({**dict(one), "host": host}) for one in timings)
    if any(len(timing.seconds) != 1 or not timing.seconds[0] > 0 for timing in named):
        raise ValueError("a time is not positive")
    return _Round(with_=str(value.get("with")), timings=named)


def _rank(
    targets: Sequence[Target], node: int, local: int, ranks: int, port: int, timeout_s: float
) -> Command:
    target, first = targets[node], targets[0].host
    rank = node * ranks + local
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(ranks * len(targets)),
        "MASTER_ADDR": first.address,
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    if (interface := target.host.interface) is not None:
        variables |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    options = {
        "device": target.devices[0],
        "sizes": SIZES,
        "repeats": _REPEATS,
        "timeout_s": max(1.0, timeout_s - 5),
    }
    return target.command("reduce", options, variables, rank if ranks > 1 else None)


def _failed(check: str, host: str, why: str, target: Target) -> CheckFinding:
    return CheckFinding(
        check=check,
        level=Level.FAILURE,
        hosts=(host,),
        found=f"the measurement failed: {why}",
        remedy=f"check that {target.interpreter.python} runs on this host",
    )


def _finding(quantity: Quantity, level: Level, hosts: tuple[str, ...], found: str) -> CheckFinding:
    return CheckFinding(check=quantity.value, level=level, hosts=hosts, found=found)
