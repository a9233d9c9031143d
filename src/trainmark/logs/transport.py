"""Log input: splits the byte stream by rank and removes NULs and carriage returns.

The output is text of one rank at a time, in pieces of whole lines separated by ``\\n``. Colour codes stay in, because
removing them from every line costs as much as reading it; ``strip_colours`` removes them before a pattern is applied.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import BinaryIO

import numpy as np

PIECE_BYTES = 1 << 20
"""Large enough that the overhead per piece is negligible, small enough for a core's cache."""
_LARGEST_PIECE = 4
"""The most pieces that are read as one, where ranks share a stream."""
MAX_LINE_BYTES = 1 << 24
"""Longer lines are split: such a file is not a log, and memory stays bounded."""

COLOUR_CODE = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])")
_COMMON_CODES = (b"\x1b[0m", b"\x1b[32m")
# mpirun -tag-output ([job,rank]<stream>:), horovodrun (the same) and OpenMPI 5 ([namespace@job,rank]<stream>:).
_MPI_TAG = re.compile(rb"\[(?:\d{1,6}|([^\[\]<>\n,]{1,80})),(\d{1,6})\]<std(?:out|err|diag)>:")
_SPACED_MPI_TAG = re.compile(_MPI_TAG.pattern + rb" ?")
_MPI_STAMP = re.compile(rb"(?:[A-Z][a-z]{2} ){2}[ \d]\d \d\d:\d\d:\d\d \d{4}\Z")
_MPI_STAMP_BYTES = 24
_TORCHRUN_TAG = re.compile(rb"^\[(?:default|rank)(\d{1,6})\]: ?", re.MULTILINE)
_SRUN_TAG = re.compile(rb"^ *(\d{1,6}): ", re.MULTILINE)

_TAG = re.compile(
    rb"\[[^\[\]<>\n]{1,90},\d{1,6}\]<std(?:out|err|diag)>: ?|\[(?:default|rank)\d{1,6}\]: ?| *\d{1,6}: "
)
_TAG_OR_BEGIN = re.compile(rb"(?:^|(?<=\n)|(?<=\r)(?!\n))(?:" + _TAG.pattern + rb")?")

_TAGGED_BYTES = 4096
_FEWEST_COUNTED = 8
_ANGLE, _BLANK = b"< "
_ESCAPE, _COLOUR_END = b"\x1bm"
_LARGE_BYTES = 1 << 14
_WORD_BYTES = 8
_TAG_WORDS = 4
"""The longest tag that is found in bulk, in words of eight characters."""
_MIXING = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], np.uint64
)
"""Odd factors, one for each word, whose sum of products tells tags apart."""

Rank = int | None


