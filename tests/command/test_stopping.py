"""A run that is ended on purpose once its log shows enough steps or epochs."""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from trainmark.campaign.executor import StopWatch
from trainmark.campaign.log_measurement import read_run_log
from trainmark.measure.rules import measure_log
from trainmark.node import Heartbeat
from trainmark.schema.names import ARRIVALS, LOG
from trainmark.workload import read_card

CARD = """\
name: fast
description: a program of fast steps
framework: unknown
environment: system
source: {kind: files, files: []}
launcher: command
working_directory: run
log_format: auto
skip: 10
command: [train]
axes: {}
stop_after: {steps: 30}
"""


def write_log(folder: Path, step_s: float, steps: int) -> None:
    """Write a log of which a line arrived after each ``step_s`` seconds."""
    text, arrivals = "", "1000.0 0\n"
    for step in range(1, steps + 1):
        text += f"step {step} loss {1 / step:.4f}\n"
        arrivals += f"{1000 + step * step_s:.4f} {len(text)}\n"
    (folder / LOG).write_text(text)
    (folder / ARRIVALS).write_text(arrivals)


@pytest.mark.parametrize(
    ("step_s", "steps", "ends"),
    [(0.1, 29, False), (0.1, 30, True), (0.005, 30, False), (0.005, 60, False), (0.005, 100, True)],
)
def test_fast_steps_go_on_until_the_gates_can_look_at_the_machine(
    step_s: float, steps: int, ends: bool, tmp_path: Path
) -> None:
    (tmp_path / "card.yaml").write_text(CARD)
    write_log(tmp_path, step_s, steps)
    watch = StopWatch(read_card(tmp_path / "card.yaml").card, tmp_path, lambda _: None)
    assert (watch(Heartbeat(5.0, None)) is not None) is ends


@pytest.mark.parametrize("slow_from", [100, None])
@pytest.mark.parametrize("is_mean", [True, False])
def test_a_printed_rate_is_that_which_the_arrival_of_its_lines_shows(
    slow_from: int | None, is_mean: bool, tmp_path: Path
) -> None:
    """A mean since the start lags behind when the steps become slower, and is then too high."""
    (tmp_path / "card.yaml").write_text(CARD)
    draws, now, before, lines, arrivals = random.Random(1), 0.0, 0.0, "", "1000.0 0\n"
    for step in range(1, 201):
        now += (0.03 if slow_from is not None and step > slow_from else 0.02) * draws.uniform(0.6, 1.4)
        if step % 10 == 0:
            rate = 32 * step / now if is_mean else 32 * 10 / (now - before)
            lines += f"[{step}/200] loss 2.3 | {rate:.0f} samples/sec | lr 0.01\n"
            arrivals += f"{1000 + now:.4f} {len(lines)}\n"
            before = now
    (tmp_path / LOG).write_text(lines)
    (tmp_path / ARRIVALS).write_text(arrivals)

    found = read_run_log(read_card(tmp_path / "card.yaml").card, tmp_path)

    assert found.guess is not None
    assert any("mean since the start" in each for each in found.guess.assumed) is is_mean
    result = measure_log(found.parsed)
    times = found.times()
    assert times is not None
    assert result.value is not None
    by_clock = 32 * 10 * result.used / float(times[-1] - times[result.skipped - 1])
    assert result.value == pytest.approx(by_clock, rel=0.005)


EPOCH_ALONE = {
    "title": "epochs",
    "framework": "python",
    "unit": "samples/s",
    "records": ["epoch {epoch}: {rate} samples/s"],
}


def write_lines(folder: Path, lines: list[str]) -> None:
    """Write a log of which a line arrived each second."""
    text, arrivals = "", "1000.0 0\n"
    for second, line in enumerate(lines):
        text += line
        arrivals += f"{1001 + second}.0 {len(text.encode())}\n"
    (folder / LOG).write_text(text)
    (folder / ARRIVALS).write_text(arrivals)


def ended(folder: Path, lines: list[str], log_format: str | Mapping[str, object] = "auto") -> str | None:
    """Return why a run with these lines is ended by a card with three epochs."""
    card = yaml.safe_load(CARD) | {"stop_after": {"epochs": 3}, "skip": 1, "log_format": log_format}
    (folder / "card.yaml").write_text(yaml.safe_dump(card))
    write_lines(folder, lines)
    end = StopWatch(read_card(folder / "card.yaml").card, folder, lambda _: None)(Heartbeat(5.0, None))
    return None if end is None else end[1]


def keras(epochs: int) -> list[str]:
    bar = "100/100 ━━━━━━━━━━━━━━━━━━━━ 5s 50ms/step - loss: 1.5\n"
    return [f"Epoch {epoch}/90\n{bar}" for epoch in range(1, epochs + 1)]


def steps_of(epochs: int, last_steps: int) -> list[str]:
    each = [20] * (epochs - 1) + [last_steps]
    return [
        f"[{epoch}][{step}/20] loss 0.5 step_time 1.0\n"
        for epoch in range(epochs)
        for step in range(1, each[epoch] + 1)
    ]


def test_a_program_that_counts_epochs_is_ended_after_whole_ones(tmp_path: Path) -> None:
    after = "ended on purpose after 3 epochs"
    assert [ended(tmp_path, keras(epochs), "keras") for epochs in (2, 3)] == [None, after]
    alone = [f"epoch {epoch}: 80 samples/s\n" for epoch in range(3)]
    assert [ended(tmp_path, alone[:shown], EPOCH_ALONE) for shown in (2, 3)] == [None, after]
    of_steps = {**EPOCH_ALONE, "records": [r"\[{epoch}\]\[{step}/\d+\] loss [\d.]+ step_time {step_time_s}"]}
    # The third epoch is over when the fourth begins.
    assert [ended(tmp_path, steps_of(*shown), of_steps) for shown in ((3, 20), (4, 1))] == [None, after]


@pytest.mark.parametrize("line", ["Epoch {}/60 loss 2.3\n", "Epoch {}: train loss 2.3, val acc 0.12\n"])
def test_lines_of_epochs_alone_are_counted_as_epochs(line: str, tmp_path: Path) -> None:
    lines = [line.format(epoch) for epoch in range(1, 6)]
    # An unknown format is guessed from four lines on.
    assert [ended(tmp_path, lines[:shown]) for shown in (2, 4)] == [None, "ended on purpose after 3 epochs"]


def test_a_log_without_epochs_is_not_ended_by_them(tmp_path: Path) -> None:
    assert ended(tmp_path, [f"step {step} loss {1 / step:.4f}\n" for step in range(1, 60)]) is None
