"""The lines of training loops as tutorials and examples print them: no time, read with the moment of their arrival."""

import io
import random
from collections.abc import Callable

import pytest

from trainmark.logs import Facts, Status
from trainmark.logs.description import build_format, parse_description
from trainmark.logs.format import GivenFormats
from trainmark.logs.guess.reading import propose_for, read_guessed
from trainmark.logs.read import read_stream as read_by
from trainmark.logs.records import stamped
from trainmark.measure.rules import measure_log
from trainmark.programs import read_stream

STEP_S, BATCH, STEPS, EPOCHS = 0.05, 64, 300, 3
RATE = BATCH / STEP_S
Form = Callable[[int, int], str]
"""From the epoch and the step, both from 0, to a line."""


def _pieces(line: Form, every: int, head: Form, end: str) -> list[tuple[float, bytes]]:
    """Return the lines of a run with the moments of their arrival; a step varies by 3 %."""
    draws, now = random.Random(1), 1.78e9
    pieces = [(now, "loading data\n")]
    for epoch in range(EPOCHS):
        pieces.append((now, head(epoch, 0)))
        for step in range(STEPS):
            now += STEP_S * draws.uniform(0.97, 1.03)
            if (step + 1) % every == 0:
                pieces.append((now, line(epoch, step)))
        if end:
            now += 4.0  # a validation, which is not part of a step
            pieces.append((now, end))
    return [(at, text.encode()) for at, text in pieces if text]


def _nothing(_: int, __: int) -> str:
    return ""


