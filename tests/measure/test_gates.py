"""Gates: a case in which each must fire, cases in which none may fire, and turning gates off."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from pydantic import BaseModel

from trainmark.logs.events import RunEvents
from trainmark.measure.gates import DRIFT, GATES, Evidence, apply_drift_gate, apply_gates, check_gates
from trainmark.node.telemetry_summary import _dropped
from trainmark.schema.case import case_of
from trainmark.schema.measurement import SPOILING, UNINSPECTED, About, Answer, GateName, Parameters
from trainmark.schema.telemetry import ForeignProcess, GpuSample, GpuSummary, TelemetrySummary

GPU = GpuSummary(
    index=0, uuid="GPU-1", name="H200", sm_clock_mhz_mean=1900.0, sm_clock_mhz_min=1800, power_w_mean=600.0,
    power_w_max=690.0, temperature_c_max=60, utilisation_mean=0.99, memory_used_bytes_max=1 << 30,
    throttled_share=0.0, reason_shares={}, foreign_pids=(), unseen_processes_max=0, clock_dropped_share=0.0,
)  # fmt: skip

QUIET = TelemetrySummary(
    samples=20, unreadable_lines=0, seconds=20.0, cpu_busy_mean=0.5, cpu_tree_mean=0.48, cpu_other_mean=0.01,
    cpu_other_max=0.03, tree_rss_bytes_max=1 << 30, tree_pss_bytes_max=None, available_bytes_min=1 << 33, gpus=(GPU,),
)  # fmt: skip

D = TypeVar("D", bound=BaseModel)


def replace(document: D, **changes: object) -> D:
    """Return a document with some fields changed."""
    return document.model_copy(update=changes)


def steps(count: int = 100, seed: int = 1) -> np.ndarray[Any, np.dtype[np.float64]]:
    return 0.1 * np.exp(0.01 * np.random.default_rng(seed).standard_normal(count))


def ran(
    times: Sequence[float] | np.ndarray[Any, Any] | None = None, ranks: int = 1, **summary: Any
) -> RunEvents:
    """Return the events of a sound run of batch 8 on ``ranks`` ranks; ``summary`` overrides its summary."""
    measured = np.asarray(steps() if times is None else times)
    nothing = np.full(measured.size, np.nan)
    own = {
        "ranks_agree": True,
        "rank_windows_s": [float(measured.sum()) + 0.001 * rank for rank in range(ranks)],
        "rank_samples": [8 * measured.size] * ranks,
    }
    return RunEvents(
        parameters=Parameters(), steps=np.zeros((measured.size, 2)), step_times_s=measured, losses=nothing,
        data_waits_s=nothing, measured=np.ones(measured.size, dtype=np.bool_), summary={**own, **summary},
        damaged_lines=0,
    )  # fmt: skip


def evidence(
    events: RunEvents | None = None, telemetry: TelemetrySummary = QUIET, ranks: int = 1, **more: Any
) -> Evidence:
    case = case_of(batch_per_device=8, devices_per_node=ranks)
    return Evidence(case, events or ran(ranks=ranks), (telemetry,), **more)


def on_gpu(**changes: object) -> Evidence:
    return evidence(telemetry=replace(QUIET, gpus=(replace(GPU, **changes),)))


TWO_LEVELS = np.where(np.arange(100) % 3 == 0, 1.05, 0.35) * steps()

FIRES = {
    GateName.GPU_THROTTLED: (
        on_gpu(reason_shares={"hw_thermal_slowdown": 0.25, "gpu_idle": 0.5}),
        "GPU 0 was throttled during the window: hw_thermal_slowdown in 25% of the samples",
    ),
    GateName.CLOCK_DROPPED: (
        on_gpu(clock_dropped_share=0.5, sm_clock_mhz_min=1200),
        "the clock of GPU 0 dropped in 50% of the window's samples (to 1200 MHz) although the GPU was not at its "
        "power limit",
    ),
    GateName.GPU_SHARED: (on_gpu(foreign_pids=(12, 34)), "other processes used GPU 0 (PIDs 12, 34)"),
    GateName.CPU_SHARED: (
        evidence(telemetry=replace(QUIET, cpu_other_mean=0.3, node=1)),
        "other processes took 30% of the cores on node 1 during the window",
    ),
    GateName.RANKS_DISAGREE: (
        evidence(ran(ranks=2, ranks_agree=False), ranks=2),
        "The ranks hold different parameters after the window.",
    ),
    GateName.RANKS_UNEVEN: (
        evidence(ran(np.full(100, 0.1), ranks=2, rank_windows_s=[10.0, 10.5]), ranks=2),
        "the ranks' windows took 10 to 10.5 s, a difference of 5.0 steps: "
        "ranks that exchange gradients in every step should finish within one step of each other",
    ),
    GateName.BATCH_DIFFERS: (
        evidence(ran(rank_samples=[400])),
        "the case requests a batch of 8 per device, but a rank trained 4 samples per step",
    ),
    GateName.TWO_LEVELS: (
        evidence(ran(TWO_LEVELS)),
        "the step times have two levels, 0.03496 and 0.105 s (34% of the steps at the rarer level)",
    ),
}
HOGS = (ForeignProcess(471, "python3 busy.py", 0.98), ForeignProcess(5, "sshd", 0.01))


@pytest.mark.parametrize(
    ("foreign", "end"),
    [
        (None, ""),
        ((), " (none of the processes that are visible there)"),
        (HOGS, ": python3 busy.py (PID 471, 0.98 cores)"),
    ],
)
def test_the_doubt_about_other_processes_names_host_and_processes(
    foreign: tuple[ForeignProcess, ...] | None, end: str
) -> None:
    node = replace(QUIET, cpu_other_mean=0.3, node=1, host="node02", foreign=foreign)

    (doubt,) = apply_gates(evidence(telemetry=node))

    assert doubt.sentence == f"other processes took 30% of the cores on node02 during the window{end}"


SILENT = {
    "at the power limit": on_gpu(throttled_share=1.0, reason_shares={"sw_power_cap": 1.0, "gpu_idle": 0.2}),
    "one sample in a hundred of a lower clock": on_gpu(clock_dropped_share=0.01),
    "another run's GPU": evidence(
        telemetry=replace(QUIET, gpus=(GPU, replace(GPU, index=1, foreign_pids=(12,)))), gpus=(0,)
    ),
    "a monitor on the cores": evidence(telemetry=replace(QUIET, cpu_other_mean=0.07)),
    "two ranks that finish at the same time": evidence(ran(ranks=2), ranks=2),
    "a program that reports nothing about its ranks": evidence(
        ran(ranks_agree=None, rank_windows_s=None, rank_samples=None)
    ),
    "one stall": evidence(ran(np.where(np.arange(100) == 50, 1.0, 0.1))),
    "a stall at each tenth step": evidence(ran(np.where(np.arange(100) % 10 == 5, 0.2, 0.1))),
    "a ramp": evidence(ran(np.linspace(0.1, 0.15, 100))),
    "levels that differ by 1 %": evidence(ran(np.where(np.arange(100) % 2 == 0, 0.1, 0.101))),
    "a short window of two levels": evidence(ran(TWO_LEVELS[:30])),
    "equal steps": evidence(ran(np.full(100, 0.1))),
}


@pytest.mark.parametrize("name", FIRES)
def test_a_gate_reports_its_value_and_its_bound(name: GateName) -> None:
    given, sentence = FIRES[name]
    (doubt,) = apply_gates(given)
    (gate,) = (gate for gate in GATES if gate.name is name)
    assert (doubt.code, doubt.about, doubt.bound) == (name, gate.about, gate.bound)
    assert doubt.sentence.startswith(sentence)
    assert doubt.value is not None
    assert doubt.value >= gate.bound
    assert apply_gates(given, off=(name,)) == (), "it can be turned off by its name"


@pytest.mark.parametrize("name", SILENT)
def test_no_gate_fires_on_a_sound_run(name: str) -> None:
    assert apply_gates(SILENT[name]) == ()


UNCHECKED = {
    "a window of less than two sampling periods": (
        evidence(telemetry=replace(QUIET, window_s=0.15, covered_s=0.15, period_s=0.1, cpu_other_mean=0.9)),
        "its window of 0.15 s is shorter than two sampling periods of 0.1 s (measure more steps: `steps` in the "
        "suite's protocol, or of the program)",
    ),
    "a sampler that ended early": (
        evidence(telemetry=replace(QUIET, window_s=9.0, covered_s=2.0, period_s=0.1)),
        "the samples cover only 2 s of its window of 9 s",
    ),
    "no sample in the window": (
        evidence(telemetry=replace(QUIET, samples=0)),
        "no sample was taken in its window",
    ),
    "no telemetry": (Evidence(case_of(batch_per_device=8), ran()), "no telemetry was recorded"),
    "no counters": (
        evidence(telemetry=replace(QUIET, cpu_other_mean=None)),
        "the CPU counters were not read",
    ),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_a_gate_that_cannot_look_says_why_and_is_not_clean(name: str) -> None:
    given, reason = UNCHECKED[name]
    verdict = check_gates(given)
    (check,) = (check for check in verdict.checks if check.gate is GateName.CPU_SHARED)
    assert (check.answer, check.reason, check.samples) == (Answer.UNCHECKED, reason, None)
    (doubt,) = (doubt for doubt in verdict.doubts if doubt.code == UNINSPECTED)
    assert "cpu-shared" in doubt.sentence
    assert reason in doubt.sentence
    assert not [doubt for doubt in verdict.doubts if doubt.code == GateName.CPU_SHARED]


def test_a_clean_gate_says_what_it_read() -> None:
    verdict = check_gates(
        evidence(telemetry=replace(QUIET, samples=37, window_s=3.7, covered_s=3.7, period_s=0.1))
    )
    cpu, *_ = (check for check in verdict.checks if check.gate is GateName.CPU_SHARED)
    assert (cpu.answer, cpu.samples, cpu.seconds) == (Answer.CLEAN, 37, 3.7)


def test_a_gate_that_is_turned_off_neither_looks_nor_doubts() -> None:
    verdict = check_gates(Evidence(case_of(batch_per_device=8), ran()), off=[GateName.CPU_SHARED])
    (check,) = (check for check in verdict.checks if check.gate is GateName.CPU_SHARED)
    assert check.answer is Answer.OFF
    assert verdict.doubts == ()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"throttled_share": None}, GateName.GPU_THROTTLED),
        ({"clock_dropped_share": None}, GateName.CLOCK_DROPPED),
        ({"unseen_processes_max": None}, GateName.GPU_SHARED),
        ({"unseen_processes_max": 3}, GateName.GPU_SHARED),
    ],
)
def test_what_nvml_does_not_report_is_not_clean(changes: dict[str, Any], name: GateName) -> None:
    checks = {check.gate: check.answer for check in check_gates(on_gpu(**changes)).checks}
    assert [gate for gate, answer in checks.items() if answer is Answer.UNCHECKED] == [name]


@pytest.mark.parametrize(
    ("own", "unseen", "answer"),
    [
        (1, 0, Answer.CLEAN),
        (0, 1, Answer.CLEAN),
        (0, 0, Answer.UNCHECKED),
        (1, 1, Answer.UNCHECKED),
        (None, 0, Answer.CLEAN),
    ],
)
def test_processes_on_a_gpu_are_known_only_where_nvml_lists_those_of_the_run(
    own: int | None, unseen: int, answer: Answer
) -> None:
    """Check NVML in a container, which lists no process at all, or the run's own by a number outside of it."""
    gpu = replace(GPU, run_processes_max=own, unseen_processes_max=unseen)
    checks = {
        c.gate: c.answer
        for c in check_gates(evidence(telemetry=replace(QUIET, gpus=(gpu,)), gpus=(0,))).checks
    }
    assert checks[GateName.GPU_SHARED] is answer


