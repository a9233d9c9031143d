"""Log input: finds and unpacks files, splits the byte stream by rank and removes NULs and carriage returns.

Logs are given files, those of walked folders, and those of trainmark's runs, without binaries. Modules that unpack are
imported for a packed log only, as most logs are text.

The output is text of one rank at a time, in pieces of whole lines separated by ``\\n``. Colour codes stay in, because
removing them from every line costs as much as reading it; ``strip_colours`` removes them before a pattern is applied.
"""

import os
import re
import stat
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from io import BufferedReader, RawIOBase
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

import numpy as np

from trainmark.errors import InputError
from trainmark.schema.names import EVENTS, LOG, OUTCOME, RUNS, SUITE

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
_GZIP, _BZIP2, _XZ, _ZSTANDARD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"
_LONGEST_MAGIC = 5
_COPY_IN_MEMORY_BYTES = 4 << 20
_NAMES = {_GZIP: "gzip", _BZIP2: "bzip2", _XZ: "xz", _ZSTANDARD: "Zstandard"}
_BINARY_SIGNS = (b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff")
_ARCHIVES = (
    *(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst"),
    ".zip",
)
_ENDLESS = ("zero", "random", "urandom", "full")


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
        from trainmark.logs.lines.digits import Characters

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
    from trainmark.logs.lines.digits import Characters

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


class DamagedError(Exception):
    """A compressed stream is damaged or cut; its text says what and why."""


class UnusableFileError(OSError):
    """A file that is no log: a pipe that nothing writes to, a device."""


@contextmanager
def open_log(path: str | Path) -> Iterator[BinaryIO]:
    """Yield the file at ``path``, also a named pipe; raise ``UnusableFileError`` where reading would never end."""
    mode = os.stat(path).st_mode  # noqa: PTH116 - a path object takes longer than the call
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and Path(path).name in _ENDLESS):
        raise UnusableFileError("is a device, not a log")
    if not stat.S_ISFIFO(mode):
        with open(path, "rb") as file:  # noqa: PTH123
            yield file
        return
    # Opening it the usual way would wait for a writer without end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        start = pipe.read(PIECE_BYTES)
        if start == b"":
            raise UnusableFileError("is a pipe that nothing writes to")
        os.set_blocking(descriptor, True)
        yield cast(BinaryIO, BufferedReader(_Joined(start or b"", cast(BinaryIO, pipe)), PIECE_BYTES))


@contextmanager
def unpack(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield ``stream`` unpacked; the first bytes of a pipe, which cannot seek, are put back in front."""
    start = stream.read(_LONGEST_MAGIC)
    joined: BinaryIO
    if stream.seekable():
        stream.seek(-len(start), os.SEEK_CUR)
        joined = stream
    else:
        joined = cast(BinaryIO, BufferedReader(_Joined(start, stream), PIECE_BYTES))
    kind = next((magic for magic in _NAMES if start.startswith(magic)), None)
    if kind is None:
        yield joined
        return
    yield cast(BinaryIO, _Salvaging(_opened(kind, joined), _NAMES[kind]))


def _opened(kind: bytes, packed: BinaryIO) -> Any:
    if kind == _ZSTANDARD:
        return _Zstandard(packed)
    module = import_module({_GZIP: "gzip", _BZIP2: "bz2", _XZ: "lzma"}[kind])
    return module.open(packed, "rb")


class _Zstandard:
    """A reader of Zstandard frames, which raises ``EOFError`` for a cut one as the standard library's readers do."""

    def __init__(self, packed: BinaryIO) -> None:
        try:
            import zstandard
        except ModuleNotFoundError:
            raise UnusableFileError(
                "is compressed by Zstandard, for which zstandard is not installed: pip install 'trainmark[zstd]'"
            ) from None

        self._packed, self._new = packed, zstandard.ZstdDecompressor().decompressobj
        self._frame = self._new()
        self._rest, self._started = b"", False

    def read1(self, _size: int) -> bytes:
        """Return the next decompressed bytes; empty at the end."""
        import zstandard

        while True:
            data = self._rest or self._packed.read(PIECE_BYTES // 8)
            self._rest = b""
            if not data:
                if self._started and not self._frame.eof:
                    raise EOFError("the last frame has no end")
                return b""
            if self._frame.eof:
                self._frame = self._new()
            self._started = True
            try:
                text = self._frame.decompress(data)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from None
            self._rest = self._frame.unused_data if self._frame.eof else b""
            if text:
                return bytes(text)


class _Salvaging:
    """A reader of a compressed stream that returns all readable data before it raises ``DamagedError``."""

    def __init__(self, packed: Any, name: str) -> None:
        self._packed = packed
        self._name = name
        self._damage: DamagedError | None = None

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer at the end; raise ``DamagedError`` once no readable data is left."""
        from lzma import LZMAError

        parts: list[bytes] = []
        try:
            while size > 0 and self._damage is None and (part := self._packed.read1(size)):
                parts.append(part)
                size -= len(part)
        except (EOFError, zlib.error, LZMAError, OSError, ValueError) as error:
            self._damage = DamagedError(f"the {self._name} stream is damaged or cut: {error}")
        if self._damage is not None and not parts:
            raise self._damage
        return b"".join(parts)


def is_archive(path: str | Path) -> bool:
    """Return whether a file's name is that of a tar or zip archive."""
    return str(path).lower().endswith(_ARCHIVES)


def forward(stream: BinaryIO) -> BinaryIO:
    """Return ``stream`` as one that does not seek: an archive is read once, from its beginning to its end."""
    return cast(BinaryIO, BufferedReader(_Joined(b"", stream), PIECE_BYTES))


class _Joined(RawIOBase):
    """A stream with some bytes put back in front of it."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer`` and return the number of bytes; 0 at the end."""
        into = memoryview(buffer)
        if self._start:
            data, self._start = self._start[: len(into)], self._start[len(into) :]
        else:
            data = self._rest.read(len(into))
        into[: len(data)] = data
        return len(data)


class Recording(RawIOBase):
    """A stream that copies the bytes read from it, in memory and then to a temporary file, until ``discard``."""

    def __init__(self, source: BinaryIO) -> None:
        import tempfile

        super().__init__()
        self._source = source
        self._copy: IO[bytes] | None = tempfile.SpooledTemporaryFile(_COPY_IN_MEMORY_BYTES)  # noqa: SIM115

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer`` and return the number of bytes; 0 at the end."""
        into = memoryview(buffer)
        data = self._source.read(len(into))
        into[: len(data)] = data
        if self._copy is not None:
            self._copy.write(data)
        return len(data)

    def discard(self) -> None:
        """Delete the copy and make no further one."""
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def replay(self) -> BinaryIO | None:
        """Return the copy from its first byte; None after ``discard``."""
        if self._copy is not None:
            self._copy.seek(0)
        return cast("BinaryIO | None", self._copy)


def binary_kind(piece: bytes) -> str | None:
    """Return the kind of binary that begins with ``piece``; ``None`` for text."""
    head = piece[:4096]
    if head.startswith(_BINARY_SIGNS):
        return "a binary or archive; logs are read from gzip, bzip2, xz, Zstandard, tar and zip"
    odd = len(head.translate(None, bytes(range(7, 14)) + bytes(range(27, 256))))
    return "a binary" if odd > max(2, 0.02 * len(head)) else None


class FoundPath(NamedTuple):
    """A path to read, a path that cannot be walked (with its ``error``), or a ``note`` on files that are not read."""

    path: str
    error: str | None = None
    note: str | None = None


def find_logs(paths: list[str]) -> Iterator[FoundPath]:
    """Yield the paths to read, sorted within a folder, without hidden files and special files.

    In a run's folder only its events are read, or its log if it has no events; in a result directory only its runs.
    Raises ``InputError`` at once for a path that does not exist. An unreadable folder is yielded with its error, and
    the walk continues.
    """
    for path in paths:
        if path != "-" and not os.path.lexists(path):
            raise InputError(f"{path}: no such file or folder")
    return _walk(paths)


def log_of_run(folder: Path) -> Path | None:
    """Return the file to read in a run's folder: its events, else its log; None if it is not a run's folder."""
    if not (folder / OUTCOME).is_file():
        return None
    events = folder / EVENTS
    return events if events.is_file() and events.stat().st_size else folder / LOG


def _walk(paths: list[str]) -> Iterator[FoundPath]:
    for path in paths:
        if path != "-" and Path(path).is_dir():
            yield from _in_folder(path)
            continue
        own = log_of_run(Path(path).parent) if Path(path).name == LOG else None
        if own is None or own.name == LOG:
            yield FoundPath(path)
        else:
            yield FoundPath(
                path,
                note=f"this is the output of a trainmark run; {EVENTS} in the same folder is read instead",
            )
            yield FoundPath(str(own))


def _in_folder(path: str) -> Iterator[FoundPath]:
    refused: list[OSError] = []
    runs: list[Path] = []
    for folder, folders, files in os.walk(path, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from _refused(refused)
        shown = [name for name in sorted(files) if not name.startswith(".")]
        if own := log_of_run(Path(folder)):
            folders[:] = []
            # A probe run only checks whether a batch fits.
            if Path(folder).name.isdecimal() and own.is_file():
                yield FoundPath(str(own))
        elif all(name in (*files, *folders) for name in (SUITE, RUNS)):
            folders[:] = [RUNS]
            runs.append(Path(folder, RUNS))
            note = f"a result directory: only {EVENTS} or {LOG} of each run is read"
            yield FoundPath(folder, note=note)
        elif any(Path(folder).is_relative_to(place) for place in runs):
            # An interrupted run has no outcome, and its files are not logs of other programs.
            continue
        else:
            # One path object, not one for each of 100 000 files.
            start = str(Path(folder) / "_")[:-1]
            yield from (FoundPath(start + name) for name in shown if os.path.isfile(start + name))  # noqa: PTH113
    yield from _refused(refused)


def _refused(errors: list[OSError]) -> Iterator[FoundPath]:
    while errors:
        error = errors.pop(0)
        yield FoundPath(str(error.filename), f"the folder cannot be read: {error.strerror or error}")
