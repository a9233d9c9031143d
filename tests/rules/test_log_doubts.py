"""Doubts about a log's number as suspicions of its run."""

from trainmark.logs import Problem, Severity
from trainmark.measure.steadiness import log_suspicions
from trainmark.schema.measurement import About


def test_an_uneven_pace_is_about_the_window_and_not_about_the_work() -> None:
    problems = [
        Problem("stall", "a stall", Severity.DOUBT),
        Problem("guessed", "no known program", Severity.DOUBT),
        Problem("by-average", "read from averages", Severity.NOTE),
    ]

    found = {doubt.code: doubt.about for doubt in log_suspicions(problems)}

    assert found == {"stall": About.WINDOW, "guessed": About.WORK}