def test_a_gpu_run_without_a_gpu_in_its_samples_is_not_clean() -> None:
    case = case_of(batch_per_device=8, device="cuda")
    checks = {
        check.gate: check for check in check_gates(Evidence(case, ran(), (replace(QUIET, gpus=()),))).checks
    }
    assert checks[GateName.GPU_SHARED].reason == "NVML reports no GPU of the run"
    on_cpu = Evidence(case_of(batch_per_device=8, device="cpu"), ran(), (replace(QUIET, gpus=()),), gpus=())
    assert GateName.GPU_SHARED not in {check.gate for check in check_gates(on_cpu).checks}


def test_a_violation_time_shows_what_no_sample_does() -> None:
    (doubt,) = apply_gates(on_gpu(violation_shares={"thermal": 0.02, "power": 0.9}))
    assert doubt.code == GateName.GPU_THROTTLED
    assert doubt.sentence == "GPU 0 was throttled during the window: thermal for 2% of the time"
    assert apply_gates(on_gpu(violation_shares={"thermal": 0.0, "power": 0.9})) == ()


def test_a_loss_that_is_not_finite_is_found_in_events_and_in_foreign_logs(tmp_path: Path) -> None:
    from dataclasses import replace as changed

    own = changed(ran(), losses_not_finite=3)
    assert [doubt.code for doubt in apply_gates(evidence(own))] == ["loss-not-finite"]
    log = tmp_path / "train.log"
    for text, fires in (
        (b"Epoch: [0][1/9]\tTime 0.5\tLoss nan (nan)\n", True),
        (b"{'loss': inf, 'step': 3}\n", True),
        (b"step 4 | train loss: NaN | lr 0.1\n", True),
        (b"loss 6.9 of the nanogpt run; loss scale 32768; inflated loss 0.1\n", False),
        (b"Gradient overflow. Skipping step, reducing loss scale to inf\n", False),
    ):
        log.write_bytes(text)
        assert [doubt.code for doubt in apply_gates(evidence(log=log))] == ["loss-not-finite"] * fires, text


