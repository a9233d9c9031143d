"""The formats that a log is read by: a few given ones, or all known ones, of which only candidates are loaded.

Sixty formats have five hundred regular expressions, and a log matches those of a handful. The words that each match
contains (``literals``) are enough to leave out the others before their expressions are compiled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

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


@dataclass(frozen=True, slots=True)
class GivenFormats:
    """A few loaded formats; each is a candidate for every text."""

    formats: tuple[Format, ...]

    def candidates(self, _text: bytes) -> Sequence[Format]:
        """Return all formats."""
        return self.formats

    def harnesses(self, _text: bytes) -> Sequence[Format]:
        """Return the formats that accompany another program."""
        return [known for known in self.formats if known.accompanies]


@dataclass(frozen=True, slots=True)
class PatternWords:
    """Words in each match of one pattern: at least one of ``any_of`` and every one of ``all_of``."""

    any_of: tuple[bytes, ...]
    all_of: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FormatWords:
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

    def candidates(self, text: bytes) -> Sequence[Format]:
        """Return the formats of which a pattern may match in ``text``."""
        return [self._load(name) for name in self._all.names_in(text)]

    def harnesses(self, text: bytes) -> Sequence[Format]:
        """Return the candidates that accompany another program."""
        return [self._load(name) for name in self._harnesses.names_in(text)]


class _Index:
    """The patterns of formats by the words of which a match contains one, so that each word is searched for once.

    Searching for five hundred words takes longer than reading a small log: a word is searched for only if all of its
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
        pairs = [_pairs(word) for word in followers]
        self._pairs = np.concatenate([np.zeros(0, np.int64), *pairs])
        self._word_of_pair = np.repeat(np.arange(len(pairs)), [len(each) for each in pairs])

    def names_in(self, text: bytes) -> list[str]:
        """Return the names of the formats that may be in ``text``, in the order of the index."""
        found: set[int] = set()
        for number in self._possible_words(text):
            word, followers = self._followers[number]
            if word in text:
                found.update(number for number, all_of in followers if all(part in text for part in all_of))
        return [self._names[number] for number in sorted(found)]

    def _possible_words(self, text: bytes) -> list[int]:
        """Return the numbers of the words whose pairs of characters are all in ``text``."""
        present = np.zeros(1 << 16, np.bool_)
        present[_pairs(text)] = True
        possible = np.ones(len(self._followers), np.bool_)
        possible[self._word_of_pair[~present[self._pairs]]] = False
        numbers: list[int] = np.flatnonzero(possible).tolist()
        return numbers


def _pairs(text: bytes) -> NDArray[np.int64]:
    """Return each two neighbouring characters of ``text`` as one number; none for a shorter text."""
    single = np.frombuffer(text, np.uint8).astype(np.int64)
    pairs: NDArray[np.int64] = single[:-1] << 8 | single[1:]
    return pairs
