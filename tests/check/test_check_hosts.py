"""`trainmark check` on real processes; a second host here is this machine under another name and address."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes import Bench
from frameworks import framework_python, needs_framework
from trainmark.check import CheckOptions, Timeouts, check_hosts
from trainmark.check.bandwidth import SpeedResults, Target, measure_devices, reduce_all
from trainmark.check.network import _from_usual_clock, _is_near, check_network
from trainmark.check.preflight_suite import _compare_data, _locate_data
from trainmark.check.snapshot import read_gpus, take_snapshot
from trainmark.cli.main import main
from trainmark.node import Host, LocalHost, RemoteHost, remedy_of
from trainmark.node.machine import Nvml
from trainmark.placement import FrameworkPython
from trainmark.schema.check import CheckFinding, CheckReport, ClockOffset, Level, Quantity
from trainmark.schema.hosts import EngineName, HostEntry, SshSettings
from trainmark.schema.precision import Precision

pytestmark = pytest.mark.process

SHORT = Timeouts(answer_s=3.0, framework_s=3.0)
"""For a host that never answers: it times out however soon other hosts answer."""


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time each device for a moment: no test asks how fast it is."""
    monkeypatch.setattr("trainmark.check.bandwidth._ROUND_S", 0.02)


def another_python(folder: Path, text: str) -> tuple[tuple[Path, Path], ...]:
    """Return the paths of a host whose Python is replaced by a shell script."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{text}\n")
    python.chmod(0o755)
    return ((Path(sys.executable), python),)


def checked(tmp_path: Path, *hosts: Host, timeouts: Timeouts | None = None, suite: Any = None) -> CheckReport:
    order = CheckOptions(
        hosts=hosts,
        home=tmp_path / "home",
        out=tmp_path / "out",
        suite=suite,
        timeouts=timeouts or Timeouts(),
        rounds=(2, 2),
    )
    return check_hosts(order)


def failures(report: CheckReport) -> list[CheckFinding]:
    return [finding for finding in report.findings if finding.level is Level.FAILURE]


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def test_two_hosts_are_inspected_connected_and_measured_and_nothing_is_left(bench: Bench) -> None:
    suite = bench.write({})
    before = children(), sorted(bench.folder.rglob("*"))
    report = checked(bench.folder, LocalHost("first"), LocalHost("second", "127.0.0.2"), suite=suite)
    assert failures(report) == []
    assert (children(), sorted(bench.folder.rglob("*"))) == before
    passed = {finding.check: finding for finding in report.findings if finding.level is Level.OK}
    assert passed["ports"].found.startswith("2 connections in both directions: ")
    assert passed["cases"].found == "all 1 cases of fakes can be started here"
    assert passed["trainmark"].hosts == ("first", "second")
    (clock,) = report.clocks
    assert (clock.host, clock.against) == ("second", "first")
    assert abs(clock.offset_s) <= clock.error_s + 1e-3, "both read one clock"
    devices = [timing for timing in report.timings if timing.device == "cpu"]
    assert sorted((timing.host, timing.quantity.value) for timing in devices) == [
        ("first", "matrix-product"),
        ("first", "memory-copy"),
        ("first", "one-core"),
        ("second", "matrix-product"),
        ("second", "memory-copy"),
        ("second", "one-core"),
    ]
    assert all(len(timing.seconds) == 2 for timing in devices)
    assert report.measured_with[0].startswith(("numpy", "torch"))


def test_a_probe_that_hangs_is_named_and_ended(tmp_path: Path) -> None:
    before = children()
    host = LocalHost("stuck", paths=another_python(tmp_path, "exec sleep 1000"))
    report = checked(tmp_path, host, timeouts=SHORT)
    (found,) = failures(report)
    assert (found.check, found.hosts) == ("reachable", ("stuck",))
    assert found.found == "the host cannot be inspected: no answer within 3 s"
    assert not report.fit
    assert children() == before


def test_a_check_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    started, scratch = tmp_path / "started", tmp_path / "scratch"
    scratch.mkdir()
    hangs = f"echo $$ > {started}.half; mv {started}.half {started}; exec sleep 1000"
    ((here, there),) = another_python(tmp_path, hangs)
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(f"hosts: [{{name: localhost, paths: {{{here}: {there}}}}}]\n")
    words = [sys.executable, "-m", "trainmark.cli.main", "check", "--hosts", str(hosts)]
    variables = {**os.environ, "TMPDIR": str(scratch), "TRAINMARK_HOME": str(tmp_path / "home")}
    with subprocess.Popen(words, env=variables, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not started.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert not psutil.pid_exists(int(started.read_text()))
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo hello", "its output has no result: hello"),
        ("echo 'TRAINMARK {\"half'", "its output has no result: TRAINMARK"),
        ("echo 'TRAINMARK 7'", "its output has no result"),
        ("echo 'TRAINMARK {\"trainmark\": 1}'", "its output cannot be parsed"),
        ("head -c 100000 /dev/urandom", "its output has no result"),
        ("echo No module named trainmark >&2; exit 1", "it exited with code 1: No module named trainmark"),
    ],
)
def test_a_probe_with_unexpected_output_is_a_finding(tmp_path: Path, text: str, reason: str) -> None:
    report = checked(tmp_path, LocalHost("odd", paths=another_python(tmp_path, text)))
    (found,) = failures(report)
    assert (found.check, found.hosts) == ("reachable", ("odd",))
    assert found.found.startswith(f"the host cannot be inspected: {reason}")


def test_an_unreachable_host_does_not_affect_the_others(tmp_path: Path) -> None:
    entry = HostEntry(name="nowhere", address="127.0.0.1", port=1)
    nowhere = RemoteHost(entry, EngineName.SSH, SshSettings())
    report = checked(tmp_path, LocalHost("here"), nowhere)
    (found,) = failures(report)
    assert found.hosts == ("nowhere",)
    assert found.found.startswith("the host cannot be inspected: no agent could be started on it")
    assert found.remedy == "start sshd there, or correct 'port' or 'address' in the hosts file"
    assert {timing.host for timing in report.timings} == {"here"}
    (note,) = [finding for finding in report.findings if finding.check == "network"]
    assert note.level is Level.NOTE
    assert note.found.startswith("not checked: ports, clocks, links and the all-reduce")


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        ("ssh ended with code 255: Host key verification failed.", "ssh-keygen -R HOST"),
        ("ssh ended with code 255: root@n1: Permission denied (publickey).", "without a password"),
        ("ssh ended with code 127: env: '/x/python': No such file or directory", "set 'python'"),
        (
            "(srun ended with code 2: slurmstepd-n1: error: execve(): /x: No such file or directory)",
            "--engine slurm",
        ),
        ("as it could not access or execute an executable: Executable: /x/python Node: n1", "set 'python'"),
        ("no temporary file can be written on it: is its disk full?", "free some space"),
        ("ssh ended with code 127: sh: 1: exec: /x/python: not found", "set 'python'"),
        ("ssh ended with code 126: sh: 1: exec: /x/python: Permission denied", "set 'python'"),
        ("no message from it for 35 s", "up and reachable"),
    ],
)
def test_a_host_that_cannot_be_inspected_has_the_remedy_of_its_reason(problem: str, remedy: str) -> None:
    assert remedy in remedy_of(problem)


def test_a_case_that_lacks_hosts_is_mended_by_the_hosts_that_cannot_be_inspected(tmp_path: Path) -> None:
    nowhere = RemoteHost(
        HostEntry(name="nowhere", address="127.0.0.1", port=1), EngineName.SSH, SshSettings()
    )
    suite = Bench(tmp_path).write({"nodes": 2})
    report = checked(tmp_path, LocalHost("here"), nowhere, suite=suite)
    (found,) = [finding for finding in failures(report) if finding.check == "cases"]
    assert (found.remedy or "").startswith("first mend nowhere, which cannot be inspected")


@pytest.mark.parametrize(("repeats", "level"), [(2, Level.WARNING), (3, None)])
def test_a_requirement_that_no_campaign_can_decide_is_a_warning(
    tmp_path: Path, repeats: int, level: Level | None
) -> None:
    """It was undecided when the campaign had ended."""
    protocol = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": repeats}
    suite = Bench(tmp_path).write({}, protocol=protocol, require=[{"throughput": "1 images/s"}])
    found = [
        one for one in checked(tmp_path, LocalHost("here"), suite=suite).findings if one.check == "require"
    ]
    assert [one.level for one in found] == ([] if level is None else [level])
    assert all("needs 3 runs of a case" in one.found for one in found)


def test_extra_rounds_end_when_they_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.check.bandwidth.MOST_EXTRA_S", 0.0)
    monkeypatch.setattr("trainmark.check.bandwidth.is_clear", lambda _timings: False)
    python = FrameworkPython(Path(sys.executable), False)
    targets = [Target(LocalHost(name), take_snapshot(()), python, ("cpu",)) for name in ("one", "two")]
    speeds, messages = SpeedResults(), list[str]()
    measure_devices(targets, (Precision.FP32,), (1, 20), 60.0, messages.append, speeds)
    assert messages == ["measuring, round 1 of 1"]


def offsets(**ahead_s: float) -> list[ClockOffset]:
    return [ClockOffset(host=host, against="a", offset_s=s, error_s=0.001) for host, s in ahead_s.items()]


@pytest.mark.parametrize(
    ("clocks", "wrong"),
    [
        (offsets(b=-90.0, c=-90.01, d=-89.99), {"a": "ahead of"}),  # the first host itself
        (offsets(b=0.0, c=90.0, d=0.01), {"c": "ahead of"}),
        (offsets(b=-90.0), {"b": "behind"}),  # of two hosts, either may be wrong
    ],
)
def test_the_host_whose_clock_differs_from_most_is_named(
    clocks: list[ClockOffset], wrong: dict[str, str]
) -> None:
    found = {one.host: one.offset_s for one in _from_usual_clock(clocks) if not _is_near(one)}
    assert {host: "ahead of" if s > 0 else "behind" for host, s in found.items()} == wrong


def test_a_missing_environment_is_a_finding_with_the_command_that_creates_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    suite = bench.write({"framework": "pytorch"}, card={"framework": "pytorch"}, environment="pytorch")
    report = checked(tmp_path, LocalHost(), suite=suite)
    found = [finding for finding in failures(report) if finding.check == "environment"]
    assert [finding.found for finding in found] == [
        "environment 'pytorch' is not created yet (trainmark env create pytorch)"
    ]
    assert not [finding for finding in report.findings if finding.check == "cases"]
    assert report.timings == ()


def test_a_data_set_that_differs_on_a_host_is_reported_with_a_file(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "a").write_text("same")
    (one / "b").write_text("these")
    (other / "b").write_text("those")
    hosts = (LocalHost("first"), LocalHost("second", paths=((one, other),)))
    first, rest = sorted(_compare_data("data set 'x'", one, hosts), key=lambda finding: finding.level)
    assert (first.level, first.hosts) == (Level.FAILURE, ("second",))
    assert first.found == "data set 'x' differs in 1 of 2 files: b"
    assert (rest.level, rest.hosts) == (Level.OK, ("first",))


def test_a_host_without_its_address_cannot_listen_and_is_reported() -> None:
    network = check_network((LocalHost("first"), LocalHost("second", "203.0.113.9")), 30.0)
    found = [finding for finding in network.findings if finding.level is Level.FAILURE]
    assert [(finding.check, finding.hosts) for finding in found] == [("ports", ("second",))]
    assert found[0].found.startswith("cannot listen on 203.0.113.9 port ")


def test_a_blocked_direction_is_reported_with_both_hosts() -> None:
    class Deaf(LocalHost):
        """A host that listens on one address and gives its peers another, where connections are refused."""

        def __init__(self) -> None:
            super().__init__("deaf", "127.0.0.3")
            self.reads = 0

        @property
        def address(self) -> str:
            self.reads += 1
            return "127.0.0.3" if self.reads == 1 else "127.0.0.4"

        @address.setter
        def address(self, _value: str) -> None: ...

    network = check_network((LocalHost("first"), Deaf()), 30.0)
    found = [finding for finding in network.findings if finding.level is Level.FAILURE]
    assert [finding.hosts for finding in found] == [("first",)]
    assert found[0].found.startswith("no connection to deaf at port ")
    assert found[0].found.endswith(": Connection refused")


def test_an_environment_that_measures_nothing_is_reported() -> None:
    target = Target(LocalHost(), take_snapshot(()), FrameworkPython(Path("/bin/false"), False), ("cpu",))
    speeds = SpeedResults()
    measure_devices([target], (Precision.FP32,), (1, 1), 30.0, lambda _text: None, speeds)
    (found,) = speeds.findings
    assert (found.check, found.level) == ("speed", Level.FAILURE)
    assert found.found == "the measurement failed: it exited with code 1"


@pytest.mark.training
@needs_framework("pytorch")
def test_a_product_is_timed_in_each_precision_of_the_suite() -> None:
    python = FrameworkPython(Path(framework_python("pytorch")), True)
    target = Target(LocalHost(), take_snapshot(()), python, ("cpu",))
    speeds = SpeedResults()
    both = (Precision.FP32, Precision.BF16)
    measure_devices([target], both, (1, 1), 120.0, lambda _text: None, speeds)
    products = [one.precision for one in speeds.timings if one.quantity is Quantity.MATRIX_PRODUCT]
    assert (products, speeds.findings) == (list(both), [])


@pytest.mark.training
@needs_framework("pytorch")
def test_ranks_of_two_hosts_share_an_all_reduce() -> None:
    python = FrameworkPython(Path(framework_python("pytorch")), True)
    snapshot = take_snapshot(())
    hosts = (LocalHost("first"), LocalHost("second"))
    targets = [Target(host, snapshot, python, ("cpu",)) for host in hosts]
    speeds = SpeedResults(measured_with=dict.fromkeys(("first", "second"), "torch"))
    reduce_all(targets, 1, 120.0, speeds)
    assert [finding.level for finding in speeds.findings] == [Level.OK]
    assert [(one.ranks, one.backend, one.size) for one in speeds.reductions] == [
        (2, "gloo", size) for size in (4096, 1 << 20, 25 << 20, 100 << 20)
    ]


def test_nvml_values_of_a_gpu_are_read_and_an_old_driver_leaves_gaps() -> None:
    """A FAKE driver: its values are invented."""

    class Error(Exception):
        pass

    class Driver:
        NVMLError = Error
        NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0

        def nvmlDeviceGetCount(self) -> int:
            return 1

        def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
            return index

        def nvmlDeviceGetRemappedRows(self, handle: int) -> tuple[int, int, int, int]:
            return (0, 2, 1, 0)

        def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:
            return 4

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
            return 0x40 | 0x4

        def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
            raise Error

    (gpu,) = read_gpus(Nvml(Driver()))
    assert (gpu.ecc_errors, gpu.remapped, gpu.remap_pending, gpu.remap_failed) == (4, 2, True, False)
    assert gpu.slowdowns == ("hw_thermal_slowdown",)
    assert (gpu.temperature_c, gpu.persistence, gpu.processes) == (None, None, ())


def test_governors_and_turbo_are_read_where_the_kernel_shows_them(tmp_path: Path) -> None:
    for number, governor in enumerate(("powersave", "performance")):
        folder = tmp_path / f"devices/system/cpu/cpu{number}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{governor}\n")
        (folder / "cpuinfo_max_freq").write_text("3500000\n")
    (tmp_path / "devices/system/cpu/intel_pstate").mkdir()
    (tmp_path / "devices/system/cpu/intel_pstate/no_turbo").write_text("1\n")
    port = tmp_path / "class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    snapshot = take_snapshot((), sys_=tmp_path)
    assert snapshot.governors == ("performance", "powersave")
    assert (snapshot.turbo, snapshot.max_mhz) == (False, 3500.0)
    assert [(one.device, one.port, one.state, one.rate) for one in snapshot.infiniband] == [
        ("mlx5_0", "1", "4: ACTIVE", None)
    ]


def test_the_command_prints_json_stores_it_and_the_report_shows_it(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_HOME", str(bench.folder / "home"))
    bench.write({})
    assert main(["check", str(bench.suite), "--out", str(bench.out), "--json"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["suite"] == "fakes"
    assert (bench.out / "check.json").read_text() == printed
    bench.run()
    assert main(["report", str(bench.out), "--to", "md"]) == 0
    page = capsys.readouterr().out
    assert "## Pre-flight check of the hosts" in page
    assert "all 1 cases of fakes can be started here" in page
    (bench.out / "check.json").write_text("{")
    assert main(["report", str(bench.out), "--to", "md", "--lang", "zh"]) == 0
    assert "check.json 无法读取" in capsys.readouterr().out


def test_a_suite_that_cannot_start_is_not_fit_and_an_invalid_suite_is_a_usage_error(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_HOME", str(bench.folder / "home"))
    bench.write({"nodes": 2, "devices_per_node": 1}, card={"launcher": "torchrun"})
    assert main(["check", str(bench.suite)]) == 1
    output = capsys.readouterr().out
    assert output.startswith("failure  localhost  cases ")
    assert "1 of 1 cases of fakes cannot be started: 2 nodes are required" in output
    assert "this host is not ready for fakes: 1 failure" in output
    assert main(["check", str(bench.folder / "none.yaml")]) == 2
    assert main(["check", "--only", "model=good"]) == 2
    assert main(["check", "--hosts", str(bench.folder / "nobody.yaml")]) == 2


def test_a_missing_data_set_is_sent_or_made_by_the_run_or_reported(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    lacks = LocalHost("lacks", paths=((folder, tmp_path / "nothing"),))
    hosts = (LocalHost("has"), lacks)
    (made,) = _locate_data("it", folder, hosts, makes=True)
    assert (made.level, made.found) == (Level.NOTE, f"it is missing: the run will make it in {folder}")
    (missed,) = _locate_data("it", folder, hosts, makes=False)
    assert (missed.level, missed.hosts) == (Level.FAILURE, ("has", "lacks"))
    folder.mkdir()
    (folder / "a").write_bytes(b"x" * 2048)
    sent, there = _locate_data("it", folder, hosts, makes=False)
    assert (sent.level, sent.hosts) == (Level.NOTE, ("lacks",))
    assert sent.found == "it is missing: the run will send it (2 KiB)"
    assert (there.level, there.hosts) == (Level.OK, ("has",))


def test_hosts_with_different_devices_skip_the_all_reduce() -> None:
    python, snapshot = FrameworkPython(Path(sys.executable), False), take_snapshot(())
    targets = [
        Target(LocalHost("one"), snapshot, python, ("cuda:0",)),
        Target(LocalHost("other"), snapshot, python, ("cpu",)),
    ]
    speeds = SpeedResults(measured_with=dict.fromkeys(("one", "other"), "torch"))
    reduce_all(targets, 1, 60.0, speeds)
    assert [(one.level, one.found) for one in speeds.findings] == [
        (Level.NOTE, "not measured: the hosts have different devices")
    ]
