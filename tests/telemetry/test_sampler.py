"""Sampling beside a run, and reading it back."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainmark.errors import InputError
from trainmark.node.processes import read_node
from trainmark.node.telemetry import Clock, Sampler, Telemetry, to_line
from trainmark.node.telemetry_summary import read_telemetry, summarise
from trainmark.schema.telemetry import CpuSample, GpuName, GpuSample, Header, MemorySample, Sample


def gpu(**facts: object) -> GpuSample:
    whole: dict[str, object] = {
        "index": 0,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_w": 600.0,
        "temperature_c": 60,
        "utilisation": 1.0,
        "memory_used_bytes": 100,
        "clock_reasons": (),
        "foreign_pids": (),
        "unseen_processes": 0,
    }
    return GpuSample(**{**whole, **facts})  # type: ignore[arg-type]


def sample(
    at_s: float, share: float | None = 0.5, interval_s: float = 1.0, gpus: tuple[GpuSample, ...] = ()
) -> Sample:
    cpu = CpuSample(share, share, 0.0 if share is not None else None, share)
    return Sample(77 + at_s, at_s, interval_s, 1, cpu, MemorySample(int(at_s), None, 1000 - int(at_s)), gpus)


def write(path: Path, *samples: Sample) -> Path:
    header = Header(1, 1, 1.0, 2, (GpuName(0, "GPU-0", "a"),))
    path.write_bytes(b"".join([to_line(header), *(to_line(each) for each in samples)]))
    return path


def _used_cpu_share_seconds(path: Path) -> float:
    """Return how long the run has had all processors, as far as the file tells by now."""
    samples = read_telemetry(path).samples if path.exists() else ()
    return sum((each.cpu.tree or 0) * each.interval_s for each in samples)


BUSY = """
import sys
print("ready", flush=True)
while not sys.stdin.closed:
    sum(range(100_000))
