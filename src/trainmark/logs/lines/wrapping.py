"""Text of logs that were wrapped: UTF-16, and lines as values of JSON objects, by containers and log collectors.

Docker writes ``{"log": "…\\n", "stream": "stdout", "time": "…"}``; Elasticsearch, Loki, Google Cloud and Python's JSON
loggers write the line as ``message``, ``line``, ``textPayload`` or ``msg``. Objects with numbers of their own are a
program's records, and stay as they are.
"""

import codecs
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if TYPE_CHECKING:
    from trainmark.logs.lines.digits import Ints
    from trainmark.logs.lines.json_frames import Frames
    from trainmark.logs.lines.json_outline import Spans, Strings
    from trainmark.logs.lines.json_page import Page

_Decode = Callable[[bytes], bytes]
_BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD_BYTES = 1 << 15
_LONGEST_LINE = 1 << 24
_PLAIN = bytes(range(7, 14)) + bytes(range(27, 127))
_MOSTLY = 0.9
"""Least share of characters that are plain ones in a text of UTF-16 without a byte order mark."""
_WRAPPED = 0.8
"""Least share of lines that are wrapped; the others are those of the collector."""
_TEXT_KEYS = ("textPayload", "log", "message", "msg", "line", "MESSAGE")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "asctime", "ts", "date")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_LINE_END = "\n"
_MOSTLY_ALIKE = 0.5
"""Least share of the lines whose text is found at once; fewer are decoded faster as JSON."""
_NUMBERS = frozenset(
    (
        *("lineno", "line_no", "levelno", "level", "priority", "severity_number"),
        *("process", "processid", "thread", "threadid", "pid", "tid", "rank", "local_rank", "node_rank"),
        *("ts", "time", "timestamp", "created", "msecs", "relativecreated"),
    )
)
"""Keys, in small letters, of numbers that loggers add to a line."""


class Unwrapping:
    """A reader of a stream that returns the text of a wrapped log, and any other stream as it is."""

    def __init__(self, stream: BinaryIO, *, with_times: bool) -> None:
        self._stream = stream
        self._with_times = with_times
        self._decode: _Decode | None = None
        self._is_known = False

    def read(self, size: int = -1) -> bytes:
        """Return about ``size`` bytes of text; empty at the end."""
        data = self._stream.read(size)
        if not self._is_known:
            self._decode, self._is_known = _decoder(data, with_times=self._with_times), True
        if self._decode is None:
            return data
        while not (text := self._decode(data)) and data:
            data = self._stream.read(size)
        return text


def unwrap(stream: BinaryIO, *, with_times: bool = False) -> BinaryIO:
    """Return ``stream`` as a reader of the text that its lines or its encoding wrap.

    ``with_times`` puts the time of a wrapped line behind it, where no pattern expects another end of the line.
    """
    return cast(BinaryIO, Unwrapping(stream, with_times=with_times))


def reads_times(records: Sequence[re.Pattern[bytes]]) -> bool:
    """Return whether a pattern reads a time stamp behind its other fields, as in a wrapped line."""
    return any(
        0 < pattern.groupindex.get("stamp", 0) == max(pattern.groupindex.values(), default=1) > 1
        for pattern in records
    )


def _decoder(start: bytes, *, with_times: bool) -> _Decode | None:
    """Return what decodes the pieces of a stream with that ``start``; None if nothing needs to."""
    if encoding := _wide_encoding(start):
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        return lambda data: decoder.decode(data, final=not data).encode()
    head = start[:_HEAD_BYTES]
    key = _text_key(head[: head.rfind(b"\n") + 1] or head) if b'{"' in head else None
    return _Objects(key, _TIME_KEYS if with_times else ()) if key is not None else None


def _wide_encoding(start: bytes) -> str | None:
    """Return the name of UTF-16 if ``start`` is of it, with or without a byte order mark."""
    if start.startswith(_BYTE_ORDER_MARKS):
        return "utf-16"
    head = start[: _HEAD_BYTES - len(start) % 2]
    halves = {"utf-16-le": (head[1::2], head[::2]), "utf-16-be": (head[::2], head[1::2])}
    for name, (high, low) in halves.items():
        if high.count(0) > _MOSTLY * len(high) and len(low.translate(None, _PLAIN)) < (1 - _MOSTLY) * len(
            low
        ):
            return name
    return None


