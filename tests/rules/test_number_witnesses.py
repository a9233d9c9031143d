"""Every way to the throughput that a log allows is computed, and a disagreement is a doubt that names both."""

import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from trainmark.logs import Facts, ParsedLog, Severity
from trainmark.logs.guess.reading import read_guessed
from trainmark.logs.model import Column
from trainmark.measure.rules import Claim, RuleResult, find_rule, judge, measure_log
from trainmark.measure.rules.catalog import explain_factor
from trainmark.measure.rules.row import reading_problems
from trainmark.programs import read_stream

_HEAD = "[rank0]:[titan] 2025-06-16 22:30:00,000 - root - INFO - Building 1-D device mesh with ['dp_shard'], [8]\n"


def _titan(
    *, tflops: float = 339.16, mfu: float = 34.29, hardware: str = "", tps: int = 5000, count: int = 60
) -> str:
    lines = "".join(
        f"[rank0]:[titan] 2025-06-16 22:{31 + step // 60:02}:{step % 60:02},000 - root - INFO - step: {step:2}  "
        f"loss:  6.1384  memory: 49.66GiB(52.28%)  tps: {tps:,}  tflops: {tflops}  mfu: {mfu}%\n"
        for step in range(1, count + 1)
    )
    end = "[rank0]:[titan] 2025-06-16 23:30:00,000 - root - INFO - Training completed\n"
    return f"{_HEAD}{hardware}{lines}{end}"


def _measure(text: str, given: Facts | None = None) -> tuple[RuleResult, dict[str, str]]:
    log = read_stream(io.BytesIO(text.encode()), "-", given)
    result = measure_log(log)
    problems = reading_problems(log, result)
    return result, {p.code: p.message for p in problems if p.severity is Severity.DOUBT}


def test_a_printed_rate_and_the_time_stamps_are_two_witnesses() -> None:
    result, doubts = _measure(_titan(tps=5000), Facts(batch_per_device=5000))

    assert result.value == pytest.approx(40_000)
    assert {one.name: round(one.value) for one in result.witnesses} == {
        "printed rate": 40_000,
        "time stamps": 40_000,
    }
    assert not doubts


def test_an_mfu_above_one_is_a_doubt_that_names_the_peak() -> None:
    _, doubts = _measure(_titan(tflops=474.24, mfu=152.0))

    assert "152%" in doubts["impossible-mfu"]
    assert "312" in doubts["impossible-mfu"]
    assert "A100" in doubts["impossible-mfu"]


def test_an_mfu_by_another_devices_peak_is_a_doubt_with_the_right_share() -> None:
    _, doubts = _measure(_titan(tflops=312 * 0.40, mfu=40.0, hardware="NVIDIA H100 80GB HBM3\n"))

    assert "A100" in doubts["mfu-of-another-peak"]
    assert "12.6% of 989.4" in doubts["mfu-of-another-peak"]


def test_an_mfu_by_the_devices_own_peak_is_only_a_note() -> None:
    log = read_stream(
        io.BytesIO(_titan(tflops=989.4 * 0.40, mfu=40.0, hardware="NVIDIA H100 80GB HBM3\n").encode())
    )
    result = measure_log(log)

    found = {p.code: p for p in result.problems}
    assert found["mfu-peak"].severity is Severity.NOTE
    assert "H100" in found["mfu-peak"].message


@pytest.mark.parametrize(("tflops", "doubted"), [(600.0, False), (1500.0, True)])
def test_more_operations_than_the_device_can_do_are_a_doubt(tflops: float, doubted: bool) -> None:
    head = (
        "using world size: 8, data-parallel-size: 8, tensor-model-parallel size: 1\nNVIDIA A100-SXM4-80GB\n"
    )
    lines = "".join(
        f" [2026-03-01 12:0{step // 60}:{step % 60:02}] iteration {step:8d}/ 99 | consumed samples: {step * 64:12d} |"
        f" elapsed time per iteration (ms): 1000.0 | throughput per GPU (TFLOP/s/GPU): {tflops} | lr: 9E-06 |"
        f" global batch size:    64 | lm loss: 2.5E+00 |\n"
        for step in range(1, 61)
    )

    _, doubts = _measure(head + lines)

    assert ("impossible-tflops" in doubts) is doubted


