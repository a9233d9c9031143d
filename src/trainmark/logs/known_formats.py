"""The formats that a log is read by: a few given ones, or all known ones, of which only candidates are loaded.

Sixty formats have five hundred regular expressions, and a log matches those of a handful. The words that each match
contains (``literals``) are enough to leave out the others before their expressions are compiled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

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
    """The patterns of formats by the words of which a match contains one, so that each word is searched for once."""

    def __init__(self, index: Sequence[FormatWords]) -> None:
        self._names = [words.name for words in index]
        self._followers: dict[bytes, list[tuple[int, tuple[bytes, ...]]]] = {}
        for number, words in enumerate(index):
            for pattern in words.patterns:
                for word in pattern.any_of:
                    self._followers.setdefault(word, []).append((number, pattern.all_of))

    def names_in(self, text: bytes) -> list[str]:
        """Return the names of the formats that may be in ``text``, in the order of the index."""
        found: set[int] = set()
        for word, followers in self._followers.items():
            if word in text:
                found.update(number for number, all_of in followers if all(part in text for part in all_of))
        return [self._names[number] for number in sorted(found)]
