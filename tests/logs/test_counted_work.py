"""Lines with a rate and a counter of the work done: a line counts by its own work, which a batch or padding changes."""

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
