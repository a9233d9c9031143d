"""The ranks of one run compared: their windows, the slowest one, the time of the exchange."""

from trainmark.schema.frozen import Frozen


class RankTime(Frozen):
    """One rank; all in seconds.

    Its window of ``window_s`` began ``began_s`` after the first rank's, by one clock, give or take ``error_s`` (null
    where nobody compared the hosts' clocks). ``pass_s`` is one forward and backward pass of it alone, ``wait_s`` how
    long it would wait in a step for the slowest of these; null where its framework shows none.
    """

    rank: int
    node: int
    host: str | None
    began_s: float
    error_s: float | None
    window_s: float
    pass_s: float | None = None
    wait_s: float | None = None


class AllReduce(Frozen):
    """An all-reduce of ``bytes``, as many as the gradients have, with nothing beside it.

    ``seconds`` is the slowest rank's time, ``share`` its share of the mean step: an upper bound of what the exchange
    costs, since a step may hide it behind the backward pass.
    """

    bytes: int
    seconds: float
    share: float


class RankTimes(Frozen):
    """All ranks of a run.

    ``slowest`` is the rank whose own pass takes longest, by ``slower_by`` longer than the median of the others' (a
    share); the others would wait for it ``waits`` of a mean step, on average. Null where no framework shows it.
    """

    ranks: tuple[RankTime, ...]
    slowest: int | None = None
    slower_by: float | None = None
    waits: float | None = None
    all_reduce: AllReduce | None = None