@dataclass(slots=True)
class Demultiplexer:
    """Splits a stream into one text per rank; stores the unfinished last line of each."""

    ranks: set[int] = field(default_factory=set)
    _unfinished: dict[tuple[Rank, bytes], bytes] = field(default_factory=dict)
    _current: tuple[Rank, bytes] = (None, b"")
    _is_counted: bool = False
    """Set once the numbers before the lines are known to be a counter: the last piece may have too few to tell."""

    def split(self, piece: bytes) -> list[tuple[Rank, bytes]]:
        """Return the clean text of ``piece`` by rank; without tags it is all of rank ``None``."""
        # Single characters that are rare in a log are found many times faster than a longer word.
        if b"<" in piece and b">" in piece and b"]<std" in piece:
            # A tag may be inside a colour code: split by rank first.
            # An empty list is an answer: each of these stores an unfinished line.
            by_rank = self._by_mpi_tag_a_line(piece)
            by_rank = self._by_one_mpi_tag(piece) if by_rank is None else by_rank
            by_rank = self._by_mpi_tag(piece) if by_rank is None else by_rank
            return [(rank, clean(text)) for rank, text in by_rank]
        piece = clean(piece)
        # The launcher's own first lines have no tag: check the end of the piece as well.
        parts = dict.fromkeys((piece[:_TAGGED_BYTES], piece[-_TAGGED_BYTES:]))
        ends = [strip_colours(part) for part in parts]
        for tag in (_TORCHRUN_TAG, _SRUN_TAG):
            if any(_tags_most_lines(tag, part) for part in ends) and not self._counts(tag, piece):
                fast = self._by_tag_a_line(tag, piece)
                return self._by_line_tag(tag, strip_colours(piece)) if fast is None else fast
        if self._current[0] is not None or self._unfinished:
            return self._flush_into([(self._current, piece)])
        return [(None, piece)]

    def _counts(self, tag: re.Pattern[bytes], piece: bytes) -> bool:
        """Return whether what ``tag`` matches is a counter of steps and no rank."""
        self._is_counted = self._is_counted or (not self.ranks and _counts_lines(tag, piece))
        return self._is_counted

    def rest(self) -> list[tuple[Rank, bytes]]:
        """Return the text of lines without a line end."""
        left = [(key[0], clean(text)) for key, text in self._unfinished.items() if text]
        self._unfinished.clear()
        return left

    def _by_mpi_tag_a_line(self, piece: bytes) -> list[tuple[Rank, bytes]] | None:
        """Return the text of a piece whose lines all begin with a tag (fastest path); ``None`` for other pieces."""
        match = _MPI_TAG.search(piece, 0, _TAGGED_BYTES)
        if match is None or match.start() not in (0, _MPI_STAMP_BYTES) or not piece.endswith(b"\n"):
            return None
        stamp_bytes = match.start()
        lines = _Lines(piece)
        if lines.count_of(_ANGLE) != len(lines.starts):
            return None
        if stamp_bytes and not all(map(_MPI_STAMP.fullmatch, lines.changing(stamp_bytes))):
            return None
        if match[1] is None and lines.all_have(match[0], stamp_bytes):
            self._current = self._mpi_key(match)
            return self._flush_into([(self._current, lines.without(stamp_bytes + len(match[0])))])
        blank = match[1] is not None
        by_tag = lines.by_tag(_SPACED_MPI_TAG if blank else _MPI_TAG, b"<stdout>:", stamp_bytes, blank=blank)
        last = _MPI_TAG.match(piece, int(lines.starts[-1]) + stamp_bytes)
        if by_tag is None or last is None:
            return None
        segments = [(self._mpi_key(tag), text) for tag, text in by_tag]
        self._current = self._mpi_key(last)
        return self._flush_into(segments)

    def _mpi_key(self, tag: re.Match[bytes]) -> tuple[Rank, bytes]:
        """Return rank and stream of a tag."""
        rank = int(tag[2])
        self.ranks.add(rank)
        return rank, b"e" if b"<stderr" in tag[0] else b"o"

    def _by_one_mpi_tag(self, piece: bytes) -> list[tuple[Rank, bytes]] | None:
        """Return the text of a piece printed by one rank only (fast path); ``None`` for several ranks."""
        match = _MPI_TAG.search(piece)
        if match is None or match[1] is not None:
            return None
        tag = match[0]
        parts = piece.split(tag)
        if piece.count(b"]<std") != len(parts) - 1:
            return None
        # Either all tags follow a time stamp or none does; stamps change only every second.
        stamps = {part[-_MPI_STAMP_BYTES:] for part in parts[:-1]}
        stamped = sum(1 for stamp in stamps if _MPI_STAMP.fullmatch(stamp))
        if stamped not in (0, len(stamps)):
            return None
        if stamped:
            parts[:-1] = [part[:-_MPI_STAMP_BYTES] for part in parts[:-1]]
        before, after = parts[0], b"".join(parts[1:])
        key = self._mpi_key(match)
        segments = [(self._current, before), (key, after)]
        self._current = key
        return self._flush_into(segments)

    def _by_mpi_tag(self, piece: bytes) -> list[tuple[Rank, bytes]]:
        segments: list[tuple[tuple[Rank, bytes], bytes]] = []
        position = 0
        for match in _MPI_TAG.finditer(piece):
            end = match.start()
            stamp = _MPI_STAMP.search(piece, max(position, end - _MPI_STAMP_BYTES), end)
            segments.append((self._current, piece[position : stamp.start() if stamp else end]))
            # mpirun tags each write, which may be half a line: the rank's text continues after its next tag.
            self._current = self._mpi_key(match)
            blank = match[1] is not None and piece[match.end() : match.end() + 1] == b" "
            position = match.end() + blank
        segments.append((self._current, piece[position:]))
        return self._flush_into(segments)

    def _by_tag_a_line(self, tag: re.Pattern[bytes], piece: bytes) -> list[tuple[Rank, bytes]] | None:
        """Return the text of a piece whose lines all have a rank's tag (fast path); ``None`` for other pieces."""
        match = tag.match(piece)
        if match is None or not piece.endswith(b"\n") or self._unfinished:
            return None
        lines = _Lines(piece)
        if lines.all_have(match[0], 0):
            by_tag: list[tuple[re.Match[bytes], bytes]] | None = [(match, lines.without(len(match[0])))]
        else:
            by_tag = lines.by_tag(tag, b":", 0, blank=True)
        last = tag.match(piece[int(lines.starts[-1]) :])
        if by_tag is None or last is None:
            return None
        self.ranks.update(int(found[1]) for found, _ in by_tag)
        self._current = (int(last[1]), b"o")
        return [(int(found[1]), text) for found, text in by_tag]

    def _by_line_tag(self, tag: re.Pattern[bytes], piece: bytes) -> list[tuple[Rank, bytes]]:
        segments: list[tuple[tuple[Rank, bytes], bytes]] = []
        position = 0
        for match in tag.finditer(piece):
            segments.append((self._current, piece[position : match.start()]))
            rank = int(match[1])
            self.ranks.add(rank)
            self._current = (rank, b"o")
            position = match.end()
        segments.append((self._current, piece[position:]))
        return self._flush_into(segments)

    def _flush_into(self, segments: list[tuple[tuple[Rank, bytes], bytes]]) -> list[tuple[Rank, bytes]]:
        gathered: dict[tuple[Rank, bytes], list[bytes]] = {}
        for key, text in segments:
            if text:
                gathered.setdefault(key, []).append(text)
        whole: list[tuple[Rank, bytes]] = []
        for key, texts in gathered.items():
            text = self._unfinished.pop(key, b"") + b"".join(texts)
            cut = text.rfind(b"\n") + 1
            if len(text) - cut > MAX_LINE_BYTES:
                cut = len(text)
            if cut < len(text):
                self._unfinished[key] = text[cut:]
            if cut:
                whole.append((key[0], text[:cut]))
        return whole


