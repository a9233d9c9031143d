"""Figures with few digits: a steady run whose lines all print ``0.03it/s`` is known to 17 %."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest

from trainmark.logs import Facts, ParsedLog
from trainmark.logs.model import Column, rounding_of
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.catalog import find_witnesses
from trainmark.measure.rules.row import reading_row
from trainmark.programs import read_stream

_PATTERN = re.compile(rb"step (?P<step>\d+) (?:(?P<steps_per_s>[\d.]+)it/s|(?P<step_time_s>[\d.]+)s/it)")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["0.03it/s"] * 9, 0.005 / 0.03),
        (["1.2it/s", "1.3it/s"] * 5, 0.05 / 1.2),
        (["2s/it"] * 9, 0.25),
        (["0.51s/it", "0.52s/it", "0.53s/it"], 0.0),
        (["?it/s"], 0.0),
    ],
)
def test_rounding_is_a_share_of_the_printed_figure(words: list[str], expected: float) -> None:
    tail = "".join(f"step {step} {word}\n" for step, word in enumerate(words)).encode()

    assert rounding_of(_PATTERN, tail) == pytest.approx(expected)


def _codes(text: str) -> dict[str, str]:
    log: ParsedLog = read_stream(io.BytesIO(text.encode()), given=Facts(gpus=1, batch_per_device=32))
    return {
        problem["code"]: str(problem["severity"])
        for problem in reading_row(log, measure_log(log))["problems"]
    }


def _lightning(pace: float) -> str:
    bars = [
        f"Epoch 0:  {step}%|▏  | {step}/100 [{step // 60:02}:{step % 60:02}<99:00,  {pace:.2f}it/s, v_num=1]\r"
        for step in range(1, 60)
    ]
    return "GPU available: True (cuda), used: True\n" + "".join(bars)


def test_a_pace_of_one_digit_is_in_doubt() -> None:
    assert _codes(_lightning(0.034))["few-digits"] == "doubt"


def test_a_pace_of_three_digits_is_not() -> None:
    assert "few-digits" not in _codes(_lightning(3.41))


def test_whole_seconds_with_the_time_of_the_epoch_are_not() -> None:
    lines = [f"Epoch {epoch}/5\n100/100 - 149s - 1s/step - loss: 2.3\n" for epoch in range(1, 6)]

    assert "few-digits" not in _codes("".join(lines))


@pytest.mark.parametrize("seed", range(5))
def test_a_clock_counts_where_averages_have_few_digits(seed: int) -> None:
    # An average of two decimals gives the time of all steps to 0.6 %.
    ends = np.cumsum(np.random.default_rng(seed).uniform(0.6, 1.6, 80))
    bars = [
        f"Epoch 0:   6%|▏  | {step}/1348 [00:00<99:00,  {step / end:.2f}it/s, v_num=0]\r"
        for step, end in enumerate(ends, 1)
    ]
    text = "GPU available: False, used: False\n" + "".join(bars)
    printed = read_stream(io.BytesIO(text.encode()), given=Facts(gpus=1, batch_per_device=20))
    log = replace(printed, records=replace(printed.records, clock_s=Column.of(ends)), clock_resolution_s=0.02)
    rate = 60 * 20 / float(ends[79] - ends[19])

    result = measure_log(log)
    stamps = [one.value for one in find_witnesses(log, 20, rate) if one.name == "time stamps"]
    doubts = {problem.code for problem in result.problems}

    # By the averages the number is known to 2 % at best.
    assert result.value == pytest.approx(rate, rel=1e-6)
    assert measure_log(printed).value == pytest.approx(rate, rel=0.03)
    assert stamps == [pytest.approx(rate, rel=0.03)]
    assert not {"witnesses-disagree", "rates-contradict-clock", "record-contradicts-clock"} & doubts


def _nanochat(batch: int, share: float = 1.0) -> tuple[str, float]:
    """Return a log of slow steps whose rate is cut to whole tokens, and the rate that its step times give."""
    times_ms = [2010.0 + 7 * (step % 5) for step in range(60)]
    lines = (
        f"step {step:05d}/00060 (1.00%) | loss: 10.4 | lrm: 1.00 | dt: {ms:.2f}ms | tok/sec: "
        f"{int(batch * share / ms * 1000):,} | bf16_mfu: 0.00 | epoch: 1\n"
        for step, ms in enumerate(times_ms)
    )
    head = f"Total batch size {batch} => gradient accumulation steps: 1\n"
    return head + "".join(lines), batch * 40 / sum(times_ms[20:]) * 1000


def test_a_rate_that_is_cut_to_whole_units_gives_way_to_the_printed_times() -> None:
    text, true = _nanochat(64)
    log = read_stream(io.BytesIO(text.encode()))
    found = measure_log(log)

    assert found.value == pytest.approx(true, rel=1e-6)
    assert {p.code: p.severity for p in found.problems}["by-step-times"] == "note"
    printed, by_times, *_ = find_witnesses(log, 20, found.value or 0)
    assert (printed.name, by_times.name) == ("printed rate", "step time")
    assert printed.value < 0.99 * by_times.value


def test_a_slow_step_whose_rate_is_cut_to_zero_counts_by_its_time() -> None:
    """A step of 100 s takes more than the 39 others together; its rate is printed as 0."""
    text, _ = _nanochat(64)
    before = re.search(r"step 00040/.*\n", text)
    assert before is not None
    slow = re.sub(r"dt: \S+ms \| tok/sec: \d+", "dt: 100000.00ms | tok/sec: 0", before[0])
    log = read_stream(io.BytesIO(text.replace(before[0], slow).encode()))
    found = measure_log(log)

    seconds = sum(2.010 + 0.007 * (step % 5) for step in range(20, 60) if step != 40) + 100
    assert found.value == pytest.approx(64 * 40 / seconds, rel=1e-6)
    codes = {problem.code for problem in (*log.problems, *found.problems)}
    assert not codes & {"witnesses-disagree", "rate-not-finite"}


def test_a_coarse_rate_of_other_work_stays() -> None:
    text, true = _nanochat(64, share=0.5)
    found = measure_log(read_stream(io.BytesIO(text.encode())))

    assert found.value is not None
    assert found.value < 0.51 * true
    assert "by-step-times" not in {p.code for p in found.problems}


def test_a_fine_rate_stays() -> None:
    text, true = _nanochat(65536)
    found = measure_log(read_stream(io.BytesIO(text.encode())))

    assert found.value == pytest.approx(true, rel=1e-4)
    assert "by-step-times" not in {p.code for p in found.problems}
