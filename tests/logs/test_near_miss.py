"""A pattern that matches no line is explained by the line that it matches furthest."""

import pytest

from trainmark.logs.description.near_miss import find_near_miss
from trainmark.logs.description.patterns import compile_pattern

_LINES = [b"loading\n", b"I1126 20:10:39.717958 7 writer.py:48] [167] steps_per_sec=16.65\n"]


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        (
            "^I{stamp} ",
            "it matches up to 'I'; then {stamp} is expected, and '1126 20:10:39.717958 7 w' follows",
        ),
        (
            r"^I.* \[{step}\] rate={rate} ",
            "it matches up to '8 7 writer.py:48] [167] '; then 'rate=' is expected, and 'steps_per_sec=16.65' follows",
        ),
        (
            r"I\d+.*img/s",
            "it matches up to 'I1126'; then 'img/s' is expected in the rest of the line, which has none",
        ),
        (
            r"\] *{rate:K}",
            "it matches up to ']'; then {rate} is expected in the rest of the line, which has none",
        ),
    ],
)
def test_the_text_that_does_not_match_is_named(pattern: str, sentence: str) -> None:
    miss = find_near_miss(compile_pattern(pattern, "x"), _LINES)

    assert miss is not None
    assert miss.line == _LINES[1]
    assert str(miss) == sentence


def test_a_pattern_whose_beginning_no_line_has_is_reported() -> None:
    miss = find_near_miss(compile_pattern("^batch {step}", "x"), _LINES)

    assert str(miss) == "no line has even its beginning, 'batch '"


def test_a_pattern_that_matches_a_line_misses_none() -> None:
    assert find_near_miss(compile_pattern(r"\[{step}\] ", "x"), _LINES) is None
