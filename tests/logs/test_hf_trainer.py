"""The Hugging Face Trainer's summary, bar and losses: resumed and unfinished runs, evaluations, the batch that ran."""

import pytest
from conftest_logs import Reader, doubts_of

from trainmark.measure.rules import measure_log

_TRAINING = """***** Running training *****
  Num examples = 10,000
  Num Epochs = 10
  Instantaneous batch size per device = 8
  Total train batch size (w. parallel, distributed & accumulation) = 64
  Gradient Accumulation steps = 1
  Total optimization steps = {steps}
"""
_SUMMARY = (
    "{{'train_runtime': 300.0, 'train_samples_per_second': 333.3, "
    "'train_steps_per_second': {rate}, 'epoch': {epoch}}}\n"
)


def _bar(step: int, seconds: int, steps: int = 1570) -> str:
    return f" {100 * step // steps}%|███  | {step}/{steps} [{seconds // 60:02d}:{seconds % 60:02d}<11:40,  1.57it/s]\n"


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        (_TRAINING.format(steps=1570) + _SUMMARY.format(rate=5.233, epoch=3.0), "stopped-early"),
        (_bar(1, 0) + _bar(471, 300) + _SUMMARY.format(rate=5.233, epoch=3.0), "stopped-early"),
        (_TRAINING.format(steps=1570) + _SUMMARY.format(rate=5.233, epoch=10.0), None),
        (
            _TRAINING.format(steps=500)
            + _SUMMARY.format(rate=1.667, epoch=3.18).replace("333.3", "106.7"),  # 500 steps of 64 in 300 s
            None,
        ),
        (_bar(1, 0) + _bar(1570, 300) + _SUMMARY.format(rate=5.233, epoch=10.0), None),
    ],
    ids=["epochs", "bar", "whole", "max-steps", "whole-by-bar"],
)
def test_a_summary_that_counts_untrained_samples_is_a_doubt(
    read: Reader, text: str, doubt: str | None
) -> None:
    assert doubts_of(read(text)).keys() == ({doubt} if doubt else set())


_FROM = "  Continuing training from global step 1000\n"


def _losses_of(first: int, *, every: int) -> str:
    lines = (
        f"{{'loss': 1.2, 'learning_rate': 1e-5, 'epoch': {step / 157:.4f}}}\n"
        for step in range(first, 1571, every)
    )
    return "".join(lines)


@pytest.mark.parametrize(
    ("text", "value", "doubts"),
    [
        # 570 steps of 63.7 samples in 300 s: 121 samples/s, where the summary prints 333.
        (_bar(0, 0) + _bar(1001, 1) + _bar(1570, 300), 121.0, set()),
        (_TRAINING.format(steps=1570) + _FROM, 121.0, set()),
        (_TRAINING.format(steps=1570) + _losses_of(1005, every=5), 121.0, {"resumed"}),
        (_FROM, None, {"resumed", "no-records"}),
        (_TRAINING.format(steps=1570) + _losses_of(1050, every=50), None, {"resumed", "no-records"}),
        (
            _TRAINING.format(steps=1570) + "  Continuing training from checkpoint, will skip to saved step\n",
            None,
            {"resumed", "no-records"},
        ),
    ],
    ids=["bar", "global step", "epochs", "total unknown", "losses too rare", "start unknown"],
)
def test_a_resumed_trainer_gives_the_rate_of_its_own_steps_or_none(
    read: Reader, text: str, value: float | None, doubts: set[str]
) -> None:
    log = read(text + _SUMMARY.format(rate=5.233, epoch=10.0))
    result = measure_log(log)

    assert result.value == (None if value is None else pytest.approx(value, rel=0.01))
    assert doubts_of(log).keys() == doubts
    assert "resumed" in {problem.code for problem in log.problems}


def _bars_of(steps: int, *, per_step_s: float, of: int = 1570) -> str:
    return "".join(_bar(step, int(step * per_step_s), of) for step in range(1, steps + 1))


