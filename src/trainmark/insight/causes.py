"""The order of doubts: causes before symptoms, by a table (``evidence/causes.yaml``).

A run that waited for its loader in every third step has two levels of step times. The wait is the cause and the levels
are a symptom: a reader who sees only the symptom looks for the cause in the wrong place.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

from trainmark.files import parse_yaml
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.results import RunResult
from trainmark.schema.telemetry import POWER_LIMIT

DATA_WAIT = "data-wait"
"""The code of a doubt about a run that waited for its own loader."""
POWER_LIMITED = "power-limit"
"""The code of a doubt about a run whose GPU was at its power limit."""
MIN_DATA_WAIT = 0.1
"""The smallest share of the window that a wait for data must take to explain a symptom."""
MIN_POWER_LIMIT = 0.5
"""The smallest share of a GPU's samples at the power limit that explains a symptom."""

D = TypeVar("D", bound=Suspicion)


@dataclass(frozen=True, slots=True)
class CauseTable:
    """The codes in their order, and by cause the codes that it explains."""

    ranks: dict[str, int]
    explains: dict[str, frozenset[str]]

    def rank(self, code: str) -> int:
        """Return the place of a code; an unknown one is between the causes and the symptoms."""
        return self.ranks.get(code, len(self.explains))

    def causes_of(self, code: str, codes: Collection[str]) -> tuple[str, ...]:
        """Return those of ``codes`` that may bring about the doubt ``code``, in the order of the table."""
        return tuple(
            cause for cause, explained in self.explains.items() if cause in codes and code in explained
        )


@cache
def cause_table() -> CauseTable:
    """Return trainmark's table of causes and symptoms."""
    text = (files("trainmark.insight") / "evidence" / "causes.yaml").read_text(encoding="utf-8")
    document = parse_yaml(text)
    causes = {entry["code"]: frozenset(entry["explains"]) for entry in document["causes"]}
    later = [*document["symptoms"], *document["last"]]
    ranks = {code: place for place, code in enumerate(causes)}
    ranks |= {code: len(causes) + 1 + place for place, code in enumerate(later)}
    return CauseTable(ranks, causes)


def in_causal_order(doubts: Iterable[D]) -> list[D]:
    """Return doubts about one number with causes before symptoms; equals keep their order."""
    table = cause_table()
    return sorted(doubts, key=lambda doubt: table.rank(doubt.code))


def with_causes(run: RunResult, doubts: Sequence[Suspicion]) -> list[Suspicion]:
    """Return a run's doubts in causal order, with those causes that the run's own records show.

    A wait for data and a GPU at its power limit are no doubts by themselves: they are part of what the number measures.
    They are added where a doubt is their symptom.
    """
    table, codes = cause_table(), {doubt.code for doubt in doubts}
    shown = (cause for cause in _recorded_causes(run) if cause.code not in codes)
    added = [cause for cause in shown if table.explains[cause.code] & codes]
    return in_causal_order([*doubts, *added])


def _recorded_causes(run: RunResult) -> Iterator[Suspicion]:
    wait = run.measurement.data_wait if run.measurement else None
    if wait is not None and wait >= MIN_DATA_WAIT:
        yield data_wait_doubt(wait)
    shares = {
        gpu.index: gpu.reason_shares.get(POWER_LIMIT, 0.0) for node in run.telemetry for gpu in node.gpus
    }
    limited = max(shares, key=lambda index: shares[index], default=None)
    if limited is not None and shares[limited] >= MIN_POWER_LIMIT:
        yield Suspicion(
            code=POWER_LIMITED,
            sentence=f"GPU {limited} was at its power limit in {shares[limited]:.0%} of the window's samples",
            about=About.MACHINE,
            value=shares[limited],
            bound=MIN_POWER_LIMIT,
        )


def data_wait_doubt(share: float) -> Suspicion:
    """Return the doubt about a run that waited for its loader in this share of its window."""
    return Suspicion(
        code=DATA_WAIT,
        sentence=f"rank 0 waited for its data loader in {share:.0%} of the window",
        about=About.WINDOW,
        value=share,
        bound=MIN_DATA_WAIT,
    )
