"""Doubts about a log's number as suspicions of its run."""

import io

from trainmark.logs import Problem, Severity
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.row import reading_problems
from trainmark.measure.steadiness import log_suspicions
from trainmark.programs import read_stream
from trainmark.schema.measurement import About


def test_an_uneven_pace_is_about_the_window_and_not_about_the_work() -> None:
    problems = [
        Problem("stall", "a stall", Severity.DOUBT),
        Problem("guessed", "no known program", Severity.DOUBT),
        Problem("by-average", "read from averages", Severity.NOTE),
    ]

    found = {doubt.code: doubt.about for doubt in log_suspicions(problems)}

    assert found == {"stall": About.WINDOW, "guessed": About.WORK}


def test_a_wrong_share_that_the_program_prints_is_no_doubt_about_its_run() -> None:
    lines = "".join(f"iter {step}: loss 4.2, time 98.12ms, mfu 122.10%\n" for step in range(60))
    log = read_stream(io.BytesIO(f"tokens per iteration will be: 12,288\n{lines}".encode()))

    problems = reading_problems(log, measure_log(log))
    assert "impossible-mfu" in {problem.code for problem in problems}
    assert "impossible-mfu" not in {doubt.code for doubt in log_suspicions(problems)}
