"""Of cases whose GPUs were held by their power limit the report says so, and what the clock was."""

from pathlib import Path
from typing import Any

import pytest
import sample_results as sample

from trainmark.insight.findings import find
from trainmark.report import Language, render_markdown
from trainmark.schema.case import case_of
from trainmark.schema.results import Results
from trainmark.schema.telemetry import GpuSummary, TelemetrySummary


def gpu(share: float | None, mhz: float | None = 1725.4, index: int = 0) -> GpuSummary:
    """Return a GPU that was held in this share of the samples; of None no clock reason was sampled."""
    return GpuSummary(
        index=index,
        uuid=None,
        name="NVIDIA H200",
        sm_clock_mhz_mean=mhz,
        sm_clock_mhz_min=None,
        power_w_mean=None if mhz is None else 696.6,
        power_w_max=None,
        temperature_c_max=None,
        utilisation_mean=None,
        memory_used_bytes_max=None,
        throttled_share=None if share is None else 0.0,
        reason_shares={"sw_power_cap": share} if share else {},
        foreign_pids=(),
        unseen_processes_max=None,
    )


def sampled(*gpus: tuple[GpuSummary, ...], **axes: Any) -> Results:
    """Return the results of one case, with the GPUs of its node in each of its runs."""
    one = case_of(**axes)
    results = sample.results([(one, sample.ok_runs(one, 1404.55, len(gpus)))])
    (case,) = results.cases
    runs = tuple(
        run.model_copy(update={"telemetry": (TelemetrySummary(samples=4, gpus=of_run),)})
        for run, of_run in zip(case.runs, gpus, strict=True)
    )
    return results.model_copy(update={"cases": (case.model_copy(update={"runs": runs}),)})


def test_the_gpu_that_was_held_the_most_counts_and_the_median_over_runs() -> None:
    cool, hot, warm = gpu(0.0, 1980.0), gpu(1.0), gpu(0.4, 1900.0, index=1)
    (found,) = find(sampled((hot, warm), (hot, warm), (cool, warm), devices_per_node=2)).power
    assert (found.runs, found.share, found.sm_clock_mhz, found.power_w) == (3, 1.0, 1725.4, 696.6)
    assert find(sampled((cool,), (hot,), (cool,))).power == ()


def test_a_gpu_that_somebody_else_computes_on_is_not_the_cases() -> None:
    cool, strangers = gpu(0.0, 1980.0), gpu(1.0, 1700.0, index=1)
    assert find(sampled((cool, strangers))).power == ()
    assert find(sampled((strangers,), device="cpu")).power == ()
    assert len(find(sampled((cool, strangers), devices_per_node=2)).power) == 1


def test_of_many_cases_the_first_are_named_and_the_others_counted(tmp_path: Path) -> None:
    held = TelemetrySummary(samples=4, gpus=(gpu(1.0),))
    cases = [case_of(batch_per_device=batch) for batch in range(1, 11)]
    runs = [
        (one, tuple(run.model_copy(update={"telemetry": (held,)}) for run in sample.ok_runs(one, 900.0, 1)))
        for one in cases
    ]
    text = render_markdown(sample.results(runs), tmp_path)
    assert "fp32 b8 1n1g (1725 MHz, 697 W), 2 more. In" in text


@pytest.mark.parametrize("gpus", [(), (gpu(None),), (gpu(0.0),), (gpu(0.49),)])
def test_where_none_was_held_nothing_is_reported(gpus: tuple[GpuSummary, ...], tmp_path: Path) -> None:
    results = sampled(gpus)
    assert find(results).power == ()
    assert "power limit" not in render_markdown(results, tmp_path).split("## Telemetry")[0]


@pytest.mark.parametrize(
    ("mhz", "reported"),
    [
        (1725.4, "window's samples: fp32 b32 1n1g (1725 MHz, 697 W). In"),
        (None, "window's samples: fp32 b32 1n1g. In"),
    ],
)
def test_the_clock_and_the_power_are_reported(mhz: float | None, reported: str, tmp_path: Path) -> None:
    text = render_markdown(sampled((gpu(0.5, mhz),)), tmp_path)
    assert reported in text
    assert "功耗上限" in render_markdown(sampled((gpu(0.5, mhz),)), tmp_path, Language.ZH)
