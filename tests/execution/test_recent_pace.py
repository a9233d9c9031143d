"""The pace of the last records of a running program, and the step from which it looks steady."""

from io import StringIO
from itertools import count

import pytest

from trainmark.campaign import Progress
from trainmark.cli.run_output import ProgressPrinter
from trainmark.node import Heartbeat, RecentPace
from trainmark.schema.case import Case, case_of
from trainmark.schema.measurement import About, Measurement, Parameters, Steadiness, StepTimes, Suspicion
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import RunResult


def of(*points: tuple[float, int | None]) -> RecentPace:
    pace = RecentPace()
    for elapsed_s, step in points:
        pace.add(Heartbeat(elapsed_s, step))
    return pace


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    slow = [(float(second), second) for second in range(21)]
    fast = [(20.0 + second, 20 + 10 * second) for second in range(1, 11)]
    assert of(*slow).steps_per_s == 1
    assert of(*slow, *fast).steps_per_s == 10


def test_a_run_looks_steady_from_the_step_after_its_compilation() -> None:
    compiling = [(0.5 * number, 0 if number < 20 else 1) for number in range(24)]
    running = [(12 + 0.5 * number, 1 + 4 * number) for number in range(1, 20)]
    assert of(*compiling, *running).steady_from == 5
    assert of(*compiling).steady_from is None


def test_too_few_records_show_no_rate_and_a_counter_that_goes_back_begins_anew() -> None:
    assert of((1, None), (2, 3)).steps_per_s is None
    assert of((1, 10), (2, 20), (3, 1), (4, 2)).steps_per_s == 1
    assert of((0, 0), (30, 1), (60, 2)).steps_per_s == 1 / 30


def test_a_wait_for_a_step_that_is_longer_than_usual_is_shown() -> None:
    fast, slow = of((1.0, 1), (2.0, 2), (3.0, 3)), of((0.0, 1), (30.0, 2), (60.0, 3))
    assert fast.silence_s(12.0) is None
    assert fast.silence_s(20.0) == 17
    assert slow.silence_s(145.0) is None
    assert slow.silence_s(160.0) == 100
    assert of((1.0, None)).silence_s(600.0) is None

    stream = StringIO()
    with ProgressPrinter(stream) as printer:
        printer.run_begins(case_of(device="cpu"), 1, Progress(0, 1))
        printer._printed_at = float("-inf")
        for elapsed_s, step in ((1.0, 58), (2.0, 59), (33.0, 59)):
            printer.pulse(Heartbeat(elapsed_s, step, 60))
            printer._printed_at = float("-inf")
    assert stream.getvalue().splitlines()[-1] == "    step 59 of 60 (98%), no new step for 31 s, 33 s"


def test_the_progress_line_has_the_rate_in_the_unit_that_an_earlier_run_showed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = count(step=20.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    case, stream = case_of(device="cpu"), StringIO()
    with ProgressPrinter(stream) as printer:
        for repeat in (1, 2):
            printer.run_begins(case, repeat, Progress(repeat - 1, 2))
            for half in range(40):
                printer.pulse(Heartbeat(half / 2, 2 * half, None if repeat == 1 else 160))
            printer.run_ended(result(case, repeat), Progress(repeat, 2))

    lines = stream.getvalue().splitlines()
    assert "    step 78, 4 steps/s, steady from step 0, 20 s" in lines
    assert "    step 78 of 160 (49%), 12 800 tokens/s, steady from step 0, 20 s" in lines


def test_a_doubt_of_several_nodes_that_an_earlier_run_had_is_named_once() -> None:
    doubts = tuple(
        Suspicion(code="cpu-shared", sentence=f"others took the cores of {node}", about=About.MACHINE)
        for node in ("node01", "node02")
    )
    case, stream = case_of(device="cpu"), StringIO()
    with ProgressPrinter(stream) as printer:
        for repeat in (1, 2):
            printer.run_begins(case, repeat, Progress(repeat - 1, 2))
            printer.run_ended(
                result(case, repeat).model_copy(update={"suspicions": doubts}), Progress(repeat, 2)
            )

    first, second = (line for line in stream.getvalue().splitlines() if "suspect" in line)
    assert (first.count("suspect: others took"), second.count("suspect: cpu-shared, as before")) == (2, 1)


def test_the_time_left_is_at_most_that_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=20.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    case, stream = case_of(device="cpu"), StringIO()
    with ProgressPrinter(stream) as printer:
        printer.run_begins(case, 1, Progress(0, 24, 300.0))
        printer.run_ended(result(case, 1), Progress(1, 24, 250.0))
        printer.run_begins(case, 2, Progress(1, 24, 250.0))
        printer.run_begins(case, 2, Progress(1, 3, 250.0))

    lines = stream.getvalue().splitlines()
    ends = [line.partition("; ")[2] for line in lines if line.startswith("[")]
    assert ends[0] == "at most 5 min left, by the time budget"
    assert ends[1] == "at most 4 min left, by the time budget"
    assert ends[2].startswith("about ")


def result(case: Case, repeat: int) -> RunResult:
    """Return a run of 3200 tokens a step, 0.25 s each."""
    times = StepTimes(mean=0.25, minimum=0.25, p50=0.25, p90=0.25, p99=0.25, maximum=0.25)
    steady = Steadiness(steady=True, settled_after=0, bias=0.0)
    measured = Measurement(
        unit="tokens/s", rule="window", throughput=12_800.0, samples=None, window_s=20.0, measured_steps=80,
        warmup_steps=0, first_step_s=None, compile_s=None, step_times=times, data_wait=None, peak_memory_bytes=(),
        final_loss=None, steadiness=steady, suspicions=(),
    )  # fmt: skip
    return RunResult(
        repeat=repeat, outcome=Outcome.OK, reason=None, started_at=None, duration_s=20.0, directory="runs/a/1",
        log=None, commands=(), measurement=measured, suspicions=(), parameters=Parameters(), telemetry=(),
        manifest=None,
    )  # fmt: skip
