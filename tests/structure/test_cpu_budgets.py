"""The processor time of commands, as multiples of that of ``trainmark --help`` in the same run.

The bounds allow for a loaded machine; ``benchmarks/startup.py`` measures the budgets.
"""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

HELP = ("--help",)
SUITE = f"""\
name: matrix
environment: system
axes:
  precision: [fp32, tf32]
  layout: [nchw, nhwc]
  devices_per_node: [1, 2, 3, 4, 5]
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
    """Return the least processor time of a command over that of ``--help``, in turn; the first time compiles."""
    cpu_seconds(*HELP)
    cpu_seconds(*words)
    pairs = [(cpu_seconds(*words), cpu_seconds(*HELP)) for _ in range(3)]
    return min(ours for ours, _ in pairs) / min(least for _, least in pairs)


@pytest.mark.rare
def test_a_plan_of_two_thousand_cases_takes_at_most_seventy_times_the_time_of_help(
    tmp_path: Path,
) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)

    # It was about 170 when the machine was read for each case; the budget is 40 for ten thousand.
    assert ratio("plan", str(suite)) <= 70


def test_a_short_log_is_read_in_at_most_forty_times_the_time_of_help(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG)

    assert ratio("parse", str(log)) <= 40
