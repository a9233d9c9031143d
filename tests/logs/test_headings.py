"""Records under a heading, of which only the first one counts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs.lines.headings import drop_unheaded

HEADING, RECORD = re.compile(rb"Epoch \d+/\d+\n"), re.compile(rb"done (\d+);")


def counted(*pieces: str) -> list[str]:
    """Return the numbers of the records that are left when the text comes in these pieces."""
    opened: bool | None = None
    found: list[str] = []
    for piece in pieces:
        text, opened = drop_unheaded(HEADING, RECORD, piece.encode(), opened)
        found += [number.decode() for number in RECORD.findall(text)]
    return found


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("done 1; done 2; ", ["1", "2"]),
        ("Epoch 1/2\ndone 1; done 2; Epoch 2/2\ndone 3; done 4; ", ["1", "3"]),
        ("done 1; Epoch 1/1\ndone 2; done 3; ", ["1", "2"]),
        ("Epoch 1/2\nEpoch 2/2\ndone 1; ", ["1"]),
    ],
    ids=["no heading", "evaluation in each epoch", "cut start", "an epoch without a record"],
)
def test_only_the_first_record_of_a_heading_counts(text: str, left: list[str]) -> None:
    assert counted(text) == left
    assert counted(*text.splitlines(keepends=True)) == left
    assert counted(*(part + "; " for part in text.split("; ")[:-1])) == left


def one_by_one(text: bytes, opened: bool | None) -> tuple[list[bytes], bool | None]:
    """Return the numbers of the records that count, and the next ``opened``, from one match after another."""
    found: list[bytes] = []
    for match in re.compile(HEADING.pattern + b"|" + RECORD.pattern).finditer(text):
        if match[1] is None:
            opened = True
        elif opened is not False:
            found.append(match[1])
            opened = opened and False
    return found, opened


PIECES = ("Epoch 1/2\n", "done 7; ", "Epoch 3: better\n", "undone;", "Epoch 1/2\ndone 8; ", "\n", "Epoch ")


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from([None, True, False]))
def test_parts_of_a_text_are_read_as_one_record_after_another(pieces: list[str], opened: bool | None) -> None:
    text = "".join(pieces).encode()

    left, after = drop_unheaded(HEADING, RECORD, text, opened)

    assert (RECORD.findall(left), after) == one_by_one(text, opened)
