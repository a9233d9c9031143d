"""What ``trainmark run -- COMMAND`` prints of a case with several runs."""

from pathlib import Path

import pytest
import sample_results as sample

from trainmark.cli.run_output import _case_lines, _Findings, _heading, print_command_results
from trainmark.cli.suite_input import CommandSuite
from trainmark.insight import judged
from trainmark.schema.measurement import About, Level, Shape, Steadiness, Suspicion
from trainmark.schema.results import Advice, CaseResult, EndedBy, Expected, Repeats, Results
from trainmark.workload import Recognised

NOTHING = _Findings(None, None, None)


def case_of(throughputs: tuple[float, ...]) -> CaseResult:
    """Return a case whose runs have these throughputs, and windows in proportion."""
    case = sample.two_frameworks().cases[0]
    (first, *_) = [run for run in case.runs if run.measurement is not None]
    assert first.measurement is not None
    assert case.estimate is not None
    runs = tuple(
        first.model_copy(
            update={
                "repeat": number,
                "suspicions": (),
                "measurement": first.measurement.model_copy(
                    update={"throughput": rate, "window_s": 1000 / rate}
                ),
            }
        )
        for number, rate in enumerate(throughputs, start=1)
    )
    median = sorted(throughputs)[len(throughputs) // 2]
    estimate = case.estimate.model_copy(update={"median": median, "n": len(throughputs)})
    return case.model_copy(update={"runs": runs, "estimate": estimate, "suspicions": ()})


def test_the_window_is_that_of_the_run_nearest_to_the_number() -> None:
    lines = dict(_case_lines(case_of((400.0, 100.0, 200.0)), NOTHING))

    assert lines["images/s"].startswith("200")
    assert lines["images/s"].endswith(", 5 s of wall time")


def test_a_case_whose_value_is_no_word_is_shown_with_its_values() -> None:
    case = case_of((400.0, 100.0, 200.0))
    of_program = case.case.model_copy(update={"options": {"amp": "", "batch": 4}})
    short = case.model_copy(update={"id": "mlp-amp.acec17-batch4", "case": of_program})
    words = case.model_copy(
        update={"id": "mlp-batch4", "case": case.case.model_copy(update={"options": {"batch": 4}})}
    )

    assert _heading(short) == "mlp-amp.acec17-batch4 (amp=, batch=4)"
    assert _heading(words) == "mlp-batch4"


def test_a_doubt_of_some_runs_says_of_how_many() -> None:
    case = case_of((400.0, 100.0, 200.0))
    stall = Suspicion(code="stall", sentence="a stall", about=About.WINDOW)
    uneven = Suspicion(code="uneven-steps", sentence="uneven", about=About.WINDOW)
    doubts = ((stall, uneven), (uneven,), (uneven,))
    runs = tuple(
        run.model_copy(update={"suspicions": found}) for run, found in zip(case.runs, doubts, strict=True)
    )

    shown = [
        text
        for label, text in _case_lines(case.model_copy(update={"runs": runs}), NOTHING)
        if label == "doubt"
    ]

    assert sorted(shown) == ["a stall (stall, in 1 of 3 runs)", "uneven (uneven-steps)"]


def test_a_width_that_was_not_reached_is_printed() -> None:
    case = case_of((400.0, 100.0, 200.0))
    more = Expected(runs=92, half_width=0.05, seconds=1.0)
    missed = Repeats(
        ended_by=EndedBy.MAXIMUM,
        runs=10,
        spoiled=0,
        spent_s=1.0,
        target=0.05,
        half_width=0.151,
        to_target=more,
    )

    def target(repeats: Repeats) -> str | None:
        return dict(_case_lines(case.model_copy(update={"repeats": repeats}), NOTHING)).get("target")

    assert target(missed) == (
        "±5.0% is not reached by 3 runs: the interval is ±15.1%; about 92 runs would reach it"
    )
    without = missed.model_copy(update={"half_width": None, "to_target": None, "runs": 1, "spoiled": 2})
    assert target(without) == "±5.0% is not reached by 3 runs, of which 2 disturbed: there is no interval"
    assert target(missed.model_copy(update={"ended_by": EndedBy.TARGET})) is None
    assert target(missed.model_copy(update={"target": None})) is None


def printed(results: Results, capsys: pytest.CaptureFixture[str], **card: object) -> str:
    recognised = Recognised(None, None, None, None, None)
    print_command_results(
        results, Path("results/x"), CommandSuite(name="x", suite={}, card=card, recognised=recognised)
    )
    return " ".join(capsys.readouterr().out.split())


def test_advice_about_the_suite_names_the_file_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    results = judged(sample.one_case())
    assert results.findings is not None
    advice = Advice(
        case=results.cases[0].id, reason="busy", steps=("write `gates: …` in the suite and wait",)
    )
    advised = results.model_copy(
        update={"findings": results.findings.model_copy(update={"advice": (advice,)})}
    )

    assert "what to do write `gates: …` in results/x/command.yaml and wait" in printed(advised, capsys)


def test_a_call_that_was_ended_before_its_first_run_names_the_options_that_end_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopped = sample.results([(sample.one_case().cases[0].case, ())])
    advice = "what to do to end each run earlier, add --steps 200 or --seconds 60"

    assert advice in printed(stopped, capsys)
    assert advice not in printed(stopped, capsys, stop_after={"seconds": 9})
    assert advice not in printed(sample.one_case(), capsys)


def test_a_run_that_was_not_steady_has_its_reason_in_the_doubts() -> None:
    case = case_of((400.0, 200.0))
    levels = (
        Level(first=0, steps=9, off=0),
        Level(first=9, steps=1, off=50),
        Level(first=10, steps=90, off=0),
    )
    slow = Steadiness(steady=False, settled_after=None, bias=0.5, shape=Shape.BURST, levels=levels)
    runs = tuple(
        run.model_copy(update={"measurement": run.measurement.model_copy(update={"steadiness": slow})})
        for run in case.runs
        if run.measurement is not None
    )

    lines = _case_lines(case.model_copy(update={"runs": runs}), NOTHING)

    (shown,) = [text for label, text in lines if label == "doubt"]
    assert shown == (
        "measured steps 9 to 10 differ from the steps before and after them; the mean step time is 50.0% longer than "
        "in the window's longest steady part (not-steady)"
    )
