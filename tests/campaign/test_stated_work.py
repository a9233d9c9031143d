"""The number of a log that only a guess can read, by the work of a step that the command states."""

import math
from pathlib import Path

import pytest

from command_logs import doubts, measure_command
from trainmark.cli.run_options import CommandOptions
from trainmark.measure import NotMeasurable
from trainmark.schema.measurement import Measurement

STEPS, STEP_S = 200, 0.02
LINE = "step {step} loss {loss:.4f} | {rate:.1f} images/s\n"
OF_RANKS = "".join(
    f"[rank{rank}]: iter {{step}} loss {{loss:.4f}} {{rate:.1f}} images/s\n" for rank in (0, 1)
)


def measured(
    folder: Path, given: CommandOptions, line: str, rate: float, *, at_once: bool = False
) -> Measurement:
    """Measure a log of ``STEPS`` steps, each of ``STEP_S`` seconds, whose lines print ``rate``."""
    texts = [
        line.format(step=step, loss=2 / step, rate=rate + math.sin(step)).encode()
        for step in range(1, STEPS + 1)
    ]
    texts = [b"".join(texts)] if at_once else texts
    arrived = ((1e9 + STEP_S * at, text) for at, text in enumerate(texts))
    return measure_command(folder, given, [(1e9 - 1, b""), *arrived])


def test_a_stated_unit_does_not_rename_the_rate_of_another_unit(tmp_path: Path) -> None:
    given = CommandOptions(unit="tokens/s", work_per_step="4096")

    found = measured(tmp_path, given, LINE, 1600.0)

    assert found.unit == "tokens/s"
    assert found.throughput == pytest.approx(4096 / STEP_S, rel=0.01)
    assert "witnesses-disagree" not in doubts(found)


def test_the_stated_work_of_all_devices_comes_before_the_printed_rate_of_each(tmp_path: Path) -> None:
    given = CommandOptions(unit="images/s", work_per_step="64", devices=2)

    found = measured(tmp_path, given, OF_RANKS, 1600.0)

    assert found.unit == "images/s"
    assert found.throughput == pytest.approx(3200, rel=0.01)
    assert (
        "by the stated work of a step (64), but by the printed rate it is 16"
        in doubts(found)["witnesses-disagree"]
    )
    assert "one of them counts a single device of 2" in doubts(found)["witnesses-disagree"]


def test_the_lines_of_the_other_rank_are_no_records_that_cannot_be_read(tmp_path: Path) -> None:
    line = "".join(
        f"[rank{rank}] step {{step}} loss {{loss:.4f}} {{rate:.1f}} samples/s\n" for rank in (1, 0)
    )

    found = measured(tmp_path, CommandOptions(devices=2), line, 1600.0)

    assert set(doubts(found)) == {"guessed"}


def test_a_printed_rate_that_agrees_with_the_stated_work_is_no_doubt(tmp_path: Path) -> None:
    found = measured(tmp_path, CommandOptions(unit="images/s", work_per_step="32"), LINE, 1600.0)

    assert found.throughput == pytest.approx(1600, rel=0.01)
    assert "witnesses-disagree" not in doubts(found)


def test_without_times_a_rate_keeps_its_own_unit(tmp_path: Path) -> None:
    given = CommandOptions(unit="tokens/s", work_per_step="4096")

    found = measured(tmp_path, given, LINE, 1600.0, at_once=True)

    assert found.unit == "images/s"
    assert found.throughput == pytest.approx(1600, rel=0.01)
    assert "cannot be counted" in doubts(found)["stated-unit-unused"]


TITAN = (
    "[titan] 2026-11-27 10:00:00,000 - root - INFO - step: {step}  loss: {loss:.4f}  memory: 1.00GiB(2.00%)  "
    "tps: {rate:,.0f}  tflops: 1.00  mfu: 1.00%\n"
)


def test_a_known_log_without_times_cannot_be_counted_in_a_stated_unit(tmp_path: Path) -> None:
    given = CommandOptions(unit="samples/s", work_per_step="8", devices=1)

    found = measured(tmp_path, given, TITAN, 1600.0, at_once=True)

    assert (found.unit, found.witnessed["format"]) == ("tokens/s", "torchtitan")
    assert found.throughput == pytest.approx(1600, rel=0.01)
    assert doubts(found)["stated-unit-unused"] == (
        "the number is in tokens/s and not in the stated samples/s: the log does not show when its steps ended, so 8 "
        "of each cannot be counted"
    )


def test_a_stated_unit_without_the_work_of_a_step_is_a_doubt(tmp_path: Path) -> None:
    found = measured(tmp_path, CommandOptions(unit="samples/s", devices=1), TITAN, 1600.0)

    assert found.unit == "tokens/s"
    assert "(--work-per-step N)" in doubts(found)["stated-unit-unused"]


def test_a_stated_unit_that_counts_a_known_log_is_no_doubt(tmp_path: Path) -> None:
    given = CommandOptions(unit="samples/s", work_per_step="8", devices=1)

    found = measured(tmp_path, given, TITAN, 1600.0)

    assert found.unit == "samples/s"
    assert found.throughput == pytest.approx(8 / STEP_S, rel=0.01)
    assert "stated-unit-unused" not in doubts(found)


def test_lines_that_arrive_at_once_are_called_that(tmp_path: Path) -> None:
    with pytest.raises(
        NotMeasurable, match=r"lines such as 'step N loss N.*' count steps, but all arrived at once"
    ):
        measured(tmp_path, CommandOptions(), "step {step} loss {loss:.4f}\n", 0.0, at_once=True)
