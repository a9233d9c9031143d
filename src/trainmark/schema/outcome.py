"""The outcome of a run and ``outcome.json``, its record, with the identity of what ran.

An outcome is never a number, and only ``ok`` has a throughput. An identity has named parts, each with a digest; runs
with different identities are not pooled. Machines are not part of it (the manifest's fingerprint compares them), and
neither are values that differ between repeats: repeat number, seed, ports, folders, host names, times.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field

from trainmark.schema.frozen import Frozen
from trainmark.schema.measurement import Suspicion


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


TIME_LIMIT = "limits.timeout_s"
"""The limit of a run's seconds, by which the reason of a timeout names it."""
MEMORY_LIMIT = "limits.memory"
"""The limit of a run's memory, by which the reason of an outcome names it."""


class Outcome(StrEnum):
    """The outcome of a run."""

    OK = "ok"
    """It ran to its end and recorded the whole measured window."""
    OOM = "oom"
    """The device's or the host's memory, or the suite's memory limit, was not enough."""
    TIMEOUT = "timeout"
    """It exceeded its time limit, or its limit of seconds without output, and was ended."""
    FAILED = "failed"
    """It ended with an error or by a signal."""
    INVALID = "invalid"
    """It ended normally, but its output is not a measurement of the case."""
    UNSUPPORTED = "unsupported"
    """The case cannot run here: a device, a precision, a compiler or an environment is missing."""
    SKIPPED = "skipped"
    """It was not run: not chosen, or not reached yet."""

    @property
    def is_retried(self) -> bool:
        """True if ``--retry-failed`` repeats such a run: another one may end differently."""
        return self in (Outcome.TIMEOUT, Outcome.FAILED, Outcome.INVALID)

    @property
    def label(self) -> str:
        """The text that replaces the number in a table."""
        return {"oom": "OOM", "timeout": "timeout"}.get(self.value, self.value)


class NodeOutcome(Frozen):
    """The end of the process that was started on one node.

    ``exit_code`` is the command's (negative for a signal, which ``signal`` names); null if nothing was started there.
    ``oom_kills`` is the number of processes that the node's kernel killed during the run because memory ran out,
    ``strays`` the number of processes left after the program's normal end. ``reason`` is the run's reason on the node
    that failed first; on a node that trainmark ended, it states that. Before the run the node's clock was
    ``clock_offset_s`` ahead of the controller's, with the error ``clock_error_s``, in seconds, and after it
    ``clock_offset_after_s``; null on the controller's own machine, and if unknown.
    """

    node: int
    host: str
    exit_code: int | None = None
    signal: str | None = None
    oom_kills: int = 0
    strays: int = 0
    reason: str | None = None
    clock_offset_s: float | None = None
    clock_error_s: float | None = None
    clock_offset_after_s: float | None = None
    clock_error_after_s: float | None = None

    def clock(self) -> tuple[float, float | None] | None:
        """Return the clock's offset during the run and its error, in seconds; None if unknown.

        Whether the clock drifted or was set, its offset was between the two measured ones.
        """
        before, error = self.clock_offset_s, self.clock_error_s
        if before is None or error is None or self.clock_offset_after_s is None:
            return None if before is None else (before, error)
        moved = self.clock_offset_after_s - before
        return before + moved / 2, max(error, self.clock_error_after_s or 0.0) + abs(moved) / 2


class RankOutcome(Frozen):
    """The end of one rank, as reported by it or its launcher; null if unknown."""

    node: int
    rank: int
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None


class OutcomeRecord(Frozen):
    """The outcome of a run: reason, times and commands.

    ``reason`` is a sentence for every outcome but ``ok``. ``exit_code`` is the first command's, negative for
    a signal, null if nothing was started. ``last_step`` is the last step that the program reported;
    ``strays`` is the number of processes that it left behind and that were ended. ``nodes`` and ``ranks`` have these
    facts for each node and rank; they are empty in files of older versions, and ``ranks`` also if no launcher
    distinguished the ranks. ``identity`` identifies the program and its inputs; null if unknown.
    ``doubts`` are the doubts that only the process that started the run can raise. ``expected_s`` and
    ``expected_step_s`` are the seconds that the whole run and one step would have taken, estimated from the steps of a
    run that ended early. ``hosts`` are the names of its nodes' hosts, in the order of the nodes; empty if the run was
    not started, and in files of older versions. ``data_files`` are the digests of its card's data files, ``stand_ins``
    the descriptions of its card's stand-ins for data, both by path.
    """

    schema_name: Literal["trainmark.outcome/1"] = "trainmark.outcome/1"
    case_id: str
    repeat: int
    outcome: Outcome
    reason: str | None = None
    exit_code: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_s: float | None = None
    last_step: int | None = None
    strays: int = 0
    commands: tuple[str, ...] = ()
    nodes: tuple[NodeOutcome, ...] = ()
    ranks: tuple[RankOutcome, ...] = ()
    identity: Identity | None = None
    doubts: tuple[Suspicion, ...] = ()
    expected_s: float | None = None
    expected_step_s: float | None = None
    hosts: tuple[str, ...] = ()
    data_files: Mapping[str, str] = Field(default_factory=dict)
    stand_ins: Mapping[str, str] = Field(default_factory=dict)
