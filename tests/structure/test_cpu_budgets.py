"""The processor time of commands, as multiples of that of ``trainmark --help`` in the same run.

On a loaded machine both take longer: each time is compared with those of ``--help`` right before and after it.
"""

import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

HELP = ("--help",)
SUITE = f"""\
name: matrix
environment: system
axes:
  precision: [fp32, tf32, amp-fp16, amp-bf16, bf16]
  layout: [nchw, nhwc]
  devices_per_node: {list(range(1, 11))}
  batch_per_device: {list(range(1, 101))}
"""
LOG = "".join(f"iter {step}: loss 2.{step:04}, time 100.00ms, mfu 10.0%\n" for step in range(60))

pytestmark = pytest.mark.process


def cpu_seconds(*words: str) -> float:
    """Return the processor time of a command and its children, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "trainmark.cli.main", *words], stdout=subprocess.DEVNULL, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratio(*words: str) -> float:
    """Return the least of three times of a command over the mean time of ``--help`` around it; the first compiles."""
    cpu_seconds(*HELP)
    cpu_seconds(*words)
    found = []
    for _ in range(3):
        before = [cpu_seconds(*HELP) for _ in range(4)]
        ours = cpu_seconds(*words)
        after = [cpu_seconds(*HELP) for _ in range(4)]
        found.append(ours / statistics.mean(before + after))
    return min(found)


@pytest.mark.rare
def test_a_plan_of_ten_thousand_cases_takes_at_most_forty_times_the_time_of_help(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)

    # About 31; it was 53 when the cases shared nothing, and some 700 when the machine was read for each.
    assert ratio("plan", str(suite)) <= 40


def test_a_short_log_is_read_in_at_most_forty_times_the_time_of_help(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG)

    assert ratio("parse", str(log)) <= 40
