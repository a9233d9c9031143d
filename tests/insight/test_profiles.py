"""Two profiled runs, kind by kind, in an explanation and in a report."""

from dataclasses import replace
from pathlib import Path

import pytest

from trainmark.insight import explain, render_text, to_document
from trainmark.insight.from_results import run_from_case
from trainmark.insight.profiles import comparison_lines, is_distant, kind_differences, profiled_side
from trainmark.insight.sides import ExplainedRun, side_of_run
from trainmark.report import render_markdown
from trainmark.schema.outcome import Outcome
from trainmark.schema.profile import CaseProfile, Operation, StepProfile, WorkKind
from trainmark.schema.results import CaseResult, Results
from trainmark.store import read_results

RESULTS = read_results(Path(__file__).parents[2] / "docs" / "results" / "h200" / "results.json")
PLAIN = CaseProfile(outcome=Outcome.OK, directory="runs/a/profile", plain_step_s=0.1)


def profile(**seconds: float) -> StepProfile:
    kinds = {WorkKind(kind): value for kind, value in seconds.items()}
    named = Operation(name="aten::mm", kind=WorkKind.MATMUL, seconds=kinds[WorkKind.MATMUL])
    whole = sum(kinds.values())
    return StepProfile(
        framework="pytorch", device="cuda", steps=5, step_s=whole, kinds=kinds, operations=(named,)
    )


def with_profile(case: CaseResult, found: StepProfile, plain_s: float = 0.1) -> CaseResult:
    whole = PLAIN.model_copy(update={"profile": found, "plain_step_s": plain_s})
    return case.model_copy(update={"profile": whole})


CASE = RESULTS.cases[0]
FAST = with_profile(CASE, profile(matmul=0.06, copy=0.01, idle=0.03))
SLOW = with_profile(CASE, profile(matmul=0.06, copy=0.05, idle=0.04))


def run(case: CaseResult, name: str) -> ExplainedRun:
    return run_from_case(RESULTS, case, name)


def test_the_differences_come_largest_first_and_their_shares_are_of_the_gap() -> None:
    here, there = profiled_side(FAST), profiled_side(SLOW)
    assert here is not None
    assert there is not None

    found = kind_differences(here, there)

    assert [one.kind for one in found] == [WorkKind.COPY, WorkKind.IDLE, WorkKind.MATMUL]
    assert [one.share for one in found] == [pytest.approx(0.8), pytest.approx(0.2), pytest.approx(0.0)]


def test_explain_shows_both_profiles_and_the_measured_step() -> None:
    explanation = explain(run(FAST, "a"), side_of_run(run(SLOW, "b")), (), ())
    text = render_text(explanation)

    assert "  copies, gathers, fills          10.00 ms    50.00 ms    +40.00 ms         80%" in text
    assert "  profiled step                  100.00 ms   150.00 ms    +50.00 ms" in text
    assert "  measured step" in text
    kinds = to_document(explanation)["profiles"]
    assert kinds[0]["kind"] == "copy"
    assert kinds[0]["difference_s"] == pytest.approx(0.04)


def test_a_side_without_a_profile_is_named() -> None:
    text = render_text(explain(run(FAST, "a"), side_of_run(run(CASE, "b")), (), ()))

    assert "`trainmark run SUITE --resume --profile` adds that of b" in text


def test_steps_of_different_work_have_no_gap() -> None:
    here, there = profiled_side(FAST), profiled_side(SLOW)
    assert here is not None
    assert there is not None
    assert here.samples is not None
    larger = replace(there, samples=2 * here.samples)

    assert all(one.share is None for one in kind_differences(here, larger))
    assert any("their seconds show no gap" in line for line in comparison_lines(here, larger))


def test_a_profiled_step_far_from_the_plain_one_is_named() -> None:
    far = profiled_side(with_profile(CASE, profile(matmul=0.1), plain_s=0.2))
    assert far is not None
    assert is_distant(far)
    text = render_markdown(only(with_profile(CASE, profile(matmul=0.1), plain_s=0.2)), Path())
    assert "The profiled step is far from the others" in text


def test_a_report_shows_the_kinds_and_the_sum() -> None:
    text = render_markdown(only(SLOW), Path())

    assert "| matrix products | 60.0 | 40.0 % |" in text
    assert "| profiled step | 150.0 | 100.0 % |" in text
    assert "| `aten::mm` | matrix products | 60.00 | 40.0 % |" in text


def only(case: CaseResult) -> Results:
    return RESULTS.model_copy(update={"cases": (case,), "findings": None})