"""


def test_a_busy_run_is_sampled_with_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with Telemetry(path, process.pid, interval_s=0.05) as telemetry:
            end = time.monotonic() + 300
            while _used_cpu_share_seconds(path) < 0.1 and time.monotonic() < end:
                time.sleep(0.02)
        assert telemetry.problem is None
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    recording = read_telemetry(path)
    assert recording.header is not None
    assert recording.header.pid == process.pid
    assert recording.unreadable_lines == 0
    summary = summarise(path)
    assert summary.cpu_tree_mean is not None
    assert summary.cpu_busy_mean is not None
    assert 0 < summary.cpu_tree_mean <= 1
    assert summary.tree_rss_bytes_max is not None
    assert summary.tree_rss_bytes_max > 2**20


def test_load_on_cpus_outside_the_affinity_mask_does_not_count(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    (tmp_path / "stat").write_text(
        "cpu  300 0 0 100 0 0 0 0 0 0\ncpu0 100 0 0 0 0 0 0 0 0 0\ncpu1 100 0 0 0 0 0 0 0 0 0\n"
        "cpu12 100 0 0 100 0 0 0 0 0 0\nintr 5\n"
    )
    (tmp_path / "meminfo").write_text("MemAvailable: 5 kB\n")
    node, part = read_node(tmp_path), read_node(tmp_path, {1, 12})
    assert (node.busy_s * ticks, node.total_s * ticks) == (300, 400)
    assert (part.busy_s * ticks, part.total_s * ticks) == (200, 300)


def test_shares_are_of_the_sampling_interval_and_exclude_the_own_process(tmp_path: Path) -> None:
    def proc(busy: int, idle: int, tree: int) -> None:
        (tmp_path / "7").mkdir(exist_ok=True)
        (tmp_path / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 0\n")
        (tmp_path / "meminfo").write_text("MemTotal: 10 kB\nMemAvailable: 5 kB\n")
        (tmp_path / "7/stat").write_text(f"7 (a) S 1 7 7 0 -1 0 0 0 0 0 {tree} 0 0 0 20 0 1 0 9 4096 3 0")

    ticks = os.sysconf("SC_CLK_TCK")
    moments = iter([10.0, 12.0])
    own = iter([0.0, 0.4])
    clock = Clock(monotonic=lambda: next(moments), wall=lambda: 1.0, own_cpu=lambda: next(own))
    sampler = Sampler(7, None, clock, tmp_path)
    proc(busy=0, idle=0, tree=0)
    first = sampler.take()
    assert first.cpu == CpuSample(None, None, None, None)
    assert first.interval_s == 0
    # Two CPUs for two seconds: 4 s of capacity, of which 3 were busy, 2 of them the run's and 0.4 our own.
    proc(busy=3 * ticks, idle=1 * ticks, tree=2 * ticks)
    second = sampler.take()
    assert second.cpu == CpuSample(busy=0.75, tree=0.5, own=0.1, other=0.15)
    assert (second.interval_s, second.memory.available_bytes) == (2.0, 5 * 1024)


def test_a_disk_that_cannot_be_written_ends_the_sampling_and_not_the_run() -> None:
    with Telemetry(Path("/dev/full"), os.getpid(), interval_s=0.01) as telemetry:
        pass
    assert telemetry.problem is not None
    assert "No space left" in telemetry.problem


def test_a_run_that_ends_within_an_interval_still_has_two_samples(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    with Telemetry(path, os.getpid(), interval_s=3600):
        pass
    assert len(read_telemetry(path).samples) == 2


def test_a_gpu_at_its_power_limit_is_not_throttled(tmp_path: Path) -> None:
    at_limit = gpu(clock_reasons=("sw_power_cap",))
    summary = summarise(write(tmp_path / "t.jsonl", sample(0, None), sample(1, 0.5, gpus=(at_limit,))))
    assert (summary.gpus[0].throttled_share, summary.gpus[0].reason_shares) == (0.0, {"sw_power_cap": 1.0})


def test_a_summary_covers_only_the_window(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.jsonl",
        sample(0, None, 0.0),
        sample(10, 0.2, gpus=(gpu(clock_reasons=("gpu_idle",), foreign_pids=(9,)),)),
        sample(
            20,
            0.5,
            1.0,
            (gpu(clock_reasons=("sw_power_cap", "hw_thermal_slowdown"), sm_clock_mhz=1500, power_w=700.0),),
        ),
        sample(30, 0.8, 3.0, (gpu(clock_reasons=None, foreign_pids=(4,), temperature_c=None),)),
        sample(40, 1.0),
    )
    whole, window = summarise(path), summarise(path, (15, 35))
    assert (whole.samples, window.samples) == (5, 2)
    assert window.cpu_busy_mean == pytest.approx((0.5 * 1 + 0.8 * 3) / 4)
    assert window.cpu_other_max == 0.8
    assert (window.tree_rss_bytes_max, window.available_bytes_min, window.tree_pss_bytes_max) == (
        30,
        970,
        None,
    )
    one = window.gpus[0]
    assert (one.uuid, one.sm_clock_mhz_min, one.power_w_mean, one.temperature_c_max) == (
        "GPU-0",
        1500,
        650.0,
        60,
    )
    # Only one of the two samples knows its clock reasons.
    assert (one.throttled_share, one.reason_shares) == (
        1.0,
        {"hw_thermal_slowdown": 1.0, "sw_power_cap": 1.0},
    )
    assert one.foreign_pids == (4,)
    assert whole.gpus[0].throttled_share == 0.5
    assert whole.gpus[0].foreign_pids == (4, 9)


def test_a_window_without_a_sample_has_no_figures(tmp_path: Path) -> None:
    summary = summarise(write(tmp_path / "t.jsonl", sample(1)), (5, 6))
    assert (summary.samples, summary.cpu_busy_mean, summary.tree_rss_bytes_max, summary.gpus) == (
        0,
        None,
        None,
        (),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(min_value=0))
def test_a_file_cut_at_any_byte_is_read_up_to_the_cut(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "t.jsonl", sample(1, gpus=(gpu(),)), sample(2, gpus=(gpu(),)), sample(3))
    whole = path.read_bytes()
    path.write_bytes(whole[: cut % (len(whole) + 1)])
    recording = read_telemetry(path)
    assert [each.wall_s for each in recording.samples] == [1.0, 2.0, 3.0][: len(recording.samples)]
    assert recording.unreadable_lines <= 1
    assert summarise(path).samples == len(recording.samples)


def test_another_schema_version_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "schema_version": 2}) + "\n")
    with pytest.raises(InputError, match="schema version 2"):
        read_telemetry(path)
