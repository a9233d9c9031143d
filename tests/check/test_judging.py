"""Findings on what was seen of hosts. The GPUs, InfiniBand ports and host sets here are FAKES: measured nowhere."""

from typing import Any

import pytest

from trainmark.check.formatting import shared
from trainmark.check.network import peers_of
from trainmark.check.rules import Need, judge
from trainmark.check.snapshot import Busy, GpuLook, HostLook, InfinibandPort, Interface
from trainmark.node import LocalHost
from trainmark.schema.check import CheckFinding, Level
from trainmark.schema.manifest import Node

GIB = 1 << 30
HERE = LocalHost().facts(None, None, None)
ETH = Interface(name="eth0", addresses=("10.0.0.1",), up=True, mtu=9000, speed_mbit=100_000)


def look(**more: Any) -> HostLook:
    """Return a host with which nothing is wrong, but for what is said."""
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
    return HostLook.model_validate(fields | more)


def judged(
    need: Need | None = None, nodes: dict[str, Node] | None = None, **looks: HostLook
) -> list[CheckFinding]:
    names = {name: found.interfaces[0].name for name, found in looks.items() if found.interfaces}
    nodes = nodes or dict.fromkeys(looks, HERE)
    return list(judge(looks, nodes, names, need or Need()))


def wrong(findings: list[CheckFinding]) -> list[tuple[str, Level, tuple[str, ...]]]:
    """Return what is more than a note; what this machine is under its own quota is not asked here."""
    bad = (Level.WARNING, Level.FAILURE)
    return [(finding.check, finding.level, finding.hosts) for finding in findings if finding.level in bad]


def test_nothing_is_wrong_with_two_equal_hosts() -> None:
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
        ("gpu-free", Level.WARNING, {"gpus": (GpuLook(index=0, processes=(41, 42)),)}),
        ("gpu-memory", Level.WARNING, {"gpus": (GpuLook(index=0, ecc_errors=3, remapped=1),)}),
        ("gpu-memory", Level.WARNING, {"gpus": (GpuLook(index=0, remap_pending=True),)}),
        ("gpu-memory", Level.FAILURE, {"gpus": (GpuLook(index=0, remap_failed=True),)}),
        ("gpu-clocks", Level.WARNING, {"gpus": (GpuLook(index=0, slowdowns=("hw_thermal_slowdown",)),)}),
    ],
)
def test_what_is_wrong_with_one_of_three_hosts_is_said_of_that_one(
    check: str, level: Level, found: dict[str, Any]
) -> None:
    assert wrong(judged(a=look(), b=look(**found), c=look())) == [(check, level, ("b",))]


def test_a_finding_says_what_the_others_have_and_what_to_do() -> None:
    findings = judged(a=look(), b=look(trainmark="0.0.9"), c=look())
    (found,) = [finding for finding in findings if finding.level is Level.FAILURE]
    assert (found.found, found.others) == ("0.0.9", "2 hosts: 0.1.0")
    assert found.remedy == "install the same version of trainmark on all hosts"


def test_small_shared_memory_weighs_more_where_processes_meet_in_it() -> None:
    small = look(shm_total=64 << 20, shm_free=64 << 20)
    assert wrong(judged(a=small)) == []
    assert wrong(judged(Need(ranks=2), a=small)) == [("shared-memory", Level.WARNING, ("a",))]
    assert wrong(judged(Need(reads_data=True), a=small)) == [("shared-memory", Level.WARNING, ("a",))]


def test_the_memory_that_a_suite_allows_its_runs_is_what_it_needs() -> None:
    assert wrong(judged(Need(memory=8 * GIB), a=look(memory_available=4 * GIB))) == [
        ("memory", Level.WARNING, ("a",))
    ]
    assert wrong(judged(Need(ranks=8, memory=8 * GIB), a=look(memory_available=9 * GIB))) == []


def test_infiniband_ports_are_told_with_their_state_and_a_host_without_any_is_named() -> None:
    up = InfinibandPort(device="mlx5_0", port="1", state="4: ACTIVE", rate="200 Gb/sec (4X HDR)")
    down = up.model_copy(update={"state": "1: DOWN"})
    findings = judged(a=look(infiniband=(up,)), b=look(infiniband=(down,)), c=look())
    assert wrong(findings) == [
        ("infiniband", Level.WARNING, ("c",)),
        ("infiniband", Level.WARNING, ("b",)),
    ]
    locked = judged(a=look(infiniband=(up,), locked_memory=8 << 20))
    assert wrong(locked) == [("limits", Level.WARNING, ("a",))]


def test_where_as_many_have_the_one_as_the_other_the_first_host_is_followed() -> None:
    (found,) = shared("driver", {"a": "580.1", "b": "575.2"}, "install the same")
    assert (found.hosts, found.found, found.others) == (("b",), "575.2", "a: 580.1")


@pytest.mark.parametrize("count", [2, 4, 16, 17, 64, 128])
def test_every_host_connects_to_the_first_and_the_number_of_links_stays_bounded(count: int) -> None:
    for place in range(count):
        peers = peers_of(place, count)
        assert place not in peers
        assert place == 0 or 0 in peers
        assert len(set(peers)) == len(peers) <= 15
