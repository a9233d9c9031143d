"""The moments at which the lines of a log arrived, by the noted sizes of the log."""

import io
import time
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from trainmark.logs.guess.reading import propose_for, proposed_format, read_guessed
from trainmark.logs.records import pieces, read_arrivals, record_times
from trainmark.node.telemetry import ArrivalClock
from trainmark.programs import read_stream


def arrived_pieces(path: Path, writes: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """Return the pieces of a log that a program wrote at these moments, each noticed at once."""
    path.write_bytes(b"".join(text for _, text in writes))
    sizes = accumulate(len(text) for _, text in writes)
    noted = [(writes[0][0], 0), *((at, size) for (at, _), size in zip(writes, sizes, strict=True))]
    return pieces(path, noted)


def test_a_bar_arrives_with_its_text_also_if_the_next_message_is_printed_behind_it(tmp_path: Path) -> None:
    """The Trainer's last bar: its logger begins no line of its own, 30 to 40 ms later."""
    bar = b"\r100%|##########| 120/120 [00:11<00:00, 14.66it/s]"
    writes = [(1000.0, b"{'loss': 9.3}\n" + bar), (1001.0, b"[INFO|trainer.py] \nTraining completed.\n")]
    assert arrived_pieces(tmp_path / "train.log", writes) == [
        (1000.0, b"{'loss': 9.3}\n\r"),
        (1000.0, bar[1:] + b"[INFO|trainer.py] \n"),
        (1001.0, b"Training completed.\n"),
    ]


def test_a_bar_that_begins_with_its_lines_end_arrived_with_its_text(tmp_path: Path) -> None:
    writes = [(1000.0 + second, b"\rstep %d" % second) for second in range(1, 5)]
    arrived = arrived_pieces(tmp_path / "train.log", writes)
    found = {piece.strip(): moment for moment, piece in arrived if piece.strip()}
    assert found == {text.strip(): moment for moment, text in writes}
    assert b"".join(piece for _, piece in arrived) == b"".join(text for _, text in writes)


def test_a_line_whose_text_arrives_in_two_parts_arrived_with_the_second(tmp_path: Path) -> None:
    writes = [(1.0, b"step 1 lo"), (2.0, b"ss 0.5\nstep 2"), (3.0, b" loss 0.4\n")]
    arrived = arrived_pieces(tmp_path / "train.log", writes)
    assert arrived == [(2.0, b"step 1 loss 0.5\n"), (3.0, b"step 2 loss 0.4\n")]


def test_the_last_record_of_a_bar_took_as_long_as_the_others(tmp_path: Path) -> None:
    writes = [
        (1000.0 + step / 50, b"\r%3d%%|####      | %d/150 [00:01<00:01, 50.0it/s]" % (step / 1.5, step))
        for step in range(5, 151, 5)
    ]
    arrived = arrived_pieces(tmp_path / "train.log", [*writes, (1003.0, b"\n")])
    text = b"".join(piece for _, piece in arrived)
    guess = propose_for(text)
    assert guess is not None
    log = read_guessed(read_stream(io.BytesIO(text), "log"), io.BytesIO(text), None, guess)
    assert log is not None
    times = record_times(arrived, log, proposed_format(guess))
    assert times is not None
    assert np.diff(times) == pytest.approx(0.1)


def test_a_line_arrived_when_it_was_written_however_late_the_look_at_the_log_is(tmp_path: Path) -> None:
    log, arrivals = tmp_path / "train.log", tmp_path / "train.arrivals"
    written = []
    with log.open("wb", buffering=0) as file, ArrivalClock(log, arrivals, interval_s=0.4):
        for step in range(3):
            began = time.time()
            file.write(b"step %d\n" % step)
            written.append((began, time.time(), (step + 1) * len(b"step 0\n")))
            while written[-1][2] not in {size for _, size in read_arrivals(arrivals)}:
                time.sleep(0.01)

    noted = {size: moment for moment, size in read_arrivals(arrivals)}
    for began, ended, size in written:
        assert began - 0.02 < noted[size] < ended + 0.001
