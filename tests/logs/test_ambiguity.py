"""A pattern is refused if a repeated part of it can match the same text in several ways, and only then."""

from re import _parser as parser  # type: ignore[attr-defined]

import pytest

from trainmark.logs.description.ambiguity import can_explode

_EXPONENTIAL = (
    *(r"(?:a+)+", r"(\w*)*", r"(?:a|a)+b", r"(?:a+b?)+", r"(?:\w+ \w+)+", r"(?:a?b?)+c", r"(?:a{1,5})+"),
    *(r"(?:[ab]|ab|aba|bab)*c", r"(?:[^\n]*? loss: \d+)+", r"x(?:(?:a|ab)(?:c|bc))+", r"(?:a|a){0,60}"),
)
_HARMLESS = (
    *(r"a+", r"(?:ab)+", r"(?:a|b)+", r"(?:a|ab)+c", r"(?:foo|fob)+", r"(?:\w+ )+", r"(?:\d+,)*\d+"),
    *(r"(?:  [^\n]*\n)+", r"(?:\d{4}-)+", r"(?:a{2,4}b)*", r"(?:\w+=\d+,\s*)+", r"(?:(?:a|b)*c)+"),
    *(r"(?:a|a){0,5}", r"(?:\d|\w)*x", r"(?:(?=a)|(?=b)|c)*d"),
)


@pytest.mark.parametrize("pattern", _EXPONENTIAL)
def test_a_part_that_matches_one_text_by_several_paths_is_exponential(pattern: str) -> None:
    assert can_explode(parser.parse(pattern.encode()))


@pytest.mark.parametrize("pattern", _HARMLESS)
def test_a_part_that_matches_in_one_way_is_accepted(pattern: str) -> None:
    assert not can_explode(parser.parse(pattern.encode()))