def _first_record_slow(count: int) -> str:
    first = "step:  1  loss:  6.1384  memory: 49.66GiB(52.28%)  tps: 5,000"
    return _titan(count=count).replace(first, first.replace("5,000", "500"))


def test_a_short_log_leaves_out_its_slow_first_records_with_a_doubt() -> None:
    result, doubts = _measure(_first_record_slow(8))

    assert result.value == pytest.approx(40_000)
    assert result.skipped == 1
    assert "--skip" in doubts["short-log"]


def test_a_short_log_is_no_doubt_if_the_choice_of_records_does_not_matter() -> None:
    result, doubts = _measure(_titan(count=8))

    assert result.value == pytest.approx(40_000)
    assert "short-log" in {problem.code for problem in result.problems}
    assert not doubts


def _excerpt(*steps: int, seconds: float = 5.0, clock: Sequence[int] = ()) -> str:
    clock = clock or [5 * place for place in range(len(steps))]
    return "".join(
        f" [2024-04-06 02:{stamp // 60:02}:{stamp % 60:02}] iteration {step:8}/     100 | consumed samples: "
        f"{128 * step:12} | elapsed time per iteration (ms): {1000 * seconds} | learning rate: 8.6E-06 | "
        "global batch size:   128 | lm loss: 9.1 | number of skipped iterations: 0 |\n"
        for step, stamp in zip(steps, clock, strict=True)
    )


def test_lines_that_are_missing_in_the_warm_up_count_as_its_steps() -> None:
    result, doubts = _measure(_excerpt(2, 3, 4, 43, 44, 45))

    assert result.skipped == 3
    assert result.value == pytest.approx(128 / 5)
    assert not doubts


def test_a_single_wrong_counter_does_not_end_the_warm_up() -> None:
    result, _ = _measure(_excerpt(1, 2, 93, 4, 5, 6, 7, 8, 9))

    assert result.skipped == 5


def test_time_stamps_of_whole_seconds_do_not_contradict_steps_of_some_seconds() -> None:
    """The clock's time of the missing lines does not make its seconds finer."""
    clock = (58, 64, 70, 451, 457, 462)

    _, doubts = _measure(_excerpt(15, 16, 17, 85, 86, 87, seconds=5.7, clock=clock))

    assert "rates-contradict-clock" not in doubts


@pytest.mark.parametrize(("factor", "doubtful"), [(1.0, False), (1.03, False), (3.5, True)])
def test_printed_step_times_are_held_against_the_arrival_of_the_lines(factor: float, doubtful: bool) -> None:
    """As where the program's timer leaves out the making of the batches."""
    text = "".join(f"step {10 * step} | loss {1 / step:.4f} | step_time 0.25000 s\n" for step in range(1, 61))
    unknown = read_stream(io.BytesIO(text.encode()), "-")
    log = read_guessed(unknown, io.BytesIO(text.encode()), Facts(batch_per_device=32, gpus=1))
    assert log is not None
    arrivals = np.arange(60, dtype=np.float64) * (2.5 * factor)
    # An evaluation is no contradiction.
    arrivals[40:] += 60.0
    records = replace(log.records, clock_s=Column.of(arrivals))
    result = measure_log(replace(log, records=records, clock_resolution_s=0.02))

    assert result.value == pytest.approx(32 / 0.25)
    doubts = {problem.code: problem.message for problem in result.problems}
    assert ("witnesses-disagree" in doubts) is doubtful
    if doubtful:
        assert "the number is 128, but by the time stamps it is 36.57" in doubts["witnesses-disagree"]


def test_a_step_of_no_time_gives_no_witness_and_no_exception() -> None:
    text = "".join(
        f"step {step} | loss {1 / step:.4f} | step_time {0 if step == 30 else 0.25:.5f} s\n"
        for step in range(1, 61)
    )
    unknown = read_stream(io.BytesIO(text.encode()), "-")
    log = read_guessed(unknown, io.BytesIO(text.encode()), Facts(batch_per_device=32, gpus=1))
    assert log is not None

    result = measure_log(log)

    assert result.value == pytest.approx(32 / 0.25, rel=0.05)
    assert {problem.code for problem in result.problems if problem.severity is Severity.DOUBT}


