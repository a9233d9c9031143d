"""A global batch that grows while a run trains (Megatron-LM's ramp-up) is named as that, and the number is right."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from trainmark.logs import ParsedLog, Severity
from trainmark.logs.model import Problem
from trainmark.measure.rules import find_rule, measure_log
from trainmark.measure.rules.row import reading_problems
from trainmark.programs import read_stream

START = datetime(2024, 1, 1, 12, tzinfo=UTC)
EVERY = 10


def seconds(batch: int) -> float:
    return 0.2 + batch / 1000


def megatron(batches: Sequence[int], consumed: bool = True) -> ParsedLog:
    lines = [
        "using world size: 8, data-parallel-size: 8",
        "------------------------ arguments ------------------------",
        "  global_batch_size ............................... 1024",
        "  micro_batch_size ................................ 2",
        "  rampup_batch_size ............................... ['256', '256', '100000']",
    ]
    passed = before = 0.0
    for step, batch in enumerate(batches, 1):
        passed += seconds(batch)
        if step % EVERY == 0:
            clock = START + timedelta(seconds=passed)
            samples = f"consumed samples: {sum(batches[:step]):12d} | " if consumed else ""
            lines.append(
                f" [{clock:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/    1000 | {samples}"
                f"elapsed time per iteration (ms): {(passed - before) / EVERY * 1000:.3f} | learning rate: 9.15E-06 | "
                f"global batch size: {batch:5d} | lm loss: 2.50E+00 | loss scale: 1.0 |"
            )
            before = passed
    lines.append("[after training is done] datetime: 2024-01-01 12:00:00")
    return read_stream(io.BytesIO(("\n".join(lines) + "\n").encode()))


def truth(batches: Sequence[int], skipped: int) -> float:
    """Return samples over time of the steps behind the first ``skipped`` lines."""
    counted = batches[skipped * EVERY : len(batches) // EVERY * EVERY]
    return sum(counted) / sum(map(seconds, counted))


def problems_by_code(log: ParsedLog) -> dict[str, Problem]:
    return {problem.code: problem for problem in log.problems}


RAMPS = {
    "between two lines": [256] * 200 + [512] * 300,
    "between two steps of a line": [256] * 205 + [512] * 300,
    "several": [256 * (1 + min(3, step // 133)) for step in range(600)],
    "small": [16 + 8 * min(step // 25, 126) for step in range(3300)],
    "never the same for a line": [16 + 8 * min(step // 3, 126) for step in range(600)],
}


@pytest.mark.parametrize("batches", RAMPS.values(), ids=RAMPS)
def test_batch_size_ramp_up_is_reported_and_the_number_is_samples_over_time(batches: list[int]) -> None:
    log = megatron(batches)
    result = measure_log(log)

    assert result.value == pytest.approx(truth(batches, result.skipped), rel=1e-5)
    problems = problems_by_code(log)
    assert problems["batch-changes"].severity is Severity.DOUBT
    assert (
        not {"pace-changes", "too-fast", "stall", "rates-contradict-clock", "few-records"} & problems.keys()
    )
    assert log.global_batch is None


def test_the_skip_that_the_doubt_advises_ends_it() -> None:
    log = megatron([256] * 200 + [512] * 300)
    doubt = problems_by_code(log)["batch-changes"]

    for skip, is_shown in ((19, True), (20, False)):
        shown = reading_problems(log, measure_log(log, find_rule("window", skip)))
        assert (doubt in shown) is is_shown


def test_the_sentence_names_the_batches_the_iterations_and_the_skip_option() -> None:
    batches = RAMPS["several"]
    log = megatron(batches)

    assert problems_by_code(log)["batch-changes"].message == (
        "the global batch size changes from 256 to 512 by iteration 140 and 2 times more, to 1024 by iteration 400: "
        "the number covers the samples and the time of all batches; pass --skip 40 to use only the last batch size"
    )
    only_last = measure_log(log, find_rule("window", 40))
    assert only_last.value == pytest.approx(1024 / seconds(1024), rel=1e-5)


def test_the_samples_of_an_interval_with_two_batches_are_not_guessed() -> None:
    batches = RAMPS["between two steps of a line"]
    log = megatron(batches, consumed=False)

    counted = batches[EVERY:200] + batches[210:500]
    assert measure_log(log).value == pytest.approx(sum(counted) / sum(map(seconds, counted)), rel=1e-5)
    assert "the records at which it changes are left out" in problems_by_code(log)["batch-changes"].message


def test_a_constant_batch_is_read_from_the_lines() -> None:
    log = megatron([256] * 300)

    assert "batch-changes" not in problems_by_code(log)
    assert log.global_batch == 256
    assert measure_log(log).value == pytest.approx(256 / seconds(256), rel=1e-5)


def test_dlperfs_rule_by_time_refuses_a_batch_that_changes() -> None:
    result = measure_log(megatron(RAMPS["several"]), find_rule("dlperf-time"))

    assert result.value is None
    assert "batch-changes" in {problem.code for problem in result.problems}
