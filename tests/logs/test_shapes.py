"""Lines of a text by their shape: the same but for which digit a digit is."""

import re

from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs.lines.bulk import fields_among_others
from trainmark.logs.lines.digits import Characters
from trainmark.logs.lines.fields import extract
from trainmark.logs.lines.shapes import DIGITS_ALIKE, MOST_SHAPES, Shapes, one_of_each, shapes_of

_LINE = re.compile(rb"step (?P<step>\d+), rate: (?P<rate>\S+) img")


def _rows(found: Shapes) -> list[list[int]]:
    """Return the numbers of the lines of each shape."""
    return [
        [row for table in found.tables for row in table.lines[table.kinds == number].tolist()]
        for number in range(len(found.examples))
    ]


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=20))
def test_lines_of_a_shape_differ_in_their_digits_only(lines: list[bytes]) -> None:
    text = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)

    found = shapes_of(text, Characters.of(text))

    assert found is not None
    whole = re.findall(rb"[^\n]*\n", text)
    assert sorted(row for rows in _rows(found) for row in rows) == list(range(len(whole)))
    for example, rows in zip(found.examples, _rows(found), strict=True):
        assert example == whole[rows[0]]
        assert {whole[row].translate(DIGITS_ALIKE) for row in rows} == {example.translate(DIGITS_ALIKE)}
    assert len({example.translate(DIGITS_ALIKE) for example in found.examples}) == len(found.examples)


def test_examples_come_in_the_order_of_the_text() -> None:
    text = b"a longer line\nb 1\nc\nb 2\n"

    found = shapes_of(text, Characters.of(text))

    assert found is not None
    assert found.examples == [b"a longer line\n", b"b 1\n", b"c\n"]
    assert _rows(found) == [[0], [1, 3], [2]]


def test_a_text_of_many_shapes_is_rejected() -> None:
    text = b"".join(b"x" * length + b"\n" for length in range(MOST_SHAPES + 1))

    assert shapes_of(text, Characters.of(text)) is None
    assert one_of_each(text * 100) == text * 100


def test_one_line_of_each_shape_keeps_every_value_that_is_not_finite() -> None:
    text = b"loss 1.25\n" * 2000 + b"loss nan\n" + b"loss 2.25\n" * 2000

    assert one_of_each(text) == b"loss 1.25\nloss nan\n"


def test_records_are_read_among_other_lines_whatever_their_widths() -> None:
    lines = [b"step %d, rate: %s img\nother %d\n" % (i, repr(i / 8).encode(), i) for i in range(3000)]

    found = fields_among_others(_LINE, b"".join(lines), None)

    assert found is not None
    columns, samples = found
    assert columns["step"].tolist() == list(range(3000))
    assert columns["rate"].tolist() == [i / 8 for i in range(3000)]
    assert b"other 0\n" in samples


def test_all_lines_are_returned_if_a_log_starts_again() -> None:
    lines = [b"step %d, rate: 5.5 img\n" % i for i in range(3000)]
    lines[2000:2000] = [b"Config: batch 32\n", b"Config: batch 64\n"]

    samples = b"".join(extract(_LINE, b"".join(lines), re.compile(rb"Config: ")).samples)

    assert b"batch 32" in samples
    assert b"batch 64" in samples
