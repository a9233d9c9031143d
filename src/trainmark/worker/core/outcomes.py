"""The outcomes of a run that ends early, and the outcome of an exception by its type and text."""

import re
from collections.abc import Callable, Sequence
from re import Pattern
from typing import NamedTuple

OOM, FAILED, UNSUPPORTED, INVALID = "oom", "failed", "unsupported", "invalid"


class RunError(Exception):
    """The run cannot be finished; raised where the reason is known, and shown once by ``program.main``."""

    def __init__(
        self, outcome: str, reason: str, peer_lost: bool = False, peak_memory_bytes: int | None = None
    ) -> None:
        super().__init__(outcome, reason, peer_lost, peak_memory_bytes)
        self.outcome, self.reason = outcome, reason  # one of the words above, and one sentence
        self.peer_lost = peer_lost  # the rank only suffered from the end of another one, which has the cause
        self.peak_memory_bytes = peak_memory_bytes  # the most in use, where that says something of its end

    def __str__(self) -> str:
        """Return outcome and reason, as the line on standard error has them."""
        return f"{self.outcome}: {self.reason}"


def first_sentence(error: BaseException) -> str:
    """Return the first line of an error's text that says something, cut to 300 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else "no message"
    return f"{type(error).__name__}: {text}"[:300]


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


class Known(NamedTuple):
    """A failure that is known: an exception of one of ``kinds`` whose text ``pattern`` finds, and what it means."""

    kinds: tuple[type[BaseException], ...]
    pattern: Pattern[str]
    tell: Callable[[BaseException, "re.Match[str]"], RunError]


def classify(error: BaseException, failures: Sequence[Known]) -> RunError | None:
    """Return the outcome of the first known failure that matches the error or one of its causes, or None."""
    cause: BaseException | None = error
    chain: list[BaseException] = []
    while cause is not None and cause not in chain:
        chain.append(cause)
        if isinstance(cause, RunError):
            return cause
        for rule in failures:
            found = rule.pattern.search(str(cause)) if isinstance(cause, rule.kinds) else None
            if found is not None:
                return rule.tell(cause, found)
        if isinstance(cause, MemoryError):
            return RunError(OOM, "the host could not allocate memory")
        cause = cause.__cause__ or cause.__context__
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