def test_missing_records_in_the_window_are_a_doubt() -> None:
    _, doubts = _measure(_excerpt(1, 2, 3, 4, 5, 6, 43, 44, 45))

    assert "records-missing" in doubts


def test_a_fast_record_that_is_left_out_is_no_doubt_about_the_number() -> None:
    """Asynchronous dispatch: a step that is timed before it is computed."""
    text = "".join(
        f"completed step: {step}, seconds: {seconds}, TFLOP/s/device: 135.158, "
        f"Tokens/s/device: {49_152 / seconds:.3f}, total_weights: 196608, loss: 11.689\n"
        for step, seconds in enumerate((44.923, 0.319, *[5.668] * 8))
    )

    log = read_stream(io.BytesIO(text.encode()), "-", Facts(gpus=4))
    shown = {problem.code for problem in reading_problems(log, measure_log(log))}
    by_all = {problem.code for problem in reading_problems(log, measure_log(log, find_rule("window", 0)))}

    assert measure_log(log).skipped == 2
    assert "too-fast" not in shown
    assert "too-fast" in by_all


def _stalled_at(record: int) -> ParsedLog:
    usual = f"step: {record:2}  loss:  6.1384  memory: 49.66GiB(52.28%)  tps: 5,000"
    text = _titan(count=90).replace(usual, usual.replace("5,000", "100"))
    return read_stream(io.BytesIO(text.encode()))


def test_a_stall_that_a_rule_leaves_out_is_no_doubt_in_any_verb() -> None:
    log = _stalled_at(25)
    codes = [
        {p.code for p in reading_problems(log, measure_log(log, find_rule("window", skip)))}
        for skip in (None, 24, 25)
    ]
    by_skip = [
        judge(Claim("a.log", "40000.0"), log),
        judge(Claim("a.log", f"{measure_log(log).value:.2f}"), log),
    ]

    assert ["stall" in found for found in codes] == [True, True, False]
    assert by_skip[0].rule == "mean-last-10"
    assert "a stall: record 25" not in by_skip[0].note
    assert "a stall: record 25" in by_skip[1].note


def test_one_record_of_the_warm_up_gives_no_number() -> None:
    result, _ = _measure(_titan(count=1))

    assert result.value is None


def test_two_records_that_disagree_give_no_number_and_name_the_flag() -> None:
    result, _ = _measure(_first_record_slow(2))

    assert result.value is None
    assert result.needs == ("--skip",)


@pytest.mark.parametrize(
    ("facts", "ratio", "words"),
    [
        (Facts(gpus=8), 8.0, "a single device of 8"),
        (Facts(gpus=8), 0.125, "a single device of 8"),
        (Facts(gpus=16, nodes=2), 2.0, "a single node of 2"),
        (Facts(global_batch=256), 0.0039, "steps, the other tokens"),
        (Facts(accumulation=4), 4.1, "one micro-batch of 4"),
        (Facts(sequence_length=2048), 2048.0, "counts samples of 2048 tokens"),
        (Facts(gpus=8), 10.0, "of one device: by the other the run has 80 devices, not 8"),
        (Facts(gpus=8), 0.5, "by the other the run has 4 devices, not 8"),
    ],
)
def test_the_usual_mistakes_explain_a_disagreement(facts: Facts, ratio: float, words: str) -> None:
    log = read_stream(io.BytesIO(_titan().encode()))
    assert words in str(explain_factor(replace(log, facts=facts), ratio))
    assert explain_factor(replace(log, facts=facts), 1.37) is None


def test_a_short_log_is_not_compared_with_stamps_of_the_records_that_it_leaves_out() -> None:
    """Of four epochs the first two are slow, and left out by another pace."""
    seconds = (0.0, 1.55, 2.84, 4.16)
    text = "".join(
        f"2026-03-01 12:00:{10 + at:06.3f} Epoch {epoch}/4 loss 2.3\n"
        for epoch, at in enumerate(seconds, start=1)
    )
    unknown = read_stream(io.BytesIO(text.encode()), "log")
    read = read_guessed(unknown, io.BytesIO(text.encode()), Facts(gpus=1, batch_per_device=1))
    assert read is not None

    result = measure_log(read)

    assert result.skipped == 2
    assert "witnesses-disagree" not in {problem.code for problem in result.problems}
