"""The identity of what a run ran: named parts, each with a digest. Runs with different identities are not pooled.

Machines are not part of it (the manifest's fingerprint compares them), nor are values that differ between repeats:
repeat number, seed, ports, folders, host names, times.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator

from trainmark.schema.frozen import Frozen


class PartName(StrEnum):
    """The parts of an identity."""

    CARD = "card"
    """The card without its description and the location of its source."""
    SOURCE = "source"
    """The program: a commit, the files of a folder, or trainmark's own worker."""
    COMMANDS = "commands"
    """The words and variables of the commands, with placeholders for folders, hosts, ports and seeds."""
    PACKAGES = "packages"
    """The Python and the packages of the environment, or the container's image."""
    VARIABLES = "variables"
    """The caller's variables that change how a framework runs."""
    PREPARED = "prepared"
    """The files that the card's prepare steps left."""
    DATA = "data"
    """The data set's files."""
    FILES = "files"
    """The card's data files."""


def _without_unknown(word: str) -> str:
    """Leave out a framework that is not known: earlier versions wrote ``unknown card NAME``."""
    return word.removeprefix("unknown ")


Label = Annotated[str, AfterValidator(_without_unknown)]
"""A name of a part for people, such as ``pytorch card NAME`` or ``URL at COMMIT``."""


class Part(Frozen):
    """One part: a short ``word`` for people, and the digest (``sha256:…``) of its entries."""

    name: PartName
    word: Label
    digest: str

    @property
    def short_digest(self) -> str:
        """The first digits of the digest, for people."""
        return self._digits[:8]

    @property
    def entries_file(self) -> str:
        """The name of the file of its entries, in the folder ``identity`` of a result directory."""
        return f"{self._digits[:32]}.json"

    @property
    def _digits(self) -> str:
        return self.digest.removeprefix("sha256:")


class Entries(Frozen):
    """The input of a part's digest, by name: a file's digest, a package's version, the words of a command."""

    name: PartName
    word: Label
    entries: Mapping[str, str]

    @property
    def part(self) -> Part:
        """The part that these entries make."""
        return Part(name=self.name, word=self.word, digest=_digest(self.entries))


class Identity(Frozen):
    """The identity of a run: its parts, and the ``digest`` of their digests."""

    digest: str
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, parts: tuple[Part, ...]) -> Self:
        """Return the identity that these parts make."""
        return cls(digest=_digest({part.name.value: part.digest for part in parts}), parts=parts)

    def changes(self, now: "Identity") -> tuple[tuple[Part | None, Part | None], ...]:
        """Return the parts that differ, as they are in this identity and as they are in ``now``; None is absent."""
        before, after = ({part.name: part for part in held.parts} for held in (self, now))
        pairs = ((before.get(name), after.get(name)) for name in PartName)
        return tuple((was, is_) for was, is_ in pairs if (was and was.digest) != (is_ and is_.digest))

    def limited_to(self, now: "Identity") -> "Identity":
        """Return this identity with only those parts that ``now`` has too."""
        names = {part.name for part in now.parts}
        return Identity.of(tuple(part for part in self.parts if part.name in names))

    def describe_changes(self, now: "Identity") -> str:
        """Return what changed from this identity to ``now`` as one clause; empty if nothing did."""
        return "; ".join(_describe_change(was, is_) for was, is_ in self.changes(now))


def _describe_change(was: Part | None, now: Part | None) -> str:
    known = now or was
    assert known is not None
    return f"{known.name} changed: {known.word} (was {_short(was)}, now {_short(now)})"


def _short(part: Part | None) -> str:
    return "none" if part is None else f"{part.short_digest}…"


def _digest(entries: Mapping[str, str]) -> str:
    text = json.dumps(dict(entries), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}"
