"""Text in JSON objects of any form: found in bulk, it is what each line alone, decoded as JSON, has."""

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.logs.lines.wrapping import unwrap

_TIME = "2026-05-14T09:12:33.123456789Z"
_TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet='\\"/\n\t\r\b\x00\x1b<é█😀abn7{},:', max_size=12),
    st.just("x" * 400),
)
_NUMBERS = st.one_of(st.integers(-20, 2000), st.floats(allow_nan=False), st.booleans(), st.none())
_STRINGS = st.sampled_from(["stdout", "stderr", "a\\b", 'say "x"', "", "größer", _TIME, _TIME[:-2] + "Z"])
_BROKEN = st.sampled_from(
    [
        *(b"plain text", b"", b"{", b'{"log": 3}', b'{"message": "cut', b"[1, 2]", b'"log"', b" {}"),
        *(b'{"log": "a", "log": "b"}', b'{"log": "\\ud800"}', b'{"log": "\\ud83d\\ude00"}', b'{"log": "\t"}'),
        *(
            b'{"log": "\\x"}',
            b'{"log": "\xff"}',
            b'{"log": "\\u00g0"}',
            b'{"log": "a\\u000a"}',
            b'{"log": 007}',
        ),
    ]
)

_START = b'{"log": "the first line of many"}\n' * 1000
"""More than is read to recognise a wrapped log: the objects after it may have numbers of their own."""


@st.composite
def _objects(draw: st.DrawFn) -> list[bytes]:
    """Return lines of objects with the same keys, most of them in one order, and others between them."""
    others = draw(st.dictionaries(st.sampled_from(["stream", "time", "level", "n", "labels"]), st.booleans()))
    spaced, is_ascii = draw(st.booleans()), draw(st.booleans())
    separators = (", ", ": ") if spaced else (",", ":")

    def line(text: str, *, shuffled: bool) -> bytes:
        items: dict[str, Any] = {
            key: draw(_NUMBERS if is_number and key == "n" else _STRINGS) for key, is_number in others.items()
        }
        items["log"] = text
        keys = draw(st.permutations(sorted(items))) if shuffled else sorted(items)
        ordered = {key: {"a": [items[key]]} if key == "labels" else items[key] for key in keys}
        return json.dumps(ordered, separators=separators, ensure_ascii=is_ascii).encode("utf-8", "replace")

    found = [line(f"step {number}\n", shuffled=False) for number in range(30)]
    for text in draw(st.lists(_TEXTS, max_size=25)):
        found.insert(draw(st.integers(0, len(found))), line(text, shuffled=draw(st.integers(0, 9)) == 0))
    for number in draw(st.lists(st.integers(20, len(found) - 1), max_size=3)):
        found[number] = _damaged(draw, found[number])
    for broken in draw(st.lists(_BROKEN, max_size=4)):
        found.insert(draw(st.integers(0, len(found))), broken)
    return found


def _damaged(draw: st.DrawFn, line: bytes) -> bytes:
    """Return a line with a character more, or with another one."""
    place = draw(st.integers(0, max(len(line) - 1, 0)))
    more = draw(st.sampled_from([b'"', b"\\", b"\t", b"0", b"}", b",", b"\xc3", b"n", b'","b":"']))
    return line[:place] + more + line[place + draw(st.integers(0, 1)) :]


def _alone(line: bytes) -> bytes:
    """Return the text of one line, decoded by the book."""
    try:
        found = json.loads(line) if line.startswith(b"{") else None
    except ValueError:
        return line
    if not isinstance(found, dict) or not isinstance(found.get("log"), str):
        return line
    text: str = found["log"]
    is_part = not text.endswith("\n") and "stream" in found and "time" in found
    return (text if is_part or text.endswith("\n") else text + "\n").encode("utf-8", "replace")


def _read(data: bytes, size: int) -> bytes:
    stream, found = unwrap(io.BytesIO(data)), b""
    while part := stream.read(size):
        found += part
    return found


@given(lines=_objects(), end=st.sampled_from([b"\n", b"\r\n"]), size=st.sampled_from([len(_START), 1 << 12]))
@settings(max_examples=200, deadline=None)
def test_text_found_in_bulk_is_what_each_line_alone_has(lines: list[bytes], end: bytes, size: int) -> None:
    whole = [line + end for line in lines]

    assert _read(_START + b"".join(whole), size) == _read(_START, size) + b"".join(map(_alone, whole))


@pytest.mark.parametrize("end", [b"\\n", b"", b"\\\\n", b"\\u000a", b"\\n\\n"])
@pytest.mark.parametrize("last", [b"}", b',"stream":"stdout","time":"2026-05-14T09:12:33Z"}'])
def test_all_lines_may_end_alike(end: bytes, last: bytes) -> None:
    """A backslash and an ``n`` at the text's end are no line end where another backslash escapes the first."""
    lines = [b'{"log":"step %d%s"%s\n' % (step, end, last) for step in range(100)]

    assert _read(b"".join(lines), 1 << 20) == b"".join(map(_alone, lines))


@pytest.mark.parametrize("escape", ["\\", '"', "\t", "/", "\x00", "\x7f", "é", "\u2588", "\ud7ff", "\ue000"])
def test_an_escape_in_each_line_is_replaced_by_its_character(escape: str) -> None:
    numbered = f"\\u{ord(escape):04X}".encode()
    words = [json.dumps(escape).encode()[1:-1], numbered, b"\\\\" + numbered[1:], b"\\\\" + numbered]
    lines = [
        b'{"log":"%s step %d %s\\n","time":"%09d"}\n' % (word, step, word, step)
        for step in range(50)
        for word in words
    ]

    assert _read(b"".join(lines), 1 << 20) == b"".join(map(_alone, lines))


def test_lines_of_many_lengths_are_read() -> None:
    lines = [
        b'{"id":"%s","log":"step %d","host":"%s"}\n' % (b"i" * (step % 37), step, b"h" * (step % 41))
        for step in range(3000)
    ]

    assert _read(b"".join(lines), 1 << 16) == b"".join(b"step %d\n" % step for step in range(3000))
