"""A record weighs as many steps as it is of: the first of an epoch is of one step, those behind it of an interval."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from trainmark.logs.model import Facts, Severity
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.series import series
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


def _megatron(steps: list[int], seconds: list[float]) -> str:
    """Return a log whose lines end at ``steps``, each after steps of so many seconds."""
    lines = ["using world size: 1", f"  global_batch_size .................. {BATCH}"]
    lines += [
        f" iteration {step:8d}/    5000 | consumed samples: {step * BATCH:12d} | elapsed time per iteration (ms): "
        f"{1000 * took:.1f} | learning rate: 9.15E-06 | global batch size: {BATCH:5d} | lm loss: 2.50E+00 |"
        for step, took in zip(steps, seconds, strict=True)
    ]
    return "\n".join([*lines, "[after training is done] datetime: 2024-01-01 12:00:00"]) + "\n"


@pytest.mark.parametrize("turned", [False, True])
def test_a_log_whose_print_interval_grows_is_not_truncated(turned: bool) -> None:
    """Each step is printed at first and each hundredth later, or the other way around."""
    steps = (
        [*range(100, 2001, 100), *range(2001, 2201)] if turned else [*range(1, 201), *range(300, 2201, 100)]
    )
    seconds = [0.5] * 20 + [1.0] * 200 if turned else [0.5] * 200 + [1.0] * 20
    log = read_stream(io.BytesIO(_megatron(steps, seconds).encode()))
    result = measure_log(log)

    ends = list(zip([0, *steps], steps, seconds, strict=False))[result.skipped :]
    work = sum(step - before for before, step, _ in ends)
    assert result.value == pytest.approx(
        BATCH * work / sum((step - before) * took for before, step, took in ends)
    )
    assert "records-missing" not in {problem.code for problem in log.problems}


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_with_missing_lines_each_record_weighs_its_own_steps(lost: int) -> None:
    steps = [step for step in range(10, 2001, 10) if not 1000 < step <= 1000 + 20 * lost or step % 20]
    log = read_stream(io.BytesIO(_megatron(steps, [0.5] * len(steps)).encode()))
    assert "records-missing" in {problem.code for problem in log.problems}
    assert sum(sum(weights) for weights in series(log).weights()) == 10 * BATCH * len(steps)


def test_a_stall_is_as_long_as_its_record() -> None:
    log = read_stream(io.BytesIO(torchvision(12, 201, 10).encode()))
    (stall,) = [problem for problem in log.problems if problem.code == "stall"]
    # 11 first steps of 2.8 s, of a window of some 870 s.
    assert "in total they take 4% of the window" in stall.message
    assert "totals-disagree" not in {problem.code for problem in log.problems}


FROM_ZERO = ("timm", "pytorch-imagenet")


def _line(program: str, epoch: int, n: int, steps: int, took: float, mean_s: float) -> str:
    """Return the line of the ``n`` th step of an epoch."""
    step, share = n - 1, f"{100 * n // steps:>3}%"
    if program == "timm":
        last, mean = f"{took:.3f}s, {BATCH / took:>7.2f}/s", f"{mean_s:.3f}s, {BATCH / mean_s:>7.2f}/s"
        return f"Train: {epoch} [{step:>4}/{steps} ({share})]  Loss: 6.94 (6.95)  Time: {last}  ({mean})  LR: 1.0e-01"
    if program == "pytorch-imagenet":
        return f"Epoch: [{epoch}][{step:>4}/{steps}]\tTime {took:6.3f} ({mean_s:6.3f})\tData  0.001 ( 0.102)\tLoss 6.98"
    if program == "lightning":
        pace = f"{1 / mean_s:.4f}it/s" if mean_s < 1 else f"{mean_s:.4f}s/it"
        return f"Epoch {epoch}: {share}|#####     | {n}/{steps} [00:25<02:55, {pace}, v_num=0]"
    return f"| epoch {epoch + 1:03d}: {n:>6} / {steps} loss=9.1, nll_loss=8.5, wps={BATCH / mean_s:.1f}, ups=1, wall=1"


def _averaged(program: str, epochs: int, steps: int, every: int) -> str:
    """Return a log of averages since each epoch's start, whose first step is slow, on one GPU."""
    lines = {
        "timm": [
            "Training with a single process on 1 device (cuda:0).",
            "Model resnet50 created, param count:1",
        ],
        "lightning": ["GPU available: True (cuda), used: True"],
        "pytorch-imagenet": ["=> creating model 'resnet50'"],
        "fairseq": ["Namespace(arch='t', distributed_world_size=1, max_tokens=256)"],
    }[program]
    for epoch in range(epochs):
        passed = 0.0
        for step in range(steps):
            took = FIRST_S if step == 0 else USUAL_S
            passed += took
            n, mean_s = step + 1, passed / (step + 1)
            if (step if program in FROM_ZERO else n) % every == 0:
                lines.append(_line(program, epoch, n, steps, took, mean_s))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("epochs", [2, 12])
