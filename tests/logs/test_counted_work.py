"""Lines with a rate count by their own work, which a batch or padding changes: by a counter, or by rate x time."""

from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path

import pytest

from trainmark.measure.rules import measure_log
from trainmark.programs import read_log

LINE = '{{"step": {step}, "loss": {loss:.4f}, "tokens_seen": {done}, "tokens_per_sec": {rate:.2f}}}\n'
RAMP = [1024.0] * 30 + [4096.0] * 30
SECONDS = [0.012] * 30 + [0.030] * 30


def number(folder: Path, tokens: list[float], seconds: list[float], grain: int = 1) -> float | None:
    """Return the number of a log of ten steps a line, each with its ``tokens`` and its ``seconds``."""
    totals = accumulate(10 * each for each in tokens)
    rows = enumerate(zip(tokens, seconds, totals, strict=True), 1)
    (folder / "train.log").write_text(
        "".join(
            LINE.format(step=10 * at, loss=9 / at, done=int(total // grain * grain), rate=each / took)
            for at, (each, took, total) in rows
        )
    )
    return measure_log(read_log(folder / "train.log", guess=True)).value


def truth(tokens: list[float], seconds: list[float], skipped: int = 2) -> float:
    return sum(tokens[skipped:]) / sum(seconds[skipped:])


def test_a_ramp_of_the_batch_counts_the_tokens_of_each_line(tmp_path: Path) -> None:
    assert number(tmp_path, RAMP, SECONDS) == pytest.approx(truth(RAMP, SECONDS), rel=1e-3)


def test_tokens_without_padding_count_as_many_as_they_are(tmp_path: Path) -> None:
    tokens = [1003.0 + 897 * (at % 3 - 1) + at for at in range(60)]
    seconds = [0.02 + 0.01 * (at % 2) for at in range(60)]

    assert number(tmp_path, tokens, seconds) == pytest.approx(truth(tokens, seconds), rel=1e-3)


def test_a_counter_with_few_digits_does_not_weight_the_lines(tmp_path: Path) -> None:
    tokens, seconds = [1024.0] * 60, [0.012, 0.030] * 30

    assert number(tmp_path, tokens, seconds, grain=10_000) == pytest.approx(truth(tokens, seconds), rel=1e-3)


BUCKETS = [(512.0, 0.0106), (8192.0, 0.0204), (16384.0, 0.0305)]


def number_of(folder: Path, lines: list[str]) -> tuple[float | None, set[str]]:
    """Return the number of a log of these lines, and the codes of its problems."""
    (folder / "train.log").write_text("".join(f"{line}\n" for line in lines))
    log = read_log(folder / "train.log", guess=True)
    return measure_log(log).value, {problem.code for problem in log.problems}


def buckets(count: int = 150) -> tuple[list[float], list[float]]:
    """Return the tokens and the seconds of steps whose batches are of three lengths."""
    chosen = [BUCKETS[(7 * at + at // 5) % 3] for at in range(count)]
    return [tokens for tokens, _ in chosen], [
        seconds * (1 + 0.001 * (i % 7)) for i, (_, seconds) in enumerate(chosen)
    ]


def test_a_rate_counts_for_the_work_that_it_makes_with_the_printed_time(tmp_path: Path) -> None:
    tokens, seconds = buckets()
    value, codes = number_of(
        tmp_path,
        [
            f"step {at} loss {9 / at:.4f} step_time {1e3 * took:.3f}ms tokens/s {each / took:.1f}"
            for at, (each, took) in enumerate(zip(tokens, seconds, strict=True), 1)
        ],
    )

    assert value == pytest.approx(truth(tokens, seconds, 20), rel=1e-3)
    assert "work-varies" in codes


def test_a_rate_counts_for_the_work_that_it_makes_with_the_time_between_stamps(tmp_path: Path) -> None:
    tokens, seconds = buckets()
    stamps = [datetime(2026, 3, 1) + timedelta(seconds=passed) for passed in accumulate(seconds)]
    value, codes = number_of(
        tmp_path,
        [
            f"{stamp.isoformat(' ', 'microseconds')} step {at} loss {9 / at:.4f} tokens/s {each / took:.1f}"
            for at, (stamp, each, took) in enumerate(zip(stamps, tokens, seconds, strict=True), 1)
        ],
    )

    assert value == pytest.approx(truth(tokens, seconds, 20), rel=1e-3)
    assert "work-varies" in codes


@pytest.mark.parametrize("shown", [0.02, None])
def test_equal_steps_of_different_times_count_alike(tmp_path: Path, shown: float | None) -> None:
    waits = [0.0, 0.015, 0.001, 0.04] * 40
    value, codes = number_of(
        tmp_path,
        [
            f"step {at} loss {9 / at:.4f} step_time {1e3 * ((shown or 0.02 + wait) + 1e-5 * (3 * at % 7)):.3f}ms "
            f"tokens/s {8192 / (0.02 + wait):.1f}"
            for at, wait in enumerate(waits, 1)
        ],
    )

    assert value == pytest.approx(8192 * 140 / sum(0.02 + wait for wait in waits[20:]), rel=1e-3)
    assert "work-varies" not in codes