LOOPS: dict[str, tuple[Form, int, Form, str]] = {
    "epoch of a total, step of a total": (
        lambda epoch, step: f"Epoch [{epoch + 1}/3], Step [{step + 1}/300], Loss: 0.{470 + step}\n",
        20,
        _nothing,
        "Accuracy of the model on the 10000 test images: 97.1 %\n",
    ),
    "samples of a total under a heading": (
        lambda _, step: f"loss: 2.30{step % 10}494  [{(step + 1) * BATCH:>5d}/19200]\n",
        20,
        lambda epoch, _: f"Epoch {epoch + 1}\n-------------------------------\n",
        "Test Error: \n Accuracy: 45.1%, Avg loss: 2.1 \n\n",
    ),
    "samples of a total and a percentage": (
        lambda epoch, step: (
            f"Train Epoch: {epoch + 1} [{step * BATCH}/19200 ({step / 3:.0f}%)]\tLoss: 0.{300 + step}\n"
        ),
        10,
        _nothing,
        "\nTest set: Average loss: 0.0512, Accuracy: 9830/10000 (98%)\n\n",
    ),
    "two numbers in brackets": (
        lambda epoch, step: f"[{epoch + 1}, {step + 1:5d}] loss: 1.{300 + step}\n",
        50,
        _nothing,
        "validated\n",
    ),
    "two pairs in brackets": (
        lambda epoch, step: f"[{epoch}/3][{step}/300]\tLoss_D: 0.5{step:03d}\tLoss_G: 4.1{step:03d}\n",
        10,
        _nothing,
        "images saved\n",
    ),
    "an epoch in brackets": (
        lambda epoch, step: f"[{epoch}] {step + 1:>4}/300 loss 0.{300 + step} acc 0.5 eta 0:00:12\n",
        10,
        _nothing,
        "",
    ),
    "steps of a total under a heading": (
        lambda _, step: f"{step + 1}/300, train_loss: 0.{600 + step}\n",
        1,
        lambda epoch, _: f"----------\nepoch {epoch + 1}/3\n",
        "epoch average loss: 0.5555\n",
    ),
    "samples by name": (
        lambda epoch, step: f"samples seen: {(epoch * STEPS + step + 1) * BATCH} loss 0.{300 + step}\n",
        10,
        _nothing,
        "",
    ),
    "a dictionary": (
        lambda epoch, step: f"{{'step': {epoch * STEPS + step + 1}, 'loss': 0.{300 + step}, 'lr': 0.0001}}\n",
        10,
        _nothing,
        "",
    ),
    "the time of ten steps": (
        lambda epoch, step: f"step {epoch * STEPS + step + 1} loss 0.{300 + step} time 0.50s\n",
        10,
        _nothing,
        "",
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_arrival_of_the_lines_gives_the_rate_of_a_loop(name: str) -> None:
    text = b"".join(piece for _, piece in stamped(_pieces(*LOOPS[name])))
    given = Facts(gpus=1, batch_per_device=BATCH)
    unknown = read_stream(io.BytesIO(text), "loop.log", given)
    assert unknown.status is Status.UNKNOWN
    guess = propose_for(text)
    assert guess is not None
    log = read_guessed(unknown, io.BytesIO(text), given, guess)
    assert log is not None
    measured = measure_log(log)
    assert measured.status is Status.GUESSED
    assert measured.value == pytest.approx(RATE, rel=0.005)
    assert {problem.code for problem in (*log.problems, *measured.problems)} <= {
        "guessed",
        "incomplete",
        "between-epochs",
        "few-records",
    }


def test_a_counter_without_a_name_is_shown_by_its_values() -> None:
    loop = LOOPS["samples of a total and a percentage"]
    guess = propose_for(b"".join(piece for _, piece in stamped(_pieces(*loop))))
    assert guess is not None
    assert any("the increasing number (576, 1216, 1856, …) counts samples" in each for each in guess.assumed)


def test_a_bare_time_of_lines_of_every_nth_step_is_in_doubt() -> None:
    text = "".join(f"step {10 * at} loss 0.{300 + at} time 0.50s\n" for at in range(1, 60)).encode()
    guess = propose_for(text)
    assert guess is not None
    assert any("if it is that of all 10 steps since the line before" in each for each in guess.assumed)


def test_a_counter_that_restarts_needs_no_epoch_in_a_description() -> None:
    document = {"title": "mine", "unit": "samples/s", "restarts_each_epoch": True}
    lines = "".join(
        f"2026-03-01 12:{at // 60:02}:{at % 60:02} {at % 200}/200 loss 1.5\n" for at in range(600)
    ).encode()
    known = build_format(
        parse_description({**document, "records": ["{stamp} {step}/200 loss"]}, "a.yaml", "mine")
    )
    log = read_by(io.BytesIO(lines), GivenFormats((known,)), "a.log", Facts(gpus=1, batch_per_device=4))
    assert log.records.epoch is not None
    assert sorted(set(log.records.epoch)) == [0, 1, 2]
    assert log.status is not Status.UNKNOWN
    assert measure_log(log).value == pytest.approx(4)


def _bar(words: str, step: int, seconds: float) -> str:
    share = step * 100 // STEPS
    return (
        f"{words}{share:3d}%|{'#' * (share // 10):10}| {step}/{STEPS} "
        f"[00:{seconds:02.0f}<00:05, 19.87it/s, loss=0.{300 + step}]"
    )


@pytest.mark.parametrize(
    "words", ["", "Training: ", "Epoch {epoch}: ", "Epoch {epoch}/3: ", "[{epoch}] train: "]
)
def test_the_arrival_of_a_progress_bar_gives_the_rate_of_a_loop(words: str) -> None:
    draws, now = random.Random(1), 1.78e9
    pieces = [(now, b"Map: 100%|##########| 5000/5000 [00:01<00:00, 9000.00 examples/s]\n")]
    for epoch in range(EPOCHS):
        began = now
        for step in range(STEPS + 1):
            # tqdm draws a bar when a tenth of a second has passed, and again for each set_postfix.
            for _ in range(1 + (step % 3 == 0)):
                line = _bar(words.format(epoch=epoch), step, now - began)
                pieces.append((now, f"\r{line}".encode()))
            now += STEP_S * draws.uniform(0.97, 1.03)
        pieces.append((now, b"\n"))
        for step in range(20):
            now += 0.02
            pieces.append(
                (now, f"\rValidating: {step * 5:3d}%|##  | {step}/20 [00:01<00:00, 50.0it/s]".encode())
            )
        pieces.append((now, b"\n"))
    text = b"".join(piece for _, piece in stamped(pieces))
    given = Facts(gpus=1, batch_per_device=BATCH)
    unknown = read_stream(io.BytesIO(text), "bar.log", given)
    assert unknown.status is Status.UNKNOWN
    guess = propose_for(text)
    assert guess is not None
    log = read_guessed(unknown, io.BytesIO(text), given, guess)
    assert log is not None
    assert log.records.count == EPOCHS * STEPS + EPOCHS
    assert measure_log(log).value == pytest.approx(RATE, rel=0.005)


@pytest.mark.parametrize(
    "bar",
    [
        "\r\x1b[1m{step:4}/1875\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━━\x1b[0m \x1b[1m9s\x1b[0m 50ms/step - loss: 2.3",
        "\r{step:4}/1875 [==>...........] - ETA: 9s - loss: 2.3 - 50ms/step",
    ],
)
def test_the_bar_of_a_keras_epoch_that_does_not_end_gives_a_rate_by_its_arrival(bar: str) -> None:
    pieces = [(1.78e9 + STEP_S * step, bar.format(step=step).encode()) for step in range(1, 400, 3)]
    text = b"".join(piece for _, piece in stamped([(1.78e9, b"Epoch 1/9\n"), *pieces]))
    guess = propose_for(text)
    assert guess is not None
    given = Facts(gpus=1, batch_per_device=BATCH)
    log = read_guessed(read_stream(io.BytesIO(text), "keras.log", given), io.BytesIO(text), given, guess)
    assert log is not None
    assert measure_log(log).value == pytest.approx(RATE, rel=0.005)