def longest_rank(text: bytes) -> bytes:
    """Return the lines of the rank that prints most, without its tags; all of ``text`` if no line has a tag."""
    streams = Demultiplexer()
    found: dict[Rank, list[bytes]] = {}
    for rank, part in (*streams.split(text), *streams.rest()):
        found.setdefault(rank, []).append(part)
    tagged = {rank: b"".join(parts) for rank, parts in found.items() if rank is not None}
    if not tagged:
        return clean(text)
    return max(tagged.values(), key=len)


def begin_lines(text: bytes, word: bytes) -> bytes:
    """Return whole lines with ``word`` before each of them, after the tag of its rank if it has one."""
    if not text:
        return text
    body, end = text[:-1], text[-1:]
    if any(_TAG.match(line) for line in text[:_TAGGED_BYTES].splitlines()):
        return _TAG_OR_BEGIN.sub(lambda found: found[0] + word, body) + end
    if b"\r" in body:
        return word + re.sub(rb"\r\n|[\r\n]", lambda found: found[0] + word, body) + end
    return word + body.replace(b"\n", b"\n" + word) + end


class _Lines:
    """Whole lines and their first characters."""

    def __init__(self, piece: bytes) -> None:
        from trainmark.logs.digits import Characters

        self._piece = piece
        self._characters = Characters.of(piece)
        self._single = self._characters.single[: len(piece)]
        self._ends = self._characters.line_ends()
        self.starts = np.concatenate(([0], self._ends[:-1]))

    def count_of(self, character: int) -> int:
        """Return the number of occurrences of ``character``."""
        return int(np.count_nonzero(self._single == character))

    def all_have(self, word: bytes, place: int) -> bool:
        """Return whether each line has ``word`` at offset ``place``."""
        return self._characters.all_have(word, self.starts + place)

    def by_tag(
        self, tag: re.Pattern[bytes], end: bytes, place: int, *, blank: bool
    ) -> list[tuple[re.Match[bytes], bytes]] | None:
        """Return the lines of each tag, joined and without it, in order of the first; ``None`` if a line has no tag.

        A tag begins at offset ``place`` of its line; it ends as long after the first character of ``end`` as ``end``
        is, or with ``blank`` after one that follows. ``tag`` matches all of it.
        """
        closing = np.append(np.flatnonzero(self._single == end[0]), len(self._single))
        begins = self.starts + place
        sizes = closing[np.searchsorted(closing, begins)] + len(end) - begins
        if (begins + sizes >= self._ends).any() or sizes.max() >= _WORD_BYTES * _TAG_WORDS:
            return None
        if blank:
            sizes += self._single[begins + sizes] == _BLANK
        words = self._characters.prefixes(begins, sizes, _TAG_WORDS)
        _, firsts, kinds = np.unique((words * _MIXING).sum(axis=1), return_index=True, return_inverse=True)
        if (words != words[firsts][kinds]).any():
            return None
        order = np.argsort(kinds, kind="stable")
        spans = zip((begins + sizes)[order].tolist(), self._ends[order].tolist(), strict=True)
        lines = [self._piece[begin:end_] for begin, end_ in spans]
        bounds = np.cumsum(np.bincount(kinds)).tolist()
        found: list[tuple[re.Match[bytes], bytes]] = []
        for kind in np.argsort(firsts).tolist():
            begin = int(begins[firsts[kind]])
            match = tag.fullmatch(self._piece[begin : begin + int(sizes[firsts[kind]])])
            if match is None:
                return None
            found.append((match, b"".join(lines[bounds[kind - 1] if kind else 0 : bounds[kind]])))
        return found

    def changing(self, size: int) -> Iterator[bytes]:
        """Yield the first ``size`` characters (a multiple of eight) of each line that begins unlike the one before."""
        words = [self._characters.words(self.starts + at) for at in range(0, size, 8)]
        anew = np.logical_or.reduce([word[1:] != word[:-1] for word in words])
        for start in (0, *self.starts[1:][anew].tolist()):
            yield self._piece[start : start + size]

    def without(self, size: int) -> bytes:
        """Return the lines without their first ``size`` characters, which all of them have."""
        runs = np.stack((np.full(len(self.starts), size), self._ends - self.starts - size), axis=1)
        selected = np.repeat(np.arange(runs.size) % 2 == 1, runs.reshape(-1))
        rest: bytes = self._single[selected].tobytes()
        return rest


