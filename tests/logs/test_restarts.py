"""A run that died and went on from a checkpoint into the same file: where it went back, and what counts then."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from trainmark.logs import Facts, ParsedLog, Severity
from trainmark.logs.model import Problem
from trainmark.measure.rules import find_rule, measure_log
from trainmark.programs import read_stream

BATCH, STEP_S, DOWN_S = 512, 0.5, 3600
START = datetime(2024, 1, 1, 12, tzinfo=UTC)


def read(lines: list[str], **given: int) -> ParsedLog:
    return read_stream(io.BytesIO(("\n".join(lines) + "\n").encode()), given=Facts(**given))  # type: ignore[arg-type]


def steps_of(*parts: range) -> Iterator[tuple[int, datetime]]:
    """Yield the steps of each life of a run, and when each ended; an hour lies between two lives."""
    clock = START
    for number, part in enumerate(parts):
        clock += timedelta(seconds=DOWN_S if number else 0)
        for step in part:
            clock += timedelta(seconds=STEP_S)
            yield step, clock


def megatron(*parts: range, every: int = 10) -> list[str]:
    return [
        "using world size: 8, data-parallel-size: 8",
        "------------------------ arguments ------------------------",
        f"  global_batch_size ............................... {BATCH}",
        *(
            f" [{clock:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/    1000 | consumed samples: {step * BATCH:12d} | "
            f"elapsed time per iteration (ms): {STEP_S * 1000:.1f} | learning rate: 9.15E-06 | "
            f"global batch size: {BATCH:5d} | lm loss: 2.50E+00 | loss scale: 1.0 |"
            for step, clock in steps_of(*parts)
            if step % every == 0
        ),
        "[after training is done] datetime: 2024-01-01 12:00:00",
    ]


def problems_by_code(log: ParsedLog) -> dict[str, Problem]:
    return {problem.code: problem for problem in log.problems}


@pytest.mark.parametrize("back", [481, 401, 31])
def test_a_counter_that_goes_back_to_a_checkpoint_is_a_restart(back: int) -> None:
    log = read(megatron(range(1, 501), range(back, 1001)))

    problems = problems_by_code(log)
    assert not {"records-missing", "counter-backwards", "counter-repeats", "ranks-untagged"} & problems.keys()
    assert problems["restarted"].severity is Severity.DOUBT
    assert problems["restarted"].message == (
        f"the counter goes back from step 500 to step {back + 9} at record 51: the run was restarted from a "
        "checkpoint there; repeated steps count twice, and the time between the two parts does not count"
    )
    assert measure_log(log).value == pytest.approx(BATCH / STEP_S)


def test_the_checkpoint_may_lie_between_two_lines_and_there_may_be_several_restarts() -> None:
    log = read(megatron(range(1, 501), range(444, 701), range(444, 1001)))

    assert "at record 51 (and 1 more time)" in problems_by_code(log)["restarted"].message
    assert "records-missing" not in problems_by_code(log)
    assert measure_log(log).value == pytest.approx(BATCH / STEP_S)


@pytest.mark.parametrize(("before", "after"), [(10, 1), (1, 10), (1, 50)])
def test_a_restarted_run_may_print_at_another_interval(before: int, after: int) -> None:
    lines = megatron(range(1, 501), every=before) + megatron(range(401, 1001), every=after)
    log = read(lines)

    assert f"from step 500 to step {400 + after} at record" in problems_by_code(log)["restarted"].message
    assert not {"records-missing", "counter-backwards"} & problems_by_code(log).keys()
    assert measure_log(log).value == pytest.approx(BATCH / STEP_S)


def imagenet(*parts: tuple[int, range], every: int = 10) -> list[str]:
    """Return a log of averages: each part is an epoch, its first step as slow as ten."""
    lines = ["=> creating model 'resnet50'"]
    for epoch, part in parts:
        passed = 0.0
        for done, step in enumerate(part, 1):
            took = STEP_S * (10 if done == 1 else 1)
            passed += took
            if step % every == 0:
                lines.append(
                    f"Epoch: [{epoch}][{step:>4}/1000]\tTime {took:6.3f} ({passed / done:9.6f})\t"
                    "Data  0.001 ( 0.102)\tLoss 6.98"
                )
    return lines


def test_averages_restart_with_the_epoch() -> None:
    """The epoch goes back, and its averages are of the second life alone."""
    log = read(imagenet((0, range(1000)), (1, range(431)), (1, range(1000))), gpus=1, batch_per_device=BATCH)
    log_of_two_epochs = read(imagenet((0, range(1000)), (1, range(1000))), gpus=1, batch_per_device=BATCH)

    assert "records-missing" not in problems_by_code(log)
    assert "the counter goes back from epoch 1, step 430 to epoch 1, step 0 at record 145" in (
        problems_by_code(log)["restarted"].message
    )
    # The window opens at record 3; each epoch's first step takes as long as ten.
    steps = (991 - 21) + 431 + 991
    assert measure_log(log).value == pytest.approx(BATCH * steps / (STEP_S * (steps + 18)), rel=1e-4)
    assert "restarted" not in problems_by_code(log_of_two_epochs)
    assert not {"too-fast", "pace-changes"} & problems_by_code(log).keys()


def detectron2(*parts: range) -> list[str]:
    lines = [
        "[01/01 12:00:00 detectron2]: Rank of current process: 0. World size: 8",
        "SOLVER:",
        f"  IMS_PER_BATCH: {BATCH}",
    ]
    for number, part in enumerate(parts):
        pace = STEP_S * (1 + number)
        lines += [
            f"[01/0{1 + number} 12:00:00 d2.utils.events]:  eta: 0:05:22  iter: {step}  total_loss: 1.986  "
            f"time: {pace:.4f}  last_time: {pace:.4f}  data_time: 0.0222  last_data_time: 0.0101   lr: 1.6068e-05  "
            "max_mem: 2M"
            for step in part
            if step % 20 == 19
        ]
    return lines


def test_averages_after_a_restart_within_an_epoch_do_not_count() -> None:
    log = read(detectron2(range(1000), range(600, 3000)))

    (problem,) = [problem for problem in measure_log(log).problems if problem.code == "averages-restarted"]
    assert problem.message.startswith(
        "the averages after the restart cover an unknown number of steps: 120 records"
    )
    assert measure_log(log).value == pytest.approx(BATCH / STEP_S)
    assert not {"records-missing", "stall", "too-fast", "pace-changes"} & problems_by_code(log).keys()


def by_clock(*parts: range) -> list[str]:
    return [
        "DLL 2024-01-01 12:00:00.000000 - PARAMETER Config : [\"Namespace(bert_model='bert-base', fp16=True, "
        'gradient_accumulation_steps=1, n_gpu_total=8, train_batch_size=64)"] ',
        "DLL 2024-01-01 12:00:00.000000 - PARAMETER batch_size_per_gpu : 64 ",
        *(
            f"DLL {clock:%Y-%m-%d %H:%M:%S.%f} - Training Epoch: 0 Training Iteration: {step}  average_loss : 9.1  "
            "step_loss : 9.1  learning_rate : 0.004 "
            for step, clock in steps_of(*parts)
        ),
    ]


def test_the_time_between_crash_and_restart_does_not_count() -> None:
    log = read(by_clock(range(1, 101), range(51, 301)))

    assert "restarted" in problems_by_code(log)
    assert not {"stall", "records-missing", "rates-contradict-clock"} & problems_by_code(log).keys()
    assert measure_log(log).value == pytest.approx(BATCH / STEP_S)


def test_dlperfs_rule_refuses_a_window_with_a_restart() -> None:
    log = read(megatron(range(1, 61), range(31, 201), every=1))

    result = measure_log(log, find_rule("dlperf-time"))
    assert result.value is None
    assert "restarted" in {problem.code for problem in result.problems}


@pytest.mark.parametrize("back", [11, 21, 101])
@pytest.mark.parametrize("rule", ["dlperf-time", "dlperf-speed"])
def test_dlperfs_rule_reads_the_iterations_before_a_restart_that_repeats_them(back: int, rule: str) -> None:
    log = read(megatron(range(1, 131), range(back, 501), every=1))

    result = measure_log(log, find_rule(rule))
    assert result.value == pytest.approx(BATCH / STEP_S)
    assert result.skipped == 20
