"""A number whose records are of two paces, or held up again and again, is a doubt that says by how much."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest_logs import Reader

from trainmark.logs import Facts, Severity
from trainmark.logs.intervals import Chunk, change_of_pace, measure_timing
from trainmark.logs.model import Column
from trainmark.logs.plausibility import stalls, with_timing_by
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.programs import read_log, synthetic_log


def _doubts(tmp_path: Path, times: list[float], name: str = "ngc-pytorch-convnets") -> dict[str, str]:
    path = tmp_path / "run.txt"
    path.write_text(synthetic_log(name, SampleRun(times, interval=1)))
    log = read_log(path, Facts(gpus=8))
    problems = (*log.problems, *measure_log(log).problems)
    return {p.code: p.message for p in problems if p.severity is Severity.DOUBT}


def test_repeated_stalls_are_weighed_as_one(tmp_path: Path) -> None:
    times = [1.0 if i % 25 == 24 else 0.2 for i in range(420)]

    stall = _doubts(tmp_path, times)["stall"]

    assert "16 records are much slower" in stall
    assert float(re.search(r"would be ([\d.]+)% higher", stall)[1]) == pytest.approx(16.0, abs=0.3)  # type: ignore[index]


def test_a_cause_is_all_stalls_or_only_the_worst_if_they_are_few(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(
        synthetic_log("ngc-pytorch-convnets", SampleRun([1.0 if i % 25 == 24 else 0.2 for i in range(420)]))
    )
    many = stalls(read_log(path))
    path.write_text(
        synthetic_log("ngc-pytorch-convnets", SampleRun([0.6 if i in (99, 200) else 0.2 for i in range(420)]))
    )
    few = stalls(read_log(path))

    assert many is not None
    assert (many.count, round(many.factor, 2)) == (16, 1.16)
    assert few is not None
    assert few.count == 1


@pytest.mark.parametrize("factor", [1.2, 0.5])
def test_a_lasting_change_of_pace_is_a_doubt_that_names_the_record(tmp_path: Path, factor: float) -> None:
    times = [0.2 + 0.001 * (i % 7) for i in range(200)]

    doubts = _doubts(tmp_path, [*times, *(factor * t for t in times)])

    assert "pace-changes" in doubts
    assert 196 <= int(re.search(r"from record (\d+)", doubts["pace-changes"])[1]) <= 208  # type: ignore[index]
    assert "too-fast" not in doubts


def test_a_pace_that_only_scatters_does_not_change(tmp_path: Path) -> None:
    times = [0.2 * (1 + 0.3 * ((7919 * i) % 101) / 101) for i in range(400)]

    assert "pace-changes" not in _doubts(tmp_path, times)


def test_a_note_does_not_hide_a_deviating_mean_of_the_rates(tmp_path: Path) -> None:
    times = [(0.2, 0.35)[(i // 3) % 2] for i in range(400)]

    assert "uneven-steps" in _doubts(tmp_path, times)


def test_the_timing_of_a_log_is_measured_once_and_not_that_of_another_log(tmp_path: Path) -> None:
    logs = []
    for number, step_s in enumerate((0.5, 0.25)):
        path = tmp_path / f"{number}.txt"
        path.write_text(synthetic_log("ngc-pytorch-convnets", SampleRun([step_s] * 60, interval=1)))
        logs.append(read_log(path))

    first = measure_timing(logs[0])

    assert measure_timing(replace(logs[0], problems=())) is first
    assert measure_timing(replace(logs[0], warmup_steps=40)).counted < first.counted
    assert measure_timing(logs[1]).window_s == pytest.approx(first.window_s / 2)


@pytest.mark.parametrize(("grain", "found"), [(0.0, True), (0.0001, True), (0.02, False)])
def test_a_difference_that_the_resolution_of_the_clock_explains_is_no_change_of_pace(
    grain: float, found: bool
) -> None:
    """Lines that arrive between two looks at the log: eight at one look, ten at the next."""
    chunks = [Chunk(9 * at + 1, 0.01, 10.0 if at < 16 else 8.0) for at in range(32)]

    change = change_of_pace(chunks, grain)

    assert (change is not None) is found


@pytest.mark.parametrize("pause_s", [0, 12])
def test_a_stall_shows_in_a_progress_bar_of_whole_seconds(read: Reader, pause_s: int) -> None:
    """Two steps a second: most bars have the time of the bar before, and their median interval is 0 or 1 s."""
    seconds = [at / 2 + (pause_s if at > 200 else 0) for at in range(1, 400)]
    text = "".join(
        f"Steps: {at // 4}%|###   | {at}/400 [{int(now) // 60:02}:{int(now) % 60:02}<02:00,  2.00it/s, step_loss=0.1]\r"
        for at, now in enumerate(seconds, start=1)
    )

    log = read(text, given=Facts(gpus=1, batch_per_device=4))

    assert ("stall" in {problem.code for problem in log.problems}) == bool(pause_s)


@pytest.mark.parametrize(("early_ms", "is_odd"), [(11, False), (40, True)])
def test_a_log_that_is_timed_by_arrival_has_the_doubts_of_that_clock(
    early_ms: int, is_odd: bool, tmp_path: Path
) -> None:
    """A step that arrives 11 ms early is within two looks at the log; a step of a fifth of the time is not."""
    path = tmp_path / "run.txt"
    at_ms = [50 * step - (early_ms if step == 18 else 0) for step in range(20)]
    path.write_text(
        "".join(f"2026-11-27 10:00:00.{ms:03} step {step} loss 1.0\n" for step, ms in enumerate(at_ms))
    )
    log = read_log(path, guess=True)
    assert "too-fast" in {problem.code for problem in log.problems}

    timed = with_timing_by(log, 0.01)

    assert ("too-fast" in {problem.code for problem in timed.problems}) is is_odd


def test_no_record_matters_more_than_the_resolution_of_the_clock(tmp_path: Path) -> None:
    """A progress bar shows whole seconds: the record at which one passes did not take a second."""
    path = tmp_path / "run.txt"
    path.write_text(
        "".join(
            f"Epoch 1/1: {step:3}%|###| {step}/100 [00:0{step // 50}<00:00, 50.0it/s]\n"
            for step in range(0, 101, 5)
        )
    )

    log = read_log(path, guess=True)

    assert log.records.count == 21
    assert "few-records" not in {problem.code for problem in log.problems}


@pytest.mark.parametrize("evaluated", [False, True])
def test_late_looks_at_a_log_are_no_contradiction_of_its_rates(tmp_path: Path, *, evaluated: bool) -> None:
    ended_s = 0.0
    ends_s = []
    for step in range(400):
        ended_s += 0.01 + (2.0 if evaluated and step % 50 == 49 else 0.0)
        ends_s.append(ended_s)
    # A busy machine looks every 10 ms at first, then as seldom as every 90 ms.
    looks_s = np.cumsum([0.01 * (1 + (7 * at) % 9) for at in range(1000)])
    arrivals_s = looks_s[np.searchsorted(looks_s, ends_s)]
    (tmp_path / "train.log").write_text(
        "".join(
            f"step {at} loss 2.5 step_time 10.{at % 3}0 ms samples/s 3200.{at % 7}\n" for at in range(400)
        )
    )
    log = read_log(tmp_path / "train.log", guess=True)
    timed = replace(log, records=replace(log.records, clock_s=Column.of(arrivals_s)), clock_resolution_s=0.02)
    result = measure_log(timed)

    stamps = next(one for one in result.witnesses if one.name == "time stamps")
    assert stamps.value == pytest.approx(3200, rel=0.02)
    assert "witnesses-disagree" not in {problem.code for problem in result.problems}
