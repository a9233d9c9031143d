"""How a run can end other than well: an outcome and one sentence that gives the reason."""

OOM = "oom"
FAILED = "failed"
UNSUPPORTED = "unsupported"
INVALID = "invalid"


class RunError(Exception):
    """The run cannot be finished; raised where the reason is known, and shown once by ``program.main``.

    ``outcome`` is one of the words above; ``reason`` is one sentence. ``peer_lost`` says that this rank only
    suffered from the end of another one, so that a reader looks for the cause in that rank's own words.
    ``peak_memory_bytes``: the most that this rank had in use, where that says something of its end.
    """

    def __init__(
        self, outcome: str, reason: str, peer_lost: bool = False, peak_memory_bytes: int | None = None
    ) -> None:
        """Keep the outcome and its reason."""
        super().__init__(outcome, reason, peer_lost, peak_memory_bytes)
        self.peak_memory_bytes = peak_memory_bytes
        self.outcome = outcome
        self.reason = reason
        self.peer_lost = peer_lost

    def __str__(self) -> str:
        """Return outcome and reason, as the line on standard error has them."""
        return f"{self.outcome}: {self.reason}"


def first_sentence(error: BaseException, limit: int = 300) -> str:
    """Return the first line of an error's text that says something, cut to ``limit`` characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else "no message"
    name = type(error).__name__
    return f"{name}: {text}"[:limit]


def any_cause(error: BaseException | None) -> "list[BaseException]":
    """Return the error and everything that caused it, outermost first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain
