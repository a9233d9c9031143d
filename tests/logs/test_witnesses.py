"""The log's own witnesses: what the program says that an epoch took, and stamps around a record that samples."""

from datetime import datetime, timedelta

import pytest
from conftest_logs import Reader

from trainmark.logs import ParsedLog, Severity


def _doubts(log: ParsedLog) -> dict[str, str]:
    return {p.code: p.message for p in log.problems if p.severity is Severity.DOUBT}


def _torchvision(total: str, epochs: int = 2) -> str:
    lines = ["Namespace(amp=True, batch_size=32, world_size=8, model='resnet50')\n"]
    for epoch in range(epochs):
        lines += [
            f"Epoch: [{epoch}]  [{step:5d}/5005]  eta: 0:35:49  lr: 0.1  img/s: 74.4  loss: 6.9 (6.9)  "
            "time: 0.4300  data: 0.0001  max mem: 6000\n"
            for step in range(0, 5000, 50)
        ]
        lines.append(f"Epoch: [{epoch}] Total time: {total}\n")
    return "".join(lines)


@pytest.mark.parametrize(
    ("total", "doubtful"), [("0:35:52", False), ("0:53:48", True), ("1 day, 0:35:52", True)]
)
def test_the_total_time_of_an_epoch_is_checked_against_its_records(
    read: Reader, total: str, doubtful: bool
) -> None:
    assert ("totals-disagree" in _doubts(read(_torchvision(total)))) is doubtful


def _mmengine(every: int) -> str:
    now, lines = (
        datetime(2023, 11, 29, 2, 9, 30),
        ["2023/11/29 02:09:29 - mmengine - INFO - Config:\n    GPU number: 8\n"],
    )
    for number in range(1, 121):
        now += timedelta(seconds=110 if number % every == 0 else 50)
        lines.append(
            f"{now:%Y/%m/%d %H:%M:%S} - mmengine - INFO - Iter(train) [{50 * number:6d}/6000]  lr: 1.9820e-03  "
            "eta: 4:27:58  time: 1.0000  data_time: 0.0554  memory: 20138  loss: 0.7690\n"
        )
    return "".join(lines)


def test_slow_steps_hidden_by_records_of_the_last_steps_show_in_the_clock(read: Reader) -> None:
    assert "40% more" in _doubts(read(_mmengine(every=3)))["rates-contradict-clock"]


def test_a_few_long_gaps_are_evaluations_and_no_contradiction(read: Reader) -> None:
    assert "rates-contradict-clock" not in _doubts(read(_mmengine(every=40)))
