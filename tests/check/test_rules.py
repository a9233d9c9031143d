"""Findings on host snapshots. The GPUs, InfiniBand ports and host sets here are FAKES with invented values."""

from typing import Any

import pytest

from trainmark.check.formatting import compare_values
from trainmark.check.network import peers_of
from trainmark.check.rules import Requirements, check_rules
from trainmark.check.snapshot import Busy, GpuSnapshot, HostSnapshot, InfinibandPort, Interface
from trainmark.node import LocalHost
from trainmark.schema.check import CheckFinding, Level
from trainmark.schema.manifest import Node

GIB = 1 << 30
HERE = LocalHost().facts(None, None, None)
ETH = Interface(name="eth0", addresses=("10.0.0.1",), up=True, mtu=9000, speed_mbit=100_000)


def look(**more: Any) -> HostSnapshot:
    """Return the snapshot of a healthy host, with some values replaced."""
    fields: dict[str, Any] = {
        "trainmark": "0.1.0",
        "boot_id": None,
        "allowed_cores": 8,
        "load_1min": 0.1,
        "busy": (),
        "governors": ("performance",),
        "turbo": True,
        "mhz": 3000.0,
        "max_mhz": 3500.0,
        "memory_available": 60 * GIB,
        "memory_total": 64 * GIB,
        "shm_total": 32 * GIB,
        "shm_free": 32 * GIB,
        "disks": {"/results": 100 * GIB},
        "open_files": 65536,
        "locked_memory": -1,
        "interfaces": (ETH,),
        "infiniband": (),
        "gpus": (),
    }
    return HostSnapshot.model_validate(fields | more)


def judged(
    need: Requirements | None = None, nodes: dict[str, Node] | None = None, **snapshots: HostSnapshot
) -> list[CheckFinding]:
    names = {name: found.interfaces[0].name for name, found in snapshots.items() if found.interfaces}
    nodes = nodes or dict.fromkeys(snapshots, HERE)
    return list(check_rules(snapshots, nodes, names, need or Requirements()))


def wrong(findings: list[CheckFinding]) -> list[tuple[str, Level, tuple[str, ...]]]:
    """Return the findings above a note."""
    bad = (Level.WARNING, Level.FAILURE)
    return [(finding.check, finding.level, finding.hosts) for finding in findings if finding.level in bad]


def test_two_equal_hosts_have_no_warning() -> None:
    assert wrong(judged(a=look(), b=look())) == []


@pytest.mark.parametrize(
    ("check", "level", "found"),
    [
        ("trainmark", Level.FAILURE, {"trainmark": "0.0.9"}),
        ("cores", Level.WARNING, {"busy": (Busy(pid=7, name="burn", cores=3.5),)}),
        ("cores", Level.WARNING, {"load_1min": 12.0}),
        ("governor", Level.WARNING, {"governors": ("performance", "powersave")}),
        ("turbo", Level.WARNING, {"turbo": False}),
        ("frequency", Level.WARNING, {"max_mhz": 2100.0}),
        ("memory", Level.WARNING, {"memory_available": GIB}),
        ("disk", Level.WARNING, {"disks": {"/results": GIB}}),
        ("disk", Level.FAILURE, {"disks": {"/results": 1024}}),
        ("disk", Level.WARNING, {"disks": {"/results": None}}),
        ("limits", Level.WARNING, {"open_files": 256}),
        ("interface", Level.FAILURE, {"interfaces": (ETH.model_copy(update={"up": False}),)}),
        ("mtu", Level.WARNING, {"interfaces": (ETH.model_copy(update={"mtu": 1500}),)}),
        ("link-speed", Level.WARNING, {"interfaces": (ETH.model_copy(update={"speed_mbit": 1000}),)}),
        ("gpu-free", Level.WARNING, {"gpus": (GpuSnapshot(index=0, processes=(41, 42)),)}),
        ("gpu-memory", Level.WARNING, {"gpus": (GpuSnapshot(index=0, ecc_errors=3, remapped=1),)}),
        ("gpu-memory", Level.WARNING, {"gpus": (GpuSnapshot(index=0, remap_pending=True),)}),
        ("gpu-memory", Level.FAILURE, {"gpus": (GpuSnapshot(index=0, remap_failed=True),)}),
        ("gpu-clocks", Level.WARNING, {"gpus": (GpuSnapshot(index=0, slowdowns=("hw_thermal_slowdown",)),)}),
    ],
)
def test_a_problem_of_one_of_three_hosts_is_reported_for_that_host(
    check: str, level: Level, found: dict[str, Any]
) -> None:
    assert wrong(judged(a=look(), b=look(**found), c=look())) == [(check, level, ("b",))]


def test_a_finding_reports_the_value_of_the_others_and_a_remedy() -> None:
    findings = judged(a=look(), b=look(trainmark="0.0.9"), c=look())
    (found,) = [finding for finding in findings if finding.level is Level.FAILURE]
    assert (found.found, found.others) == ("0.0.9", "2 hosts: 0.1.0")
    assert found.remedy == "install the same version of trainmark on all hosts"


def test_small_shared_memory_is_a_warning_if_processes_use_it() -> None:
    small = look(shm_total=64 << 20, shm_free=64 << 20)
    assert wrong(judged(a=small)) == []
    assert wrong(judged(Requirements(ranks=2), a=small)) == [("shared-memory", Level.WARNING, ("a",))]
    assert wrong(judged(Requirements(reads_data=True), a=small)) == [("shared-memory", Level.WARNING, ("a",))]


def test_the_memory_limit_of_a_suite_is_its_requirement() -> None:
    assert wrong(judged(Requirements(memory=8 * GIB), a=look(memory_available=4 * GIB))) == [
        ("memory", Level.WARNING, ("a",))
    ]
    assert wrong(judged(Requirements(ranks=8, memory=8 * GIB), a=look(memory_available=9 * GIB))) == []


def test_infiniband_ports_are_reported_with_their_state_and_so_is_a_host_without_any() -> None:
    up = InfinibandPort(device="mlx5_0", port="1", state="4: ACTIVE", rate="200 Gb/sec (4X HDR)")
    down = up.model_copy(update={"state": "1: DOWN"})
    findings = judged(a=look(infiniband=(up,)), b=look(infiniband=(down,)), c=look())
    assert wrong(findings) == [
        ("infiniband", Level.WARNING, ("c",)),
        ("infiniband", Level.WARNING, ("b",)),
    ]
    locked = judged(a=look(infiniband=(up,), locked_memory=8 << 20))
    assert wrong(locked) == [("limits", Level.WARNING, ("a",))]


def test_on_a_tie_the_value_of_the_first_host_counts() -> None:
    (found,) = compare_values("driver", {"a": "580.1", "b": "575.2"}, "install the same")
    assert (found.hosts, found.found, found.others) == (("b",), "575.2", "a: 580.1")


@pytest.mark.parametrize("count", [2, 4, 16, 17, 64, 128])
def test_every_host_connects_to_the_first_and_the_number_of_links_stays_bounded(count: int) -> None:
    for place in range(count):
        peers = peers_of(place, count)
        assert place not in peers
        assert place == 0 or 0 in peers
        assert len(set(peers)) == len(peers) <= 15
