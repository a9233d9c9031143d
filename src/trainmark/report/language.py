"""The report's fixed sentences: one catalogue per language, under ``texts/``, with the same keys in each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
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

    def __call__(self, key: str, **values: object) -> str:
        """Return the sentence ``key`` with ``values`` inserted into its placeholders."""
        return self.sentences[key].format(**values)

    def count(self, key: str, n: int) -> str:
        """Return ``n`` things in words: the sentence ``key_one`` for one of them, else ``key_other``."""
        return self(f"{key}_one" if n == 1 else f"{key}_other", n=n)

    def outcome(self, outcome: Outcome) -> str:
        """Return the text that a table shows for an outcome without a number."""
        return self(f"outcome_{outcome.value}")

    def joined(self, words: tuple[str, ...] | list[str]) -> str:
        """Return the words as a list in one line."""
        return self("comma").join(words)


@cache
def catalogue(language: Language) -> Catalogue:
    """Return the sentences of ``language``."""
    text = (files(__package__) / "texts" / f"{language.value}.yaml").read_text(encoding="utf-8")
    return Catalogue(language, parse_yaml(text))
