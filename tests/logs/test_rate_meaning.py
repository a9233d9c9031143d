"""What a printed average covers, where versions of a program print different averages in the same words."""

import io
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate

import pytest

from trainmark import logs
from trainmark.logs.format import GivenFormats
from trainmark.logs.model import Facts, Meaning, ParsedLog
from trainmark.measure.rules import find_rule, measure_log
from trainmark.programs import find_format

PACES = [4.0, 1.0, 0.8, 1.0, 0.8, 1.2, 0.9, 1.0, 0.8, 1.1]
"""Seconds of a step, for each ten steps."""


def paddleclas(paces: Sequence[float], averages: Sequence[float]) -> ParsedLog:
    """Return a log of PaddleClas with a line every ten steps of these paces, which prints these averages."""
    began = datetime(2024, 10, 18, 10)
    text = "".join(
        f"[{began + timedelta(seconds=round(10 * passed)):%Y/%m/%d %H:%M:%S}] ppcls INFO: [Train][Epoch 1/1]"
        f"[Iter: {10 * number + 10}/1000]lr(PiecewiseDecay): 0.1, loss: 6.9, batch_cost: {average:.5f}s, "
        f"reader_cost: 0.00010, ips: {64 / average:.5f} samples/s, eta: 0:04:00\n"
        for number, (passed, average) in enumerate(zip(accumulate(paces), averages, strict=True))
    )
    known = GivenFormats((find_format("paddleclas"),))
    return logs.read_stream(io.BytesIO(text.encode()), known, given=Facts(gpus=1, batch_per_device=64))


def running(paces: Sequence[float]) -> list[float]:
    return [passed / (number + 1) for number, passed in enumerate(accumulate(paces))]


def doubts(log: ParsedLog) -> set[str]:
    return {problem.code for problem in log.problems}


def test_averages_that_begin_anew_at_each_line_are_taken_as_such() -> None:
    log = paddleclas(PACES, PACES)

    assert log.meaning is Meaning.INTERVAL
    assert "rates-contradict-clock" not in doubts(log)


def test_averages_since_the_start_of_the_epoch_are_taken_as_such() -> None:
    log = paddleclas(PACES, running(PACES))

    assert log.meaning is Meaning.RUNNING
    assert "rates-contradict-clock" not in doubts(log)


def test_at_an_even_pace_the_number_is_the_same() -> None:
    even = [1.0] * 30
    log = paddleclas(even, even)

    assert measure_log(log, find_rule("window")).value == pytest.approx(64)


@pytest.mark.parametrize("interval", [1, 10])
@pytest.mark.parametrize("first", [0, 1])
def test_averages_of_imagenet_follow_counters_from_zero_and_from_one(first: int, interval: int) -> None:
    times = [5.0, *[2.0] * 60, *[1.0] * 40]
    text = "".join(
        f"Epoch: [0][{step + first:6}/640584]\tTime {times[step]:6.3f} ({sum(times[: step + 1]) / (step + 1):.6f})\t"
        "Data  0.010 ( 0.224)\tLoss 1.8461e+01 (1.2784e+01)\tAcc@1   0.00 (  0.00)\tAcc@5   0.00 (  0.00)\n"
        for step in range(0, len(times), interval)
    )
    known = GivenFormats((find_format("pytorch-imagenet"),))

    log = logs.read_stream(io.BytesIO(text.encode()), known, given=Facts(gpus=1, batch_per_device=2))

    # 20 steps are left out: those up to the last record that is, or up to the next one if it covers fewer.
    left_out = 21 if interval == 10 else 20
    expected = 2 * (101 - left_out) / sum(times[left_out:])
    result = measure_log(log, find_rule("window"))
    assert result.value == pytest.approx(expected, rel=1e-5)
    assert result.used * interval == 101 - left_out
