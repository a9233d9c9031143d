"""The formats that a log is read by: a few given ones, or all known ones, of which only candidates are loaded.

Sixty formats have five hundred regular expressions, and a log matches those of a handful. The words that each match
contains (``literals``) are enough to leave out the others before their expressions are compiled.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.format import Format
from trainmark.logs.literals import required, required_all


class KnownFormats(Protocol):
    """Formats to choose from; their order decides between formats that match equally well."""

    def candidates(self, text: bytes) -> Sequence[Format]:
        """Return the formats of which a pattern may match in ``text``: all that match, and maybe others."""

    def harnesses(self, text: bytes) -> Sequence[Format]:
        """Return the candidates that accompany another program."""


class GivenFormats(NamedTuple):
    """A few loaded formats; each is a candidate for every text."""

    formats: tuple[Format, ...]

    def candidates(self, _text: bytes) -> Sequence[Format]:
        """Return all formats."""
        return self.formats

    def harnesses(self, _text: bytes) -> Sequence[Format]:
        """Return the formats that accompany another program."""
        return [known for known in self.formats if known.accompanies]


class ProgramFormats(NamedTuple):
    """The formats of programs without those that accompany them."""

    known: KnownFormats

    def candidates(self, text: bytes) -> Sequence[Format]:
        """Return the candidates that are printed by programs themselves."""
        return [known for known in self.known.candidates(text) if not known.accompanies]

    def harnesses(self, _text: bytes) -> Sequence[Format]:
        """Return none."""
        return ()


class PatternWords(NamedTuple):
    """Words in each match of one pattern: at least one of ``any_of`` and every one of ``all_of``."""

    any_of: tuple[bytes, ...]
    all_of: tuple[bytes, ...]


class FormatWords(NamedTuple):
    """A format that is not loaded: its name, and the words of each pattern by which it is recognised."""

    name: str
    accompanies: bool
    patterns: tuple[PatternWords, ...]


def words_of(known: Format) -> FormatWords:
    """Return the words of a format's records, figures and mark."""
    patterns = (*known.records, *known.figures.values(), known.mark)
    found = {PatternWords(required(each), required_all(each)): None for each in patterns}
    return FormatWords(known.name, known.accompanies, tuple(found))


class IndexedFormats:
    """Formats known by their words, of which each is loaded by its name when a log may have it."""

    def __init__(self, index: Sequence[FormatWords], load: Callable[[str], Format]) -> None:
        self._all = _Index(index)
        self._harnesses = _Index([words for words in index if words.accompanies])
        self._load = load
        self._last: tuple[bytes, Sequence[Format]] | None = None

    def candidates(self, text: bytes) -> Sequence[Format]:
        """Return the formats of which a pattern may match in ``text``."""
        # The same text is asked for twice if the log is small: for its format, and for others in it.
        if self._last is None or text != self._last[0]:
            self._last = text, [self._load(name) for name in self._all.names_in(text)]
        return self._last[1]

    def harnesses(self, text: bytes) -> Sequence[Format]:
        """Return the candidates that accompany another program."""
        if self._last is not None and text == self._last[0]:
            return [known for known in self._last[1] if known.accompanies]
        return [self._load(name) for name in self._harnesses.names_in(text)]


_ALWAYS = 1 << 16
"""The number of a pair that is in every text, for words without a pair."""
_FEW_PAIRS = 4
_MANY_WORDS = 64
"""From this many words on it is faster to look up their pairs of characters first."""


class _Index:
    """The patterns of formats by the words of which a match contains one, so that each word is searched for once.

    Searching for five hundred words takes longer than reading a small log: a word is searched for only if its rarest
    pairs of characters are in the text, which is one look-up in an array for all words.
    """

    def __init__(self, index: Sequence[FormatWords]) -> None:
        self._names = [words.name for words in index]
        followers: dict[bytes, list[tuple[int, tuple[bytes, ...]]]] = {}
        for number, words in enumerate(index):
            for pattern in words.patterns:
                for word in pattern.any_of:
                    followers.setdefault(word, []).append((number, pattern.all_of))
        self._followers = list(followers.items())
        pairs = [(_pairs(word).tolist() if len(word) > 1 else [_ALWAYS]) for word in followers]
        uses = Counter(pair for word in pairs for pair in set(word))
        # The pairs that fewest words have tell most; a short word has one of them several times.
        rare = [sorted(word, key=uses.__getitem__) * _FEW_PAIRS for word in pairs]
        self._pairs = (
            np.array([word[:_FEW_PAIRS] for word in rare], np.int64).reshape(-1, _FEW_PAIRS).T.copy()
        )
        self._present = np.zeros(_ALWAYS + 1, np.bool_)
        self._present[_ALWAYS] = True

    def names_in(self, text: bytes) -> list[str]:
        """Return the names of the formats that may be in ``text``, in the order of the index."""
        found: set[int] = set()
        for number in self._possible_words(text):
            word, followers = self._followers[number]
            if word in text:
                found.update(number for number, all_of in followers if all(part in text for part in all_of))
        return [self._names[number] for number in sorted(found)]

    def _possible_words(self, text: bytes) -> list[int]:
        """Return the numbers of the words whose rarest pairs of characters are in ``text``; of few words all."""
        if len(self._followers) < _MANY_WORDS:
            return list(range(len(self._followers)))
        codes = _pairs(text)
        self._present[codes] = True
        possible = np.logical_and.reduce(self._present[self._pairs])
        self._present[codes] = False
        numbers: list[int] = possible.nonzero()[0].tolist()
        return numbers


def _pairs(text: bytes) -> NDArray[np.uint16]:
    """Return each two neighbouring characters of ``text`` as one number; none for a shorter text."""
    size = len(text)
    if size < 2:
        return np.zeros(0, np.uint16)
    return np.concatenate(
        (np.frombuffer(text, "<u2", size // 2), np.frombuffer(text, "<u2", (size - 1) // 2, 1))
    )
