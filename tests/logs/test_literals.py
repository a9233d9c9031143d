"""What every match of an expression has."""

import re

import pytest

from trainmark.logs.lines.literals import can_match, required
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import formats, synthetic_log


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (rb"\d+ step: (?P<step>\d+) of", (b" step: ",)),
        (rb"(?:abcdef)?xyz+", (b"xy",)),
        (rb"first (\d)|second", (b"first ", b"second")),
        (rb"(?:one|three)ab", (b"one", b"three")),
        (rb"[ab]|cdef", (b"",)),
        (rb"(?i:loss) value", (b" value",)),
    ],
)
def test_the_longest_required_words_are_found(pattern: bytes, words: tuple[bytes, ...]) -> None:
    assert required(re.compile(pattern)) == words


@pytest.mark.parametrize("known", formats(), ids=lambda known: known.name)
def test_the_prefilter_skips_no_log(known: object) -> None:
    text = synthetic_log(known.name, SampleRun([0.5] * 60, gpus=2, interval=5)).encode()  # type: ignore[attr-defined]

    patterns = [pattern for each in formats() for pattern in (*each.records, each.mark)]

    assert all(can_match(pattern, text) for pattern in patterns if pattern.search(text))
