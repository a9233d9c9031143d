"""One campaign a machine: another one on it, and a second name for it, are told by name."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import agent_host, hosts_file, stand_in
from fakes import Bench
from trainmark.campaign import reserve_hosts
from trainmark.errors import InputError
from trainmark.node import RemoteHost
from trainmark.node.reserving import VARIABLE

pytestmark = pytest.mark.process


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[RemoteHost, RemoteHost]]:
    """Return two hosts on machines of their own, which other tests do not share."""
    stand_in(tmp_path, monkeypatch)
    hosts = tuple(
        agent_host(name, tmp_path / name, variables={VARIABLE: f"{tmp_path} {name}"}) for name in ("a", "b")
    )
    yield hosts[0], hosts[1]
    for host in hosts:
        host.close()


def another(tmp_path: Path, name: str, machine: str) -> RemoteHost:
    return agent_host(name, tmp_path / name, variables={VARIABLE: f"{tmp_path} {machine}"})


def test_another_campaign_on_a_host_is_reported_by_name_and_refused(
    two: tuple[RemoteHost, RemoteHost], tmp_path: Path
) -> None:
    reported: list[str] = []
    reserve_hosts(two, "first", reported.append)
    assert reported == []
    late = another(tmp_path, "b", "b")
    try:
        with pytest.raises(InputError, match=r"b: in use by another campaign \(suite first, process \d+ on"):
            reserve_hosts([late], "second", reported.append, patience_s=0)
    finally:
        late.close()
    assert reported == []


def test_a_host_is_free_when_its_campaign_has_let_it_go(
    two: tuple[RemoteHost, RemoteHost], tmp_path: Path
) -> None:
    reserve_hosts(two, "first", print)
    late, reported = another(tmp_path, "b", "b"), list[str]()

    def let_go(text: str) -> None:
        reported.append(text)
        two[1].close()

    try:
        reserve_hosts([late], "second", let_go, patience_s=100)
    finally:
        late.close()
    assert "suite first" in reported[0]


def test_two_names_for_one_machine_are_refused(two: tuple[RemoteHost, RemoteHost], tmp_path: Path) -> None:
    alias = another(tmp_path, "alias", "b")
    try:
        with pytest.raises(InputError, match="are the same machine under two names") as refused:
            reserve_hosts([*two, alias], "suite", print)
    finally:
        alias.close()
    assert {"b", "alias"} <= set(str(refused.value).split())


def test_a_host_that_is_lost_and_reached_again_is_still_held(
    two: tuple[RemoteHost, RemoteHost], tmp_path: Path
) -> None:
    reserve_hosts(two, "first", print)
    two[1].close()
    assert two[1].unreachable() is None
    late = another(tmp_path, "b", "b")
    try:
        with pytest.raises(InputError, match="suite first"):
            reserve_hosts([late], "second", print, patience_s=0)
    finally:
        late.close()


def test_a_host_of_a_long_name_that_is_reached_again_is_not_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    name = f"node-1.{'rack-' * 14}.org"
    old, new = (agent_host(name, variables={VARIABLE: str(tmp_path)}) for _ in range(2))
    try:
        reserve_hosts([old], "first", print)
        assert old._reserved_by is not None
        # Both agents are the campaign's: the old one is lost, and has not ended yet.
        assert new.reserve(old._reserved_by) is None
    finally:
        old.close()
        new.close()


def test_a_new_agent_holds_the_host_once_the_lost_one_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    old, new, late = (agent_host("a", variables={VARIABLE: str(tmp_path)}) for _ in range(3))
    try:
        reserve_hosts([old], "first", print)
        by = str(old._reserved_by)
        assert new.reserve(by) is None
        old.close()
        deadline = time.monotonic() + 60
        while by.partition(" ")[0] not in Path("/proc/net/unix").read_text():
            assert time.monotonic() < deadline, "nobody holds it"
            time.sleep(0.02)
        assert (late.reserve("another suite") or "").startswith(by.partition(" ")[0])
    finally:
        for host in (old, new, late):
            host.close()


def test_a_suite_on_two_names_of_one_machine_does_not_begin(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    bench.write({"nodes": 1})
    file = hosts_file(tmp_path / "hosts.yaml", "a", "b", folder=tmp_path / "disks")
    file.write_text(file.read_text() + f"variables: {{{VARIABLE}: {tmp_path}}}\n")
    words = [sys.executable, "-m", "trainmark.cli.main", *bench.words("--hosts", str(file))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "are the same machine under two names" in done.stderr
    assert not bench.out.exists()