def _text_key(head: bytes) -> str | None:
    """Return the key of the text in the objects of ``head``; None if its lines are no wrapped text."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    found = [one for line in lines if (one := _object(line)) is not None]
    if len(found) < _WRAPPED * len(lines) or any(map(_has_numbers, found)):
        return None
    return next(
        (key for key in _TEXT_KEYS if found and all(isinstance(one.get(key), str) for one in found)), None
    )


def _object(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(b"{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:  # the line is damaged, or no UTF-8
        return None
    return found if isinstance(found, dict) else None


def _has_numbers(one: dict[str, Any]) -> bool:
    return any(isinstance(value, int | float) and key.lower() not in _NUMBERS for key, value in one.items())


class _Objects:
    """Decodes pieces of lines that are JSON objects with the text at ``key``, and its time at one of ``times``."""

    def __init__(self, key: str, times: Sequence[str]) -> None:
        self._key, self._times = key, times
        self._carry = b""
        self._frames: Frames | None = None

    def __call__(self, data: bytes) -> bytes:
        from trainmark.logs.lines.digits import ROOM

        goes_on = data and len(self._carry) + len(data) < _LONGEST_LINE
        cut = data.rfind(b"\n") + 1 if goes_on else len(data)
        if not cut and data:
            self._carry += data
            return b""
        padded = b"".join((self._carry, memoryview(data)[:cut], bytes(ROOM)))
        self._carry = data[cut:]
        found = self._alike(padded)
        return self._different(padded[:-ROOM]) if found is None else found

    def _alike(self, padded: bytes) -> bytes | None:
        """Return the text in lines that mostly are objects alike; None if they are not, or one has no time."""
        from trainmark.logs.lines.json_frames import Frames
        from trainmark.logs.lines.json_page import Page
        from trainmark.logs.lines.json_texts import checked, join, join_strings

        page = Page.of(padded)
        if page is None:
            return None
        self._frames = self._frames or Frames(self._key, self._times)
        strings = self._frames.find(page)
        texts = None if strings is None else checked(page, strings)
        if texts is None or len(texts.strings.lines) < max(1, _MOSTLY_ALIKE * len(page.ends)):
            return None
        if texts.strings.times is None:
            return join(page, texts, self._different)
        ended = _with_times(page, texts.strings, texts.strings.times)
        return None if ended is None else join_strings(page, texts.strings, ended, self._different)

    def _different(self, lines: bytes) -> bytes:
        if b"{" not in lines:
            return lines
        texts = [self._text(one) for one in _objects_of(lines)]
        if texts and None not in texts:
            return "".join(cast(list[str], texts)).encode("utf-8", "replace")
        return b"".join(map(self._line, re.findall(rb"[^\n]*\n|[^\n]+", lines)))

    def _line(self, line: bytes) -> bytes:
        one = _object(line)
        text = None if one is None else self._text(one)
        if text is None and b"\r" in line[:-2]:  # an object may follow a line that is drawn anew
            return b"".join(map(self._line, line.splitlines(keepends=True)))
        return line if text is None else text.encode("utf-8", "replace")

    def _text(self, one: Any) -> str | None:
        """Return the text in an object; None if it has none."""
        text = one.get(self._key) if isinstance(one, dict) else None
        if not isinstance(text, str):
            return None
        time = next((time for key in self._times if _is_time(time := one.get(key))), None)
        return _ended(text, time, has_parts="stream" in one and "time" in one)


def _ended(text: str, time: str | None, *, has_parts: bool) -> str:
    """Return the text of an object with its end, and its ``time`` before that if there is one."""
    ends = text.endswith(_LINE_END)
    # Docker writes a line in parts, of which only the last one ends it; a progress bar begins with its line's end.
    is_part = not ends and has_parts
    if time is not None and (not is_part or text.startswith("\r")):
        text, ends = f"{text.rstrip()} {time}", False
    return text if ends or is_part else text + _LINE_END


def _with_times(page: "Page", strings: "Strings", spans: "Spans") -> list[bytes] | None:
    """Return the text of each line with its end and its time, which ``spans`` has; None if one is no time."""
    texts, times = (_strings(_slices(page.padded, *each)) for each in (strings.texts, spans))
    if not (texts and times and all(map(_is_time, times))):
        return None
    parts = strings.has_parts.tolist()
    ended = (_ended(text, time, has_parts=part) for text, time, part in zip(texts, times, parts, strict=True))
    return [text.encode("utf-8", "replace") for text in ended]


def _slices(lines: bytes, begins: "Ints", stops: "Ints") -> list[bytes]:
    return [lines[begin:stop] for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True)]


def _strings(words: list[bytes]) -> list[str] | None:
    """Return what strings of JSON stand for; None if one is damaged."""
    try:
        found: list[str] = json.loads(b'["' + b'","'.join(words) + b'"]')
    except ValueError:
        return None
    return found


def _objects_of(text: bytes) -> list[Any]:
    """Return the objects that are the lines of ``text``, decoded at once, which is fast; empty if a line is not one."""
    text = text.removesuffix(b"\n")
    ends = text.count(b"\n")
    if not (text.startswith(b"{") and text.endswith(b"}") and text.count(b"}\n{") == ends):
        return []
    try:
        found: list[Any] = json.loads(b"[" + text.replace(b"\n", b",") + b"]")
    except ValueError:  # a line is damaged, or no UTF-8
        return []
    return found if len(found) == ends + 1 else []


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and _TIME.match(value) is not None
