"""Doubts about the machine, from what was sampled beside a run."""

from typing import TypeVar

import pytest
from pydantic import BaseModel

from trainmark.campaign.suspicion import machine_suspicions
from trainmark.measure import About
from trainmark.words.telemetry import GpuSummary, TelemetrySummary

GPU = GpuSummary(
    index=0, uuid="GPU-1", name="H200", sm_clock_mhz_mean=1900.0, sm_clock_mhz_min=1800, power_w_mean=600.0,
    power_w_max=690.0, temperature_c_max=60, utilisation_mean=0.99, memory_used_bytes_max=1 << 30,
    throttled_share=0.0, reason_shares={}, foreign_pids=(), unseen_processes_max=0,
)  # fmt: skip

QUIET = TelemetrySummary(
    samples=20, unreadable_lines=0, seconds=20.0, cpu_busy_mean=0.5, cpu_tree_mean=0.48, cpu_other_mean=0.01,
    cpu_other_max=0.03, tree_rss_bytes_max=1 << 30, tree_pss_bytes_max=None, available_bytes_min=1 << 33, gpus=(GPU,),
)  # fmt: skip


D = TypeVar("D", bound=BaseModel)


def replace(document: D, **changes: object) -> D:
    """Return a document with some fields changed."""
    return document.model_copy(update=changes)


def test_a_quiet_machine_raises_no_doubt() -> None:
    assert machine_suspicions(QUIET) == ()
    assert machine_suspicions(None) == ()


@pytest.mark.parametrize(
    ("telemetry", "code", "sentence"),
    [
        (
            replace(
                QUIET, gpus=(replace(GPU, reason_shares={"hw_thermal_slowdown": 0.25, "gpu_idle": 0.5}),)
            ),
            "gpu-throttled",
            "GPU 0 was throttled in the window: hw_thermal_slowdown in 25% of the samples",
        ),
        (
            replace(QUIET, gpus=(replace(GPU, foreign_pids=(12, 34)),)),
            "gpu-shared",
            "other processes computed on GPU 0: 12, 34",
        ),
        (
            replace(QUIET, cpu_other_mean=0.3),
            "cpu-shared",
            "other processes took 30% of the cores during the window",
        ),
    ],
)
def test_a_machine_that_was_not_quiet_is_doubted_by_name(
    telemetry: TelemetrySummary, code: str, sentence: str
) -> None:
    (doubt,) = machine_suspicions(telemetry)
    assert (doubt.code, doubt.sentence, doubt.about) == (code, sentence, About.MACHINE)


def test_running_at_the_power_limit_is_what_a_board_is_made_for() -> None:
    capped = replace(GPU, throttled_share=1.0, reason_shares={"sw_power_cap": 1.0})
    assert machine_suspicions(replace(QUIET, gpus=(capped,))) == ()


def test_what_was_never_sampled_raises_no_doubt() -> None:
    blind = replace(GPU, throttled_share=None)
    assert machine_suspicions(replace(QUIET, cpu_other_mean=None, gpus=(blind,))) == ()
