"""Averages since the start of a run, undone where a log shows only a part of it."""

import io

import pytest

from trainmark.logs import Facts
from trainmark.measure.rules import measure_log
from trainmark.programs import read_stream


@pytest.mark.parametrize(("interval_s", "value"), [(25, 0.2), (40, 0.18806), (None, 0.18806)])
def test_steps_of_an_excerpt_give_the_number_if_its_stamps_confirm_them(
    interval_s: int | None, value: float
) -> None:
    """The average since the start has the start in it; the difference of two averages is of the steps between."""
    lines = []
    for at, speed in enumerate((0.1875, 0.187692, 0.187879, 0.18806)):
        stamp = (
            f"2026-05-21T03:{50 + (interval_s or 0) * at // 60}:{(interval_s or 0) * at % 60:02}.029644300Z "
        )
        lines.append(
            f"{stamp if interval_s else ''}{{'loss': 0.4, 'train_speed(iter/s)': {speed}, 'epoch': 0.2, "
            f"'global_step/max_steps': '{300 + 5 * at}/4491', 'elapsed_time': '26m 40s'}}\n"
        )
    log = read_stream(io.BytesIO("".join(lines).encode()), "-", Facts(gpus=1, batch_per_device=1))
    result = measure_log(log)

    assert result.value == pytest.approx(value, rel=1e-3)
    assert ("by-difference" in {p.code for p in result.problems}) is (interval_s == 25)
