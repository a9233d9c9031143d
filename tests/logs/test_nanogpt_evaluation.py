"""nanoGPT's evaluations: they are no part of the records, nor of the time between them."""

import io

import numpy as np
import pytest

from trainmark.logs.format import Format
from trainmark.logs.records import record_times
from trainmark.programs import find_format
from trainmark.programs.reading import read_stream_by_format


def nanogpt() -> Format:
    return find_format("nanogpt")


def arrived_lines(
    steps: int, step_s: float, evaluation_s: float, every: int, printed: int
) -> list[tuple[float, bytes]]:
    """The lines of a run that evaluates at each ``every`` steps and prints each ``printed``, by their arrival."""
    now, lines = 1000.0, [(1000.0, b"tokens per iteration will be: 1,000\n")]
    for step in range(steps):
        took = step_s
        if step % every == 0:
            took += evaluation_s
            now += evaluation_s
            lines.append((now, b"step %d: train loss 4.2, val loss 4.3\n" % step))
        now += step_s
        if step % printed == 0:
            lines.append((now, b"iter %d: loss 4.25, time %.2fms, mfu 10.00%%\n" % (step, 1000 * took)))
    return lines


@pytest.mark.parametrize("printed", [1, 10])
def test_the_arrival_of_records_does_not_advance_during_an_evaluation(printed: int) -> None:
    lines = arrived_lines(1000, 0.1, 7.0, 250, printed)
    text = b"".join(line for _, line in lines)
    log = read_stream_by_format(io.BytesIO(text), "log", nanogpt(), None)

    times = record_times(lines, log, nanogpt())

    assert times is not None
    assert np.diff(times) == pytest.approx(np.full(len(times) - 1, 0.1 * printed))
