"""Short windows: samples at 10 Hz, and shares by counters between the two ends of a window."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainmark.node.processes import find_quota_counter
from trainmark.node.telemetry import Pacing, Telemetry, to_line
from trainmark.node.telemetry_summary import summarise
from trainmark.schema.telemetry import (
    CpuCounters,
    CpuSample,
    GpuName,
    GpuSample,
    Header,
    MemorySample,
    Sample,
)

HOG = "import time\nprint('ready', flush=True)\nwhile True: pass"


def counted(at_s: float, busy_s: float, tree_s: float = 0.0, gpus: tuple[GpuSample, ...] = ()) -> Sample:
    """Return a sample of two CPUs at ``at_s``, with counters."""
    return Sample(
        at_s, at_s, 0.1 if at_s else 0.0, 1, CpuSample(None, None, None, None), MemorySample(1, None, 1), gpus,
        CpuCounters(busy_s, 2 * at_s, tree_s, 0.0),
    )  # fmt: skip


def write(path: Path, *samples: Sample) -> Path:
    header = Header(1, 1, 0.1, 2, (GpuName(0, "GPU-0", "a"),))
    path.write_bytes(b"".join([to_line(header), *(to_line(each) for each in samples)]))
    return path


def gpu(energy_j: float, thermal_s: float) -> GpuSample:
    return GpuSample(0, 1980, None, None, None, None, None, (), None, None, energy_j, {"thermal": thermal_s})


def test_a_hog_on_one_core_is_found_in_a_window_of_half_a_second(tmp_path: Path) -> None:
    """Run a hog on one CPU next to a sleeping run, and read what the two ends of a short window say about it."""
    path, cpu = tmp_path / "telemetry.jsonl", min(os.sched_getaffinity(0))
    allowed = os.sched_getaffinity(0)
    run = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    hog = subprocess.Popen([sys.executable, "-c", HOG], stdout=subprocess.PIPE)
    try:
        os.sched_setaffinity(hog.pid, {cpu})
        os.sched_setaffinity(0, {cpu})  # The CPUs of the run, as in a container: other tests use the rest.
        assert hog.stdout is not None
        hog.stdout.readline()
        with Telemetry(path, run.pid):
            time.sleep(0.2)
            begin = time.time()
            time.sleep(0.5)
            end = time.time()
            time.sleep(0.2)
    finally:
        os.sched_setaffinity(0, allowed)
        for process in (run, hog):
            process.kill()
            process.wait()
        if hog.stdout is not None:
            hog.stdout.close()
    found = summarise(path, (begin, end))
    assert found.samples >= 2, "a window of half a second had no sample when one was taken each second"
    assert found.covered_s == pytest.approx(end - begin)
    assert found.cpu_other_mean is not None
    assert found.cpu_other_mean > 0.5


def test_shares_are_those_between_the_ends_of_the_window(tmp_path: Path) -> None:
    """Read a window that begins and ends between two samples: what happens outside of it does not count."""
    busy = [counted(at / 10, 0.2 * max(0, at - 10), 0.1 * max(0, at - 10)) for at in range(21)]
    path = write(tmp_path / "t.jsonl", *busy)
    quiet = summarise(path, (0.25, 0.95))
    assert (quiet.cpu_busy_mean, quiet.cpu_other_mean, quiet.cpu_tree_s) == (0, 0, 0)
    full = summarise(path, (1.05, 1.55))
    assert (full.cpu_busy_mean, full.cpu_tree_mean, full.cpu_other_mean) == (1.0, 0.5, 0.5)
    assert full.cpu_tree_s == pytest.approx(0.5)
    half = summarise(path, (0.9, 1.1))
    assert half.cpu_busy_mean == pytest.approx(0.5)
    assert half.window_s == pytest.approx(0.2)
    assert half.covered_s == pytest.approx(0.2)
    assert half.period_s == pytest.approx(0.1)


def test_a_sampler_that_ended_within_the_window_covers_only_a_part(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", *(counted(at / 10, 0.0) for at in range(11)))
    found = summarise(path, (0.5, 3.0))
    assert found.window_s == 2.5
    assert found.covered_s == pytest.approx(0.5)
    assert summarise(path, (2.0, 3.0)).covered_s is None


def test_the_highest_share_is_that_of_a_second(tmp_path: Path) -> None:
    samples = [counted(at / 10, min(0.2 * max(0, at - 10), 2.0)) for at in range(41)]
    found = summarise(write(tmp_path / "t.jsonl", *samples), (0.0, 4.0))
    assert (found.cpu_other_mean, found.cpu_other_max) == (0.25, 1.0)


def test_gpu_counters_show_what_happened_between_two_samples(tmp_path: Path) -> None:
    """Read a throttling that no sample's clock reasons show: the counter of the violation time does."""
    samples = [counted(at / 10, 0.0, gpus=(gpu(70.0 * at, 0.05 * max(0, at - 5)),)) for at in range(11)]
    (found,) = summarise(write(tmp_path / "t.jsonl", *samples), (0.5, 1.0)).gpus
    assert found.reason_shares == {}
    assert found.energy_j == pytest.approx(350)
    assert found.violation_shares == {"thermal": 0.5}
    assert found.samples == 6


def test_a_long_run_is_sampled_less_often() -> None:
    pacing = Pacing(0.1)
    assert [pacing.interval_after(at) for at in (0.0, 60.0, 300.0, 1000.0, 9000.0)] == [
        0.1,
        0.1,
        0.3,
        1.0,
        1.0,
    ]
    assert Pacing(3600).interval_after(5.0) == 3600


def test_the_time_for_which_a_quota_stopped_the_processes_is_read_from_both_versions(tmp_path: Path) -> None:
    for version, line, folder, row in (
        ("v2", "0::/job\n", "job", "throttled_usec 2500000"),
        ("v1", "4:cpu,cpuacct:/job\n", "cpu/job", "throttled_time 2500000000"),
    ):
        proc, groups = tmp_path / version / "proc", tmp_path / version / "cgroup"
        (proc / "self").mkdir(parents=True)
        (proc / "self/cgroup").write_text(line)
        (groups / folder).mkdir(parents=True)
        (groups / folder / "cpu.stat").write_text(f"usage_usec 7\n{row}\n")
        found = find_quota_counter(groups, proc)
        assert found is not None
        assert found.read_s() == 2.5
    assert find_quota_counter(tmp_path, tmp_path) is None