_EVALUATED = "{'eval_loss': 0.5, 'eval_runtime': 30.0, 'eval_samples_per_second': 800.0, 'epoch': 1.0}\n"


@pytest.mark.parametrize(
    ("bars", "value", "doubts"),
    [
        (_bars_of(100, per_step_s=2.0), 32.0, set()),
        (_bars_of(100, per_step_s=2.0) + _EVALUATED, 32.0, {"evaluation-included"}),
        # The bar of an evaluation, one that counts micro-batches, and one too short for its whole seconds.
        (_bars_of(100, per_step_s=2.0) + _bars_of(40, per_step_s=5.0, of=40), 32.0, set()),
        (_bars_of(100, per_step_s=2.0, of=3140), None, {"no-records"}),
        (_bars_of(20, per_step_s=2.0), None, {"no-records"}),
        # Two runs in one file.
        (_bars_of(100, per_step_s=2.0) + _bars_of(100, per_step_s=3.0), None, {"no-records"}),
    ],
    ids=["bar", "evaluated", "evaluation's bar", "micro-batches", "short", "two runs"],
)
def test_a_trainer_without_a_summary_is_timed_by_its_progress_bar(
    read: Reader, bars: str, value: float | None, doubts: set[str]
) -> None:
    log = read(_TRAINING.format(steps=1570) + "{'loss': 1.2, 'learning_rate': 1e-5, 'epoch': 0.1}\n" + bars)
    result = measure_log(log)

    assert result.value == pytest.approx(value, rel=0.02)
    assert doubts_of(log).keys() == doubts
    assert (result.rule == "progress-bar") is (value is not None)


def test_an_evaluation_in_the_middle_of_a_long_bar_is_found(read: Reader) -> None:
    bars = "".join(_bar(step, step // 100, 30_000) for step in range(1, 30_001))
    evaluation = "{'eval_loss': 0.5, 'eval_runtime': 150.0, 'eval_samples_per_second': 800.0, 'epoch': 1.0}\n"
    half = len(bars) // 2

    log = read(bars[:half] + "\n" + evaluation + bars[half:] + _SUMMARY.format(rate=100.0, epoch=3.0))

    assert doubts_of(log).keys() == {"evaluation-included"}


def test_the_batch_is_that_of_the_training_that_ran(read: Reader) -> None:
    tried = _TRAINING.format(steps=1570).replace(" = 8\n", " = 32\n").replace(" = 64\n", " = 256\n")

    log = read(tried + _TRAINING.format(steps=1570) + _SUMMARY.format(rate=5.233, epoch=10.0))

    assert (log.facts.batch_per_device, log.facts.global_batch) == (8, 64)


def test_a_nan_gradient_is_a_diverged_training(read: Reader) -> None:
    line = "{{'loss': 0.0, 'grad_norm': {}, 'learning_rate': 4.9e-05, 'epoch': 1.2}}\n"
    end = _SUMMARY.format(rate=5.233, epoch=10.0)

    assert doubts_of(read(line.format("nan") + end)).keys() == {"loss-not-finite"}
    # Where half precision scales the loss, single steps overflow.
    assert (
        doubts_of(read(line.format("nan") + line.format("0.5").replace("0.0,", "2.1,") + end)).keys() == set()
    )


@pytest.mark.parametrize(("samples", "doubted"), [(200.0, False), (400.0, True)])
def test_a_trainers_samples_are_held_against_its_steps(read: Reader, samples: float, doubted: bool) -> None:
    text = (
        "***** Running training *****\n  Num examples = 10,000\n  Num Epochs = 2\n"
        "  Instantaneous batch size per device = 8\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
        "  Gradient Accumulation steps = 1\n  Total optimization steps = 312\n"
        f"{{'train_runtime': 100.0, 'train_samples_per_second': {samples}, 'train_steps_per_second': 3.12, "
        "'train_loss': 1.0, 'epoch': 2.0}\n"
    )

    assert ("rates-contradict-batch" in doubts_of(read(text))) is doubted
