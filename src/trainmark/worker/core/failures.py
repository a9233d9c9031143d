"""Which of the run's outcomes an exception is: what all frameworks' errors have in common."""

import re
from collections.abc import Callable, Iterable
from re import Pattern
from typing import NamedTuple

from .outcomes import FAILED, OOM, RunError, any_cause, first_sentence

OUT_OF_MEMORY = re.compile(
    r"out of memory|out-of-memory|OutOfMemory|std::bad_alloc|not enough memory|(can't|cannot|unable to) allocate|"
    r"_ALLOC_FAILED|RESOURCE_?EXHAUSTED",
    re.IGNORECASE,
)
LOST_PEER = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|Connection refused|Socket (closed|Timeout)|failed to connect|"
    r"remote process exited|Timed out (waiting|after)|NCCL[^.]{0,80}(remote|peer|abort)",
    re.IGNORECASE | re.DOTALL,
)

Tell = Callable[[BaseException, "re.Match[str]"], RunError]


class Known(NamedTuple):
    """A failure that is known: an exception of one of ``kinds`` whose text ``pattern`` finds, and what it means."""

    kinds: tuple[type[BaseException], ...]
    pattern: Pattern[str]
    tell: Tell


def first_known(error: BaseException, rules: Iterable[Known]) -> RunError | None:
    """Return what the first rule that knows the error or one of its causes tells, or None.

    A MemoryError that no rule knows is the host's.
    """
    rules = list(rules)
    for cause in any_cause(error):
        if isinstance(cause, RunError):
            return cause
        for rule in rules:
            found = rule.pattern.search(str(cause)) if isinstance(cause, rule.kinds) else None
            if found is not None:
                return rule.tell(cause, found)
        if isinstance(cause, MemoryError):
            return RunError(OOM, "the host could not allocate memory")
    return None


def out_of_memory(error: BaseException, _found: "re.Match[str]") -> RunError:
    """Return the outcome of an error that says it had no memory, and not how much."""
    return RunError(OOM, f"out of memory: {first_sentence(error)}")


def lost_peer(_error: BaseException, found: "re.Match[str]") -> RunError:
    """Return the outcome of a rank that only suffered from the end of another."""
    words = " ".join(found.group(0).split())
    return RunError(FAILED, f"lost contact with another rank: {words}", peer_lost=True)


def loader_ended(error: BaseException, _found: "re.Match[str]") -> RunError:
    """Return the outcome of a rank whose loader process was killed."""
    return RunError(FAILED, f"a loader process ended: {first_sentence(error)}")