@pytest.mark.parametrize(("steps", "every"), [(200, 50), (1001, 100)])
@pytest.mark.parametrize("program", ["timm", "lightning", "pytorch-imagenet", "fairseq"])
def test_differences_of_averages_include_the_first_steps_of_later_epochs(
    program: str, epochs: int, steps: int, every: int
) -> None:
    given = Facts(gpus=1, batch_per_device=BATCH)
    log = read_stream(io.BytesIO(_averaged(program, epochs, steps, every).encode()), given=given)
    result = measure_log(log)

    from_zero = program in FROM_ZERO
    last = (steps - 1) // every * every + 1 if from_zero else steps // every * every
    opened = (result.skipped - 1) * every + 1 if from_zero else result.skipped * every
    covered = epochs * last - opened
    seconds = (epochs - 1) * FIRST_S + (covered - (epochs - 1)) * USUAL_S
    assert result.value == pytest.approx(covered * BATCH / seconds, rel=0.003)


@pytest.mark.parametrize(
    ("first", "steps", "severity"), [(0, 1000, Severity.NOTE), (10, 100, Severity.DOUBT)]
)
def test_a_number_by_the_clock_reports_the_share_of_steps_between_epochs(
    first: int, steps: int, severity: Severity
) -> None:
    """From an epoch's last line to the next one's first the clock passes validation too."""
    lines, clock = (
        ["LAUNCH INFO 2023-07-28 06:50:00,628 nnodes: 1"],
        datetime(2023, 7, 28, 6, 50, tzinfo=UTC),
    )
    for epoch in range(12):
        for step in range(first, steps, 10):
            clock += timedelta(seconds=60 if step == first else 5)
            lines.append(
                f"[{clock:%Y/%m/%d %H:%M:%S}] ppcls INFO: [Train][Epoch {epoch + 1}/12][Iter: {step}/{steps}]lr: 0.1, "
                f"batch_cost: 0.5s, reader_cost: 0.01, ips: {BATCH / 0.5:.5f} samples/sec, eta: 0:01:00"
            )
    given = Facts(gpus=1, batch_per_device=BATCH)
    result = measure_log(read_stream(io.BytesIO(("\n".join(lines) + "\n").encode()), given=given))

    assert result.value == pytest.approx(BATCH / 0.5)
    (problem,) = [problem for problem in result.problems if problem.code == "between-epochs"]
    between, counted = 11 * max(first, 1), 12 * (steps - 10 - first) - 10
    assert problem.message == (
        "the time between an epoch's last line and the next epoch's first line is left out, because it may include "
        "validation; this also leaves out steps at 11 changes of epoch, at least "
        f"{between / (between + counted):.1%} of all steps"
    )
    assert problem.severity is severity


def test_a_bar_redrawn_after_validation_is_neither_a_stall_nor_a_step() -> None:
    lines = _averaged("lightning", 3, 400, 50).splitlines()
    for epoch in (2, 1, 0):
        at = next(place for place, line in enumerate(lines) if line.startswith(f"Epoch {epoch}: 100%"))
        lines.insert(at + 1, f"Epoch {epoch}: 100%|#####     | 400/400 [00:25<02:55, 1.4000it/s, v_num=0]")
    given = Facts(gpus=1, batch_per_device=BATCH)
    log = read_stream(io.BytesIO(("\n".join(lines) + "\n").encode()), given=given)
    plain = read_stream(io.BytesIO(_averaged("lightning", 3, 400, 50).encode()), given=given)
    codes = {problem.code for problem in log.problems}
    assert codes == {problem.code for problem in plain.problems}
    assert "counter-repeats" not in codes
    assert measure_log(log).value == measure_log(plain).value


def test_a_slow_start_of_each_epoch_in_averages_is_reported_as_a_stall() -> None:
    log = read_stream(io.BytesIO(_averaged("timm", 12, 200, 10).encode()))
    (stall,) = [problem for problem in log.problems if problem.code == "stall"]
    assert "11 records are much slower" in stall.message
