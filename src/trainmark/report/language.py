"""The report's fixed sentences, and the meanings of doubts: a catalogue per language under ``texts/``; and numbers.

The sentences have the same keys in each language. A doubt has its sentence from where it was raised, in English; other
languages have its meaning by its code. Evidence, advice and reasons are computed in English too; other languages have
a translation of each of their forms. Numbers have only significant digits, and equally many decimals in a column.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import floor, isfinite, log10
from string import Formatter

from trainmark.documents import parse_yaml
from trainmark.schema.measurement import Interval
from trainmark.schema.outcome import Outcome

SIGNIFICANT_DIGITS = 4
MOST_DECIMALS = 4
GIB = 2**30


class Language(StrEnum):
    """The languages in which a report can be written."""

    EN = "en"
    ZH = "zh"

    @property
    def tag(self) -> str:
        """The language's tag for HTML (BCP 47)."""
        return {"en": "en", "zh": "zh-CN"}[self.value]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A language's sentences by key. The results are plain text, which the renderer must escape."""

    language: Language
    sentences: Mapping[str, str]
    doubts: Mapping[str, str]
    computed: Mapping[re.Pattern[str], str] = field(default_factory=dict)

    def __call__(self, key: str, **values: object) -> str:
        """Return the sentence ``key`` with ``values`` inserted into its placeholders."""
        return self.sentences[key].format(**values)

    def count(self, key: str, n: int) -> str:
        """Return ``n`` things in words: the sentence ``key_one`` for one of them, else ``key_other``."""
        return self(f"{key}_one" if n == 1 else f"{key}_other", n=n)

    def outcome(self, outcome: Outcome) -> str:
        """Return the text that a table shows for an outcome without a number."""
        return self(f"outcome_{outcome.value}")

    def doubt(self, code: str, sentence: str) -> str:
        """Return a doubt in words: its meaning in this language, if that is not English, and its sentence."""
        meaning = doubt_meaning(self.doubts, code)
        return sentence if meaning is None else f"{meaning}{self('colon')}{sentence}"

    def translated(self, text: str, separator: str = "; ") -> str:
        """Return a computed text in this language, part by part; a part of unknown form stays English."""
        if not self.computed:
            return text
        whole = self._part(text)
        if whole != text or separator not in text:
            return whole
        return self("semicolon").join(self._part(part) for part in text.split(separator))

    def _part(self, text: str) -> str:
        for form, translation in self.computed.items():
            if (found := form.fullmatch(text)) is not None:
                # The only place with several entries of the catalogue is a list of facts.
                values = {
                    name: self.joined([self._part(part) for part in value.split(", ")])
                    if name == _FACTS
                    else self._part(value)
                    for name, value in found.groupdict().items()
                }
                return translation.format(**values)
        return text

    def joined(self, words: tuple[str, ...] | list[str]) -> str:
        """Return the words as a list in one line."""
        return self("comma").join(words)


@cache
def catalogue(language: Language) -> Catalogue:
    """Return the sentences of ``language``."""
    texts = files(__package__) / "texts"
    sentences = parse_yaml((texts / f"{language.value}.yaml").read_text(encoding="utf-8"))
    doubts, computed = (_optional(texts / f"{kind}.{language.value}.yaml") for kind in ("doubts", "computed"))
    return Catalogue(language, sentences, doubts, {_form(text): other for text, other in computed.items()})


def _optional(path: Traversable) -> dict[str, str]:
    found: dict[str, str] = parse_yaml(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def _form(text: str) -> re.Pattern[str]:
    """Return the pattern of a sentence with ``{places}``; a place at the end of a word may be empty."""
    parts = []
    for literal, name, _, _ in Formatter().parse(text):
        parts.append(re.escape(literal))
        if name:
            parts.append(f"(?P<{name}>[^;]*?)" if name in _MAY_BE_EMPTY else f"(?P<{name}>[^;]+?)")
    return re.compile("".join(parts), re.DOTALL)


_FACTS = "facts"
_MAY_BE_EMPTY = ("on", "than", "more", "rest")
"""Places of a further part, which begins with a space or a comma."""


def doubt_meaning(doubts: Mapping[str, str], code: str) -> str | None:
    """Return the meaning of a doubt's code: its own, else that of the first pattern with ``*`` that fits it."""
    if code in doubts:
        return doubts[code]
    return next((text for key, text in doubts.items() if "*" in key and fnmatchcase(code, key)), None)


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals give the smallest of the values four significant digits (0 to 4 of them)."""
    sizes = [abs(value) for value in values if isfinite(value) and value != 0]
    if not sizes:
        return 0
    return min(max(SIGNIFICANT_DIGITS - 1 - floor(log10(min(sizes))), 0), MOST_DECIMALS)


def number(value: float, places: int | None = None) -> str:
    """Return ``value`` with ``places`` decimals, by default those of a column with only this value."""
    return f"{value:.{decimals([value]) if places is None else places}f}"


def interval(bounds: Interval | None, places: int, factor: float = 1.0) -> str:
    """Return ``[low, high]``, or an empty string if there is no interval."""
    if bounds is None:
        return ""
    return f"[{bounds.low * factor:.{places}f}, {bounds.high * factor:.{places}f}]"


def percent(value: float, places: int = 1) -> str:
    """Return a fraction as a percentage."""
    return f"{value * 100:.{places}f} %"


def days(first: datetime, last: datetime) -> str:
    """Return the day, or the first and the last day, in UTC."""
    words = [
        (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y-%m-%d") for moment in (first, last)
    ]
    return " – ".join(dict.fromkeys(words))
