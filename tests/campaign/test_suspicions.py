"""Doubts about the machine, from what was sampled beside a run."""

from typing import TypeVar

import pytest
from pydantic import BaseModel

from trainmark.campaign.suspicion import machine_suspicions, work_suspicions
from trainmark.logs.events import parse_events
from trainmark.tasks import case_of
from trainmark.words.measurement import About, Measurement, Steadiness
from trainmark.words.suite import Protocol
from trainmark.words.telemetry import GpuSummary, TelemetrySummary
from trainmark.workload import load_workloads

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


def test_a_programs_own_way_of_counting_its_steps_is_no_doubt() -> None:
    case = case_of(workload="ngc-pytorch-convnets-21.03", precision="amp-fp16")
    card = load_workloads().find(case).card
    protocol = Protocol.model_validate({"name": "dlperf", "steps": 100, "warmup_steps": 20})
    counted = {
        steps: work_suspicions(case, card, protocol, measured(steps), parse_events([])) for steps in (79, 78)
    }
    assert counted[79] == ()
    assert [doubt.code for doubt in counted[78]] == ["steps-differ"]


def measured(steps: int) -> Measurement:
    return Measurement(
        unit="images/s", rule="window", throughput=1.0, samples=None, window_s=None, measured_steps=steps,
        warmup_steps=20, first_step_s=None, compile_s=None, step_times=None, data_wait=None, peak_memory_bytes=(),
        final_loss=None, steadiness=Steadiness(steady=None, settled_after=None, bias=None), suspicions=(),
    )  # fmt: skip
