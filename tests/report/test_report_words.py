"""The catalogues of sentences and the numbers for people."""

import re
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.report import Language
from trainmark.report.context import COMMON
from trainmark.report.language import MOST_DECIMALS, catalogue, decimals, number
from trainmark.schema.outcome import Outcome


def places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


def test_all_languages_have_the_same_sentences_with_the_same_places() -> None:
    english = catalogue(Language.EN).sentences
    for language in Language:
        other = catalogue(language).sentences
        assert other.keys() == english.keys()
        differing = [
            key for key in english if places(other[key]) != places(english[key]) and not key.endswith("_one")
        ]
        assert differing == []


def test_every_sentence_is_text() -> None:
    for language in Language:
        assert [k for k, v in catalogue(language).sentences.items() if not isinstance(v, str)] == []


def test_chinese_sentences_are_chinese() -> None:
    """Only names, signs and words that the field leaves untranslated may have no Chinese character in them."""
    untranslated = {
        key
        for key, text in catalogue(Language.ZH).sentences.items()
        if not re.search("[一-鿿，。：；]", text)
    }
    assert untranslated == {
        "language_en", "space", "aspect_is", "outcome_oom", "fact_gpus", "fact_python", "fact_cuda", "fact_cudnn",
        "fact_nccl", "processors", "batch_in_cell", "bound_others", "work",
    }  # fmt: skip


@pytest.mark.parametrize("language", list(Language))
def test_every_outcome_and_every_aspect_has_a_word(language: Language) -> None:
    say = catalogue(language)
    assert all(say.outcome(outcome) for outcome in Outcome)
    assert all(say(f"aspect_{aspect}") for aspect in COMMON)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([355.69, 2791.98, 10523.32], 1),
        ([21259.81], 0),
        ([0.727], 4),
        ([9.25, 120.0], 3),
        ([], 0),
        ([0.0], 0),
    ],
)
def test_a_column_has_four_significant_digits_for_its_smallest_number(
    values: list[float], expected: int
) -> None:
    assert decimals(values) == expected


@given(st.floats(1e-3, 1e9))
def test_a_number_for_people_is_within_half_of_its_fourth_digit(value: float) -> None:
    shown = float(number(value))
    assert abs(shown - value) <= max(value * 0.5e-3, 0.5 * 10**-MOST_DECIMALS) * (1 + 1e-9)
