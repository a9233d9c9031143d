"""A record weighs as many steps as it is of: the first of an epoch is of one step, those behind it of an interval."""

import io

import pytest

from trainmark.measure.rules import measure_log
from trainmark.programs import read_stream

BATCH, USUAL_S, FIRST_S = 256, 0.35, 2.8


def torchvision(epochs: int, steps: int, every: int, start: int = 0) -> str:
    """Return a log of torchvision's reference script, whose rate is the last step's, on one GPU."""
    lines = [
        "Not using distributed mode",
        f"Namespace(data_path='/data', model='resnet50', device='cuda', batch_size={BATCH}, epochs={epochs}, amp=True,"
        f" world_size=1, print_freq={every}, distributed=False)",
    ]
    for epoch in range(epochs):
        for step in range(start, steps, every):
            took = FIRST_S if step == 0 else USUAL_S
            lines.append(
                f"Epoch: [{epoch}]  [{step:>4}/{steps}]  eta: 0:01:00  lr: 0.5  img/s: {BATCH / took}  loss: 6.9 (6.9)"
                f"  acc1: 0.0 (0.1)  acc5: 0.5 (0.6)  time: {took}  data: 0.0003  max mem: 21000"
            )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("epochs", [2, 12])
@pytest.mark.parametrize(("steps", "every"), [(201, 10), (1001, 100), (101, 1)])
def test_an_epochs_slow_first_step_counts_as_one_step(epochs: int, steps: int, every: int) -> None:
    result = measure_log(read_stream(io.BytesIO(torchvision(epochs, steps, every).encode())))

    # The window begins behind some records of the first epoch, and has the first steps of all others.
    covered = epochs * steps - 1 - result.skipped * every
    seconds = (epochs - 1) * FIRST_S + (covered - (epochs - 1)) * USUAL_S
    assert result.value == pytest.approx(covered * BATCH / seconds, rel=0.004)


def test_a_stall_is_as_long_as_its_record() -> None:
    log = read_stream(io.BytesIO(torchvision(12, 201, 10).encode()))
    (stall,) = [problem for problem in log.problems if problem.code == "stall"]
    # 11 first steps of 2.8 s, of a window of some 870 s.
    assert "together they hold 4% of the window" in stall.message
    assert "totals-disagree" not in {problem.code for problem in log.problems}
