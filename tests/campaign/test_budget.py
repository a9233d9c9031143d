"""A suite's time budget: cases are timed by their first runs, and the longest are left out until the rest fits."""

import re
from pathlib import Path

import pytest

from fakes import Bench, behaving
from trainmark.campaign.budget import (
    FirstRunWatch,
    Timing,
    cases_over_budget,
    causes_of,
    predict,
    without_bf16,
)
from trainmark.campaign.schedule import Attempt, Schedule, ended_by
from trainmark.errors import InputError
from trainmark.execution import Heartbeat
from trainmark.node import StepPace
from trainmark.schema.case import case_of
from trainmark.schema.manifest import CpuFacts
from trainmark.schema.outcome import Outcome
from trainmark.schema.precision import Precision
from trainmark.schema.results import EndedBy, Results
from trainmark.schema.suite import Protocol
from trainmark.suite import load_suite

THREE = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 3}
SLOW = "steps-of-0.25"
CASE = case_of(precision="fp32")
BF16 = case_of(precision="amp-bf16")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.node.jobs.LEAST_TIMED_S", 0.4)


def pace(*reports: tuple[float, int | None]) -> StepPace:
    found = StepPace()
    for elapsed_s, step in reports:
        found.add(Heartbeat(elapsed_s, step))
    return found


def test_the_pace_of_a_run_is_that_between_its_reported_steps_and_its_start_is_counted_once() -> None:
    found = pace((5.0, None), (60.0, 1), (62.0, 2), (63.0, 2), (64.0, 3))

    assert found.step_s == pytest.approx(2.0)
    assert found.run_s(10) == pytest.approx(64.0 + 7 * 2.0)


def test_a_run_without_two_reported_steps_has_no_pace() -> None:
    assert pace((5.0, None), (60.0, 1)).run_s(10) is None
    assert pace((60.0, 1), (60.1, 2)).step_s is None, "too close to each other"


def test_a_first_run_ends_early_only_where_it_is_long_and_less_than_half_over() -> None:
    short, long, nearly_over = (FirstRunWatch(steps=100, share_s=10, budget_s=300) for _ in range(3))

    assert [short(Heartbeat(1.0 + step / 20, step)) for step in range(1, 101)] == [None] * 100
    assert long(Heartbeat(1.0, 1)) is None
    assert (long(Heartbeat(4.0, 2)) or (None,))[0] is Outcome.SKIPPED
    assert nearly_over(Heartbeat(1.0, 1)) is None
    assert nearly_over(Heartbeat(70.0, 90)) is None


def test_a_first_run_that_reports_no_step_ends_after_a_fifth_of_the_budget() -> None:
    watch = FirstRunWatch(steps=100, share_s=10, budget_s=300)

    assert watch(Heartbeat(59.0, None)) is None
    assert (watch(Heartbeat(61.0, None)) or (None,))[0] is Outcome.SKIPPED


def test_the_longest_cases_are_left_out_first_and_of_equal_ones_the_later() -> None:
    needed = {"a": 30.0, "b": 100.0, "c": 30.0, "d": None}

    assert cases_over_budget(needed, 1000.0) == ("d",)
    assert cases_over_budget(needed, 70.0) == ("d", "b")
    assert cases_over_budget(needed, 40.0) == ("d", "b", "c")
    assert cases_over_budget({"a": 30.0}, 40.0) == ()


def test_a_case_is_predicted_from_a_near_one_and_the_ratio_of_two_others() -> None:
    two, two_bf16 = CASE.varied(devices_per_node=2), BF16.varied(devices_per_node=2)
    timed = [(CASE, Timing(10.0, 0.2)), (BF16, Timing(30.0, 2.0)), (two, Timing(14.0, 0.3))]

    found = predict(two_bf16, timed, steps=10)

    assert found is not None
    assert found.step_s == pytest.approx(3.0)
    assert found.run_s == pytest.approx(30.0 + 10 * 1.0), "the start-up of the near case stays"
    assert found.predicted_from is not None
    assert predict(two_bf16, [(CASE, Timing(10.0, 0.2)), (two, Timing(14.0, 0.3))], steps=10) is None


@pytest.mark.parametrize(
    ("flags", "variables", "sentence"),
    [
        (("avx2",), {}, "this CPU has no BF16 instructions"),
        ((), {}, "this CPU has no BF16 instructions"),
        (("avx2", "avx512_bf16"), {}, None),
        (("asimd", "bf16"), {}, None),
        (("avx512_bf16",), {"ONEDNN_MAX_CPU_ISA": "AVX2"}, "ONEDNN_MAX_CPU_ISA=AVX2 hides this CPU's BF16"),
        (("avx512_bf16",), {"DNNL_MAX_CPU_ISA": "AVX512_CORE_BF16"}, None),
        (("amx_bf16",), {"ONEDNN_MAX_CPU_ISA": "ALL"}, None),
    ],
)
def test_the_reason_names_missing_bf16_instructions(
    flags: tuple[str, ...], variables: dict[str, str], sentence: str | None
) -> None:
    found = without_bf16(CpuFacts(flags=flags), variables)

    assert found is None if sentence is None else (found or "").startswith(sentence)