def clean(piece: bytes) -> bytes:
    """Return ``piece`` without NULs, every line end as ``\\n``; free if there is nothing to replace."""
    if b"\0" in piece:
        piece = piece.replace(b"\0", b"")
    if b"\r" in piece:
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return piece


def strip_colours(text: bytes) -> bytes:
    """Return ``text`` without terminal escape codes."""
    if b"\x1b" not in text:
        return text
    if len(text) > _LARGE_BYTES and (plain := _without_short_codes(text)) is not None:
        return plain
    # Loggers use few codes; replacing those first is ten times faster than the pattern alone.
    for code in _COMMON_CODES:
        text = text.replace(code, b"")
    return COLOUR_CODE.sub(b"", text) if b"\x1b" in text else text


def _without_short_codes(text: bytes) -> bytes | None:
    """Return ``text`` without escape codes, in bulk; ``None`` if one is no colour of at most eight characters."""
    from trainmark.logs.digits import Characters

    characters = Characters.of(text)
    starts = np.flatnonzero(characters.single == _ESCAPE)
    sizes = characters.before(_COLOUR_END, starts) + 1
    if sizes.max() > _WORD_BYTES:
        return None
    codes = np.unique(characters.prefixes(starts, sizes, 1))
    if not all(COLOUR_CODE.fullmatch(code.tobytes().rstrip(b"\0")) for code in codes):
        return None
    spans = zip([0, *(starts + sizes).tolist()], [*starts.tolist(), len(text)], strict=True)
    return b"".join([text[begin:end] for begin, end in spans])


def read_pieces(
    stream: BinaryIO, size: int = PIECE_BYTES, ranks: Collection[int] = frozenset()
) -> Iterator[bytes]:
    """Yield the bytes of ``stream`` in pieces of about ``size`` that end at a line's end; the last may not.

    Pieces are larger once several ``ranks`` are known to share the stream: the overhead is per rank.
    """
    carry = b""
    while data := stream.read(size * min(max(len(ranks), 1), _LARGEST_PIECE)):
        cut = data.rfind(b"\n") + 1 or data.rfind(b"\r") + 1
        if not cut and len(carry) + len(data) < MAX_LINE_BYTES:
            carry += data
            continue
        cut = cut or len(data)
        yield b"".join((carry, memoryview(data)[:cut]))
        carry = data[cut:]
    if carry:
        yield carry


def _counts_lines(tag: re.Pattern[bytes], piece: bytes) -> bool:
    """Return whether the numbers of ``tag`` only rise, as a counter of steps does: ``120: loss 2.41``."""
    numbers = [int(number) for number in tag.findall(piece)]
    return len(numbers) >= _FEWEST_COUNTED and all(one < other for one, other in pairwise(numbers))


def _tags_most_lines(tag: re.Pattern[bytes], part: bytes) -> bool:
    if not tag.search(part):
        return False
    lines = [line for line in part.splitlines()[1:-1] if line] or [part]
    return sum(1 for line in lines if tag.match(line)) * 10 >= len(lines) * 8
