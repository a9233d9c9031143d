"""A comparison of the ranks of one run: their windows, the slowest rank, the time of the gradient exchange."""

from trainmark.schema.frozen import Frozen


class RankTime(Frozen):
    """One rank; all in seconds.

    Its window of ``window_s`` began ``began_s`` after the first rank's window, on one clock, with an error of
    ``error_s`` (null if the hosts' clocks were not compared). ``pass_s`` is the time of one forward and backward pass
    of this rank alone, ``wait_s`` its wait for the slowest rank's pass in a step; null if the framework cannot time it.
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
    """An all-reduce of ``bytes``, the size of the gradients, while nothing else runs.

    ``seconds`` is the slowest rank's time, ``share`` its share of the mean step, at most 1: an upper bound of the cost
    of the exchange, because a step may overlap it with the backward pass.
    """

    bytes: int
    seconds: float
    share: float


class RankTimes(Frozen):
    """All ranks of a run.

    ``slowest`` is the rank whose own pass takes longest; ``slower_by`` is the share by which it exceeds the median of
    the others. ``waits`` is the mean time that the others wait for it, as a share of a mean step. Null if unknown: also
    if that pass, which is timed after the window, was disturbed, as it takes longer than a step.
    """

    ranks: tuple[RankTime, ...]
    slowest: int | None = None
    slower_by: float | None = None
    waits: float | None = None
    all_reduce: AllReduce | None = None


class RankSpeed(Frozen):
    """One rank by its log: medians over the compared steps; null for what its log does not print.

    ``step_time_s`` is in seconds, ``rate`` in the log's unit per second as this rank prints it. ``slower_by`` is its
    pace over the others' median, minus 1, with its interval; ``more_data_s`` is how much longer than the others it
    waits for data in a step.
    """

    rank: int
    host: str | None
    log: str
    records: int
    step_time_s: float | None
    rate: float | None
    data_time_s: float | None
    slower_by: float | None = None
    interval: tuple[float, float] | None = None
    more_data_s: float | None = None
    is_slower: bool = False
    waits_for_data: bool = False


class RankComparison(Frozen):
    """The ranks of one job over the ``steps`` that all of them print, and a sentence for each finding."""

    ranks: tuple[RankSpeed, ...]
    steps: int
    unit: str | None
    findings: tuple[str, ...]
    notes: tuple[str, ...]