def test_a_slow_precision_is_compared_with_fp32() -> None:
    timed = [(CASE, Timing(10.0, 0.2))]

    found = causes_of(BF16, Timing(30.0, 2.0), timed, CpuFacts(flags=("avx2",)), on_cpu=True)

    assert found == (
        "a step takes about 10.0 times as long as with fp32",
        "this CPU has no BF16 instructions",
    )
    assert BF16.precision is Precision.AMP_BF16


def test_a_fast_precision_is_no_cause_of_slowness() -> None:
    timed = [(CASE, Timing(10.0, 2.0))]

    assert causes_of(BF16, Timing(30.0, 0.8), timed, CpuFacts(flags=("avx512_bf16",)), on_cpu=True) == ()


def test_a_case_gets_no_run_that_is_expected_to_outlast_the_budget() -> None:
    protocol = Protocol.model_validate(THREE)
    done = [Attempt(Outcome.OK, 1.0, 10.0)]

    assert ended_by(protocol, done, left_s=9.0) is EndedBy.BUDGET
    assert ended_by(protocol, done, left_s=11.0) is None
    assert ended_by(protocol, done * 3, left_s=0.0) is EndedBy.FIXED


def test_a_schedule_hands_out_runs_while_the_budget_lasts() -> None:
    schedule = Schedule(Protocol.model_validate(THREE), ["a", "b"], [[], []], left_s=35.0)
    order = []
    while (case := schedule.next()) is not None:
        order.append(case)
        schedule.add(Attempt(Outcome.OK, 1.0, 10.0))

    assert len(order) == 3
    assert schedule.progress.at_least == schedule.progress.finished == 3


@pytest.mark.parametrize(
    ("written", "seconds"), [("5min", 300), ("90 s", 90), ("1h 30min", 5400), ("2m", 120), (45, 45)]
)
def test_a_budget_is_written_with_its_unit(bench: Bench, written: object, seconds: float) -> None:
    assert bench.write(budget=written).budget == seconds


@pytest.mark.parametrize("written", ["soon", "5 parsecs", 0, -3])
def test_a_budget_that_is_no_time_is_refused_by_its_line(bench: Bench, written: object) -> None:
    with pytest.raises(InputError, match=r"suite\.yaml:\d+: budget: "):
        bench.write(budget=written)


def skipped(results: Results) -> list[tuple[str, str | None]]:
    return [(case.id, case.reason) for case in results.cases if case.outcome is Outcome.SKIPPED]


@pytest.mark.process
def test_a_long_case_is_left_out_with_its_reason_and_the_others_are_measured(bench: Bench) -> None:
    bench.write(behaving(SLOW, batch_per_device=8), {}, protocol=THREE, budget=6)

    results = bench.run()

    ((_, reason),) = skipped(results)
    assert reason is not None
    assert reason.startswith("3 runs would take about ")
    assert "of the time budget of 6.0 s is left" in reason
    measured = next(case for case in results.cases if case.outcome is Outcome.OK)
    assert len(measured.runs) == 3
    assert results.holds, "a case that the budget leaves out is no failed one"
    assert results.complete

    again = bench.run(resume=True)
    assert [case for case, _ in skipped(again)] == [case for case, _ in skipped(results)]
    assert sum(len(case.runs) for case in again.cases) == 4, "going on repeats nothing"
    assert len(list(bench.out.glob("runs/*/timing/outcome.json"))) == 1

    bench.suite.write_text(bench.suite.read_text().replace("budget: 6", "budget: 60"))
    assert load_suite(bench.suite).budget == 60
    assert skipped(bench.run(resume=True)) == [], "a larger budget takes the case in again"


@pytest.mark.process
def test_a_budget_that_fits_no_case_names_what_the_cheapest_needs(bench: Bench) -> None:
    bench.write(behaving(SLOW), protocol=THREE, budget=4)

    with pytest.raises(InputError, match=r"^budget: 4\.0 s fits no case .* needs about .* \(3 runs of .*\)$"):
        bench.run()


@pytest.mark.process
def test_a_run_that_times_out_says_how_long_it_would_have_taken(bench: Bench) -> None:
    bench.write(behaving(SLOW), limits={"timeout_s": 1.6})

    (case,) = bench.run().cases

    assert case.outcome is Outcome.TIMEOUT
    assert case.reason is not None
    assert re.search(r"its 12 steps would have taken about [34] s$", case.reason)


def test_a_demo_carries_a_budget() -> None:
    suites = Path(__file__).resolve().parents[2] / "suites"

    assert load_suite(suites / "demo.yaml").budget == 300
