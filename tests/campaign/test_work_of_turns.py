"""The work of a step, by which two programs in turn are compared: the lines show it, or steps are compared."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.campaign.alternating import Alternation, AlternationResult, SideProgram, _result
from trainmark.measure.paired_blocks import Block, Side
from trainmark.schema.names import ARRIVALS, LOG
from trainmark.workload import Card

BLOCK_S, ROUNDS = 1.0, 8
STEP_S = {Side.A: 0.04, Side.B: 0.025}
CARD = {
    "name": "trainer",
    "description": "python train.py",
    "framework": "unknown",
    "task": "program",
    "environment": "system",
    "source": {"kind": "files", "files": []},
    "launcher": "command",
    "log_format": "auto",
    "command": ["python", "train.py"],
    "axes": {"nodes": {}, "devices_per_node": {}},
}

Line = Callable[[Side, int], str]


def in_turn(folder: Path, line: Line) -> AlternationResult:
    """Return what two programs' logs give, whose records arrive in the blocks of their own turns."""
    blocks = [
        Block(side, 1.8e9 + at * BLOCK_S, 1.8e9 + (at + 1) * BLOCK_S)
        for at, side in enumerate([Side.A, Side.B, Side.B, Side.A] * ROUNDS)
    ]
    programs = {}
    for side, step_s in STEP_S.items():
        text, arrivals = "", ""
        starts = [block.start_s for block in blocks if block.side is side]
        times = [start + (n + 0.5) * step_s for start in starts for n in range(int(BLOCK_S / step_s))]
        for step, at in enumerate(times):
            text += line(side, step) + "\n"
            arrivals += f"{at:.4f} {len(text)}\n"
        of_start = folder / side.value / "1"
        of_start.mkdir(parents=True)
        (of_start / LOG).write_text(text)
        (of_start / ARRIVALS).write_text(arrivals)
        programs[side] = SideProgram(("train",), Card.model_validate(CARD), folder / side.value, folder)
    return _result(programs, blocks, Alternation(ROUNDS, BLOCK_S, seed=1, starts=1), {})


def with_rates(side: Side, step: int) -> str:
    """Return a line of 512 tokens in A and 256 in B; the printed times vary."""
    took = STEP_S[side] * (1 + step % 3 / 10)
    tokens = {Side.A: 512, Side.B: 256}[side]
    return f"step {step}/9999 | loss 1.50 | {took * 1000:.2f} ms/step | {tokens / took:.0f} tokens/s"


def test_the_work_of_a_step_is_the_rate_times_the_time_of_its_lines(tmp_path: Path) -> None:
    found = in_turn(tmp_path, with_rates)

    assert (found.unit, found.work_per_step) == ("tokens/s", {Side.A: 512, Side.B: 256})
    assert found.rate(Side.A) == pytest.approx(512 / 0.04, rel=0.01)
    # A step of A takes longer, and trains twice as many tokens.
    assert found.ratio.value == pytest.approx(2 * 0.025 / 0.04, rel=0.01)
    assert found.ratio.change == "faster"


@pytest.mark.parametrize(
    "line",
    [
        lambda side, step: f"step {step}/9999 | loss 1.50 | {STEP_S[side] * 1000:.2f} ms/step",
        lambda side, step: f"step {step}/9999 | 25.00 ms/step | {5000 + step % 7 * 700} tokens/s",
    ],
)
def test_lines_that_do_not_show_their_work_compare_steps(tmp_path: Path, line: Line) -> None:
    found = in_turn(tmp_path, line)

    assert found.unit == "steps/s"
    assert found.rate(Side.A) == pytest.approx(25, rel=0.01)
    assert found.ratio.change == "slower"