def test_runs_that_drift_are_a_doubt_about_their_case_and_shuffled_runs_are_not() -> None:
    falling = [100.0, 99.4, 98.1, 97.6, 96.9, 95.2, 94.8]
    (doubt,) = apply_drift_gate(falling)
    assert (doubt.code, doubt.about) == (GateName.DRIFT_OVER_RUNS, About.MACHINE)
    assert doubt.sentence.startswith("the runs became slower by 5.")
    assert "% from the first to the last (p = " in doubt.sentence
    assert apply_drift_gate(falling, off=[DRIFT.name]) == ()
    for sound in (
        [100.0, 95.2, 98.1, 99.4, 94.8, 96.9, 97.6],
        falling[:5],
        [100.0, 99.99, 99.98, 99.97, 99.96, 99.95, 99.94],
        [100.0] * 8,
    ):
        assert apply_drift_gate(sound) == (), sound


def sample(clock: int, *reasons: str, busy: float = 1.0) -> GpuSample:
    return GpuSample(0, clock, None, None, None, busy, None, reasons, None, None)


def test_a_lower_clock_counts_unless_idleness_or_the_power_limit_explains_it() -> None:
    assert _dropped([sample(1980), sample(1980), sample(1200), sample(1980)]) == 0.25
    assert (
        _dropped([sample(1980), sample(1560, "sw_power_cap"), sample(345, "gpu_idle"), sample(345, busy=0.0)])
        == 0
    )
    assert _dropped([sample(1980), sample(1900)]) == 0
    assert _dropped([]) is None


def test_every_name_is_a_gate_and_every_gate_is_tested() -> None:
    assert [*GateName] == [gate.name for gate in (*GATES, DRIFT)]
    assert {*FIRES} | {GateName.LOSS_NOT_FINITE, GateName.DRIFT_OVER_RUNS} == {*GateName}
    assert all(gate.about is About.MACHINE for gate in GATES if gate.name in SPOILING)
