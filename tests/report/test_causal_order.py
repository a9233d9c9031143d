"""The order of doubts: causes before symptoms, and what was not looked at last, from the findings to the report."""

from pathlib import Path

import pytest
import sample_results as sample

from fakes import Bench, set_waits
from trainmark.campaign import collect_results
from trainmark.execution import ResultDirectory
from trainmark.insight.findings import (
    DATA_WAIT,
    POWER_LIMITED,
    cause_table,
    find,
    in_causal_order,
    with_causes,
)
from trainmark.insight.from_log import run_from_log
from trainmark.report import Language, render_markdown
from trainmark.schema.case import case_of
from trainmark.schema.measurement import UNINSPECTED, About, GateName, Suspicion
from trainmark.schema.results import Results, RunResult
from trainmark.schema.telemetry import GpuSummary, TelemetrySummary

LEVELS = Suspicion(code=GateName.TWO_LEVELS, sentence="the step times have two levels", about=About.WINDOW)
BUSY = Suspicion(code=GateName.CPU_SHARED, sentence="others took 30 %", about=About.MACHINE)
NOT_INSPECTED = Suspicion(code=UNINSPECTED, sentence="not checked: gpu-shared", about=About.MACHINE)
DRIFT = Suspicion(code=GateName.DRIFT_OVER_RUNS, sentence="the runs became slower", about=About.MACHINE)


def run(wait: float | None, *doubts: Suspicion, telemetry: tuple[TelemetrySummary, ...] = ()) -> RunResult:
    case = case_of()
    return sample.run(
        case,
        1,
        suspicions=doubts,
        telemetry=telemetry,
        measurement=sample.measurement(300.0, case, data_wait=wait),
    )


def codes(doubts: list[Suspicion]) -> list[str]:
    return [doubt.code for doubt in doubts]


def results_of(one: RunResult, of_case: tuple[Suspicion, ...] = ()) -> Results:
    results = sample.results([(case_of(), (one,))])
    (case,) = results.cases
    return results.model_copy(
        update={"cases": (case.model_copy(update={"suspicions": of_case}),), "findings": None}
    )


def at_power_limit(share: float) -> TelemetrySummary:
    gpu = GpuSummary(
        index=0, uuid=None, name=None, sm_clock_mhz_mean=None, sm_clock_mhz_min=None, power_w_mean=None,
        power_w_max=None, temperature_c_max=None, utilisation_mean=None, memory_used_bytes_max=None,
        throttled_share=0.0, reason_shares={"sw_power_cap": share}, foreign_pids=(), unseen_processes_max=0,
    )  # fmt: skip
    return TelemetrySummary(samples=30, gpus=(gpu,))


def test_a_wait_for_the_own_loader_comes_before_the_two_levels_that_it_makes() -> None:
    one = run(0.9, NOT_INSPECTED, LEVELS)
    assert codes(with_causes(one, one.suspicions)) == [DATA_WAIT, "two-levels", "not-looked"]
    wait, levels, _ = find(results_of(one)).doubts
    assert wait.sentence == "rank 0 waited for its data loader in 90% of the window"
    assert (wait.caused_by, levels.caused_by) == ((), (DATA_WAIT,))


def test_a_wait_without_a_symptom_is_part_of_the_number_and_no_doubt() -> None:
    assert codes(with_causes(run(0.9), ())) == []
    assert codes(with_causes(run(0.9, BUSY), (BUSY,))) == ["cpu-shared"]
    assert codes(with_causes(run(0.03, LEVELS), (LEVELS,))) == ["two-levels"]


def test_a_gpu_at_its_power_limit_comes_before_a_drift() -> None:
    limited = run(None, LEVELS, telemetry=(at_power_limit(0.8),))
    doubts = find(results_of(limited, (DRIFT,))).doubts
    assert [doubt.code for doubt in doubts] == [POWER_LIMITED, "two-levels", "drift-over-runs"]
    assert doubts[2].caused_by == (POWER_LIMITED,)
    free = run(None, LEVELS, telemetry=(at_power_limit(0.2),))
    assert codes(with_causes(free, free.suspicions)) == ["two-levels"]


def test_other_load_comes_before_a_run_that_is_far_from_the_others() -> None:
    assert codes(in_causal_order([LEVELS, NOT_INSPECTED, BUSY])) == ["cpu-shared", "two-levels", "not-looked"]


def test_every_gate_has_a_place_and_no_cause_explains_what_comes_before_it() -> None:
    table = cause_table()
    assert {gate.value for gate in GateName} <= set(table.ranks)
    assert max(table.ranks, key=lambda code: table.ranks[code]) == UNINSPECTED
    for cause, explained in table.explains.items():
        assert all(code in table.ranks and table.rank(code) > table.rank(cause) for code in explained), cause


def test_the_report_shows_the_cause_and_names_it_at_the_symptom(tmp_path: Path) -> None:
    text = render_markdown(results_of(run(0.9, LEVELS)), tmp_path, Language.EN)
    doubts = text.split("## Suspect runs")[1].split("\n## ")[0]
    assert doubts.index("waited for its data loader in 90% of the window (data-wait)") < doubts.index(
        "two levels"
    )
    assert "(two-levels); it may follow from data-wait" in doubts


def test_explain_names_the_wait_for_the_own_loader(bench: Bench) -> None:
    """Explain the folder of a run that waited for its loader in 90 % of its window."""
    suite = bench.write({"model": "good"})
    bench.run()
    (folder,) = bench.out.glob("runs/*/1")
    set_waits(folder, 0.9)
    (case,) = collect_results(suite, ResultDirectory(bench.out), None).cases
    assert case.runs[0].measurement is not None
    assert case.runs[0].measurement.data_wait == pytest.approx(0.9)
    explained = run_from_log(folder)
    assert explained.data_wait == pytest.approx(0.9)
    assert explained.doubts[0] == "rank 0 waited for its data loader in 90% of the window"
