"""Runs of Hugging Face's Trainer: the number is that of the steps after the warm-up, by the arrival of the bar."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from command_logs import write_log
from trainmark.campaign.executor import steps_shown
from trainmark.campaign.log_measurement import LoggedRun, measure_run, read_run_log
from trainmark.logs.events import parse_events
from trainmark.schema.case import Case, case_of
from trainmark.schema.measurement import Measurement
from trainmark.workload import Card, load_workloads

STEPS, STARTUP_S, STEP_S = 100, 30.0, 0.5
HEAD = (
    b"Process rank: 0, device: cpu:0, n_gpu: 0, distributed training: True, 16-bits training: False\n"
    b"Map: 100%%|##########| 800/800 [00:01<00:00, 9.1 examples/s]\n"
    b"***** Running training *****\n"
    b"  Num examples = 800\n"
    b"  Num Epochs = 1\n"
    b"  Instantaneous batch size per device = 8\n"
    b"  Total train batch size (w. parallel, distributed & accumulation) = 8\n"
    b"  Gradient Accumulation steps = 1\n"
    b"  Total optimization steps = %d\n"
)
WARNING = b"[rank0]:[W1127 06:16:24.608800395 reducer.cpp:1529] Warning: find_unused_parameters=True was specified\n"


def lines_of(steps: int, drawn_every: int = 1) -> Iterator[tuple[float, bytes]]:
    """A run whose first step takes ``STARTUP_S``: the seconds at which each part of the log arrives."""
    yield 0.0, HEAD % steps + b"\r  0%%|          | 0/%d [00:00<?, ?it/s]" % steps
    for step in range(1, steps + 1):
        now = STARTUP_S + step * STEP_S
        shown = (100 * step // steps, step, steps, *divmod(int(now), 60))
        bar = b"\r%3d%%|###       | %d/%d [%02d:%02d<00:30,  2.00it/s]" % shown
        loss = b"\r{'loss': '10.5', 'grad_norm': '1.1', 'learning_rate': '4e-05', 'epoch': '%.4f'}\n" % (
            step / steps
        )
        if step % drawn_every == 0 or step == steps:
            yield now, bar + loss + bar
        if step == 1:
            yield now, b"\n"
            yield now, WARNING
    whole = STARTUP_S + steps * STEP_S
    yield (
        whole + 0.1,
        b"\r{'train_runtime': '%.1f', 'train_samples_per_second': '%.3f', 'train_steps_per_second': '%.3f', "
        b"'train_loss': '10.5', 'epoch': '1.0'}\n" % (whole, 8 * steps / whole, steps / whole),
    )


def written(folder: Path, lines: list[tuple[float, bytes]]) -> tuple[Case, Card]:
    """Write the log of a run and the moments at which it grew; return its case and card."""
    arrived = [(1e9 + lines[0][0], b""), *((1e9 + moment, text) for moment, text in lines)]
    write_log(folder, arrived)
    assert all(before <= after for (before, _), (after, _) in pairwise(arrived))
    case = case_of(workload="transformers-run-clm", framework="pytorch", task="program", device="cpu")
    return case, load_workloads().find(case).card


def measured(folder: Path, lines: list[tuple[float, bytes]]) -> Measurement:
    case, card = written(folder, lines)
    return measure_run(LoggedRun(case, card, folder), parse_events([]))


def test_a_trainers_number_leaves_out_start_and_warm_up(tmp_path: Path) -> None:
    found = measured(tmp_path, list(lines_of(STEPS)))

    assert found.throughput == pytest.approx(8 / STEP_S, rel=1e-3)
    assert (found.rule, found.unit, found.measured_steps, found.warmup_steps) == (
        "window",
        "samples/s",
        80,
        20,
    )
    assert found.window_s == pytest.approx(80 * STEP_S, rel=1e-3)
    assert found.step_times is not None
    assert found.step_times.p50 == pytest.approx(STEP_S, rel=1e-3)


def test_a_run_of_few_steps_has_the_trainers_own_number(tmp_path: Path) -> None:
    found = measured(tmp_path, list(lines_of(25)))

    assert found.throughput == pytest.approx(8 * 25 / (STARTUP_S + 25 * STEP_S), rel=1e-3)
    assert (found.rule, found.window_s) == ("summary", None)


def test_a_run_with_an_evaluation_has_the_trainers_own_number(tmp_path: Path) -> None:
    *lines, (end, summary) = lines_of(STEPS)
    evaluation = (
        b"\r{'eval_loss': '9.1', 'eval_runtime': '40.0', 'eval_samples_per_second': '2', 'epoch': '1.0'}\n"
    )

    found = measured(tmp_path, [*lines, (end, evaluation + summary)])

    assert found.rule == "summary"
    assert {one.code for one in found.suspicions} == {"evaluation-included"}


def test_a_bar_that_is_not_drawn_for_each_step_still_gives_the_number(tmp_path: Path) -> None:
    found = measured(tmp_path, list(lines_of(STEPS, drawn_every=3)))

    assert found.throughput == pytest.approx(8 / STEP_S, rel=1e-3)
    assert not found.suspicions


def test_a_run_that_goes_on_shows_how_many_steps_it_has_done(tmp_path: Path) -> None:
    *lines, _summary = lines_of(STEPS)
    _, card = written(tmp_path, lines[:-40])

    assert steps_shown(read_run_log(card, tmp_path).parsed) == STEPS - 40


def own_loop(items: int, between: bytes = b"\n") -> list[tuple[float, bytes]]:
    """A bar of a script's own loop, five items a second, drawn before the training begins."""
    bars = [
        (
            at / 5 - 60,
            b"\r%3d%%|##   | %d/%d [00:%02d<00:09,  5.00it/s]" % (100 * at // items, at, items, at // 5),
        )
        for at in range(items + 1)
    ]
    return [*bars, (-1.0, between)]


EVALUATED = b"\r{'eval_loss': '9.1', 'eval_runtime': '0.8', 'eval_samples_per_second': '50'}\n"


@pytest.mark.parametrize("between", [b"\n", EVALUATED], ids=["own loop", "evaluation"])
def test_a_bar_before_the_training_is_not_that_of_its_steps(tmp_path: Path, between: bytes) -> None:
    found = measured(tmp_path, [*own_loop(50, between), *lines_of(STEPS)])

    assert found.throughput == pytest.approx(8 / STEP_S, rel=1e-3)
    assert found.measured_steps == 80


def test_an_attempt_that_ran_out_of_memory_is_not_the_training(tmp_path: Path) -> None:
    """As with auto_find_batch_size: 40 steps of another batch, then the whole training of twice the steps."""
    attempt = [(moment - 100, text.replace(b" = 8", b" = 16")) for moment, text in list(lines_of(STEPS))[:42]]

    found = measured(tmp_path, [*attempt, *lines_of(2 * STEPS)])

    assert found.throughput == pytest.approx(8 / STEP_S, rel=1e-3)
    assert found.measured_steps == 2 * STEPS - 20


def test_a_run_without_a_logged_line_counts_the_bar_that_goes_on(tmp_path: Path) -> None:
    lines = [(at, text.replace(b"{'loss'", b"{'other'")) for at, text in list(lines_of(STEPS))[:-40]]
    _, card = written(tmp_path, [*own_loop(50), *lines])

    assert steps_shown(read_run_log(card, tmp_path).parsed) == STEPS - 39


def test_a_bar_with_a_title_and_as_many_items_as_steps_is_no_resumption(tmp_path: Path) -> None:
    (begin, head), *lines = lines_of(STEPS)

    found = measured(tmp_path, [(begin, head.replace(b"800/800", b"%d/%d" % (STEPS, STEPS))), *lines])

    assert found.throughput == pytest.approx(8 / STEP_S, rel=1e-3)
    assert not found.suspicions


def without_batch() -> list[tuple[float, bytes]]:
    (begin, head), *lines = lines_of(STEPS)
    return [(begin, head[head.index(b"\r  0%") :]), *lines]


def test_steps_of_no_printed_batch_leave_the_trainers_own_number(tmp_path: Path) -> None:
    found = measured(tmp_path, without_batch())

    assert (found.rule, found.unit) == ("summary", "samples/s")
    assert found.throughput == pytest.approx(8 * STEPS / (STARTUP_S + STEPS * STEP_S), rel=1e-3)


def test_steps_of_no_printed_batch_are_the_number_of_a_run_that_was_ended(tmp_path: Path) -> None:
    found = measured(tmp_path, without_batch()[:-1])

    assert found.unit == "steps/s"
    assert found.throughput == pytest.approx(1 / STEP_S, rel=1e-3)


def with_smaller_last_batches() -> list[tuple[float, bytes]]:
    """Epochs of 12 samples: a step of 8 and one of 4."""
    (begin, head), *lines, (end, summary) = lines_of(STEPS)
    head = head.replace(b"Num examples = 800", b"Num examples = 12").replace(b"Epochs = 1", b"Epochs = 50")
    samples_per_s = b"'%.3f'" % (6 * STEPS / (STARTUP_S + STEPS * STEP_S))
    before = b"'%.3f'" % (8 * STEPS / (STARTUP_S + STEPS * STEP_S))
    assert before in summary
    return [(begin, head), *lines, (end, summary.replace(before, samples_per_s).replace(b"'1.0'", b"'50.0'"))]


def test_smaller_last_batches_leave_the_trainers_own_number(tmp_path: Path) -> None:
    found = measured(tmp_path, with_smaller_last_batches())

    assert found.rule == "summary"
    assert found.throughput == pytest.approx(6 * STEPS / (STARTUP_S + STEPS * STEP_S), rel=1e-3)


def test_smaller_last_batches_are_a_doubt_of_a_run_that_was_ended(tmp_path: Path) -> None:
    found = measured(tmp_path, with_smaller_last_batches()[:-1])

    assert {one.code for one in found.suspicions} >= {"partial-batches"}


def test_a_resumed_run_is_timed_by_its_own_steps(tmp_path: Path) -> None:
    """Go on from step 50, as a Trainer does: the bar jumps there."""
    begin, *lines = lines_of(STEPS)
    own = [line for line in lines if line[0] > STARTUP_S + 50 * STEP_S]

    found = measured(tmp_path, [begin, *own])

    assert (found.rule, found.measured_steps) == ("window", 30)
    assert found.throughput == pytest.approx(8 / STEP_S, rel=1e-3)
    assert not found.suspicions


def test_a_run_that_stopped_early_is_timed_by_its_own_steps(tmp_path: Path) -> None:
    *lines, (end, summary) = lines_of(STEPS)

    found = measured(tmp_path, [*lines[:-30], (end, summary.replace(b"'epoch': '1.0'", b"'epoch': '0.7'"))])

    assert found.throughput == pytest.approx(8 / STEP_S, rel=1e-3)
    assert not found.suspicions
