"""The report's fixed sentences, and the meanings of doubts: a catalogue per language under ``texts/``.

The sentences have the same keys in each language. A doubt has its sentence from where it was raised, in English; other
languages have its meaning by its code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

from trainmark.files import parse_yaml
from trainmark.schema.outcome import Outcome


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

    def joined(self, words: tuple[str, ...] | list[str]) -> str:
        """Return the words as a list in one line."""
        return self("comma").join(words)


@cache
def catalogue(language: Language) -> Catalogue:
    """Return the sentences of ``language``."""
    texts = files(__package__) / "texts"
    sentences = parse_yaml((texts / f"{language.value}.yaml").read_text(encoding="utf-8"))
    doubts = texts / f"doubts.{language.value}.yaml"
    return Catalogue(
        language, sentences, parse_yaml(doubts.read_text(encoding="utf-8")) if doubts.is_file() else {}
    )


def doubt_meaning(doubts: Mapping[str, str], code: str) -> str | None:
    """Return the meaning of a doubt's code: its own, else that of the first pattern with ``*`` that fits it."""
    if code in doubts:
        return doubts[code]
    return next((text for key, text in doubts.items() if "*" in key and fnmatchcase(code, key)), None)
