"""A run that is ended on purpose once its log shows enough steps."""

from pathlib import Path

import pytest

from trainmark.campaign.stopping import StopWatch
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
