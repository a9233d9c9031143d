"""The wait for data that a line prints is read, for each format whose program prints it."""

import io

import pytest

from trainmark.logs.synthetic import SampleRun
from trainmark.programs import read_stream, synthetic_log

_PRINTED_S = {
    "detectron2": 0.0222,
    "dino": 0.00017,
    "maskrcnn-benchmark": 0.0101,
    "mmengine": 0.0554,
    "mmsegmentation": 0.008,
    "open-clip": 0.125,
    "paddleclas": 0.00051,
    "paddledetection": 0.0003,
    "paddlenlp-bert": 0.00011,
    "paddlenlp-transformer": 0.00439,
    "paddleocr": 0.00971,
    "paddleseg": 0.0202,
    "pytorch-imagenet": 0.001,
    "timm": 0.01,
    "torchvision-references": 0.0003,
}
_PADDLECLAS_OF_2021 = (
    "[2021/11/02 10:00:{second:02}] root INFO: [Train][Epoch 1/10][Iter: {step}/500]lr: 0.1, top1: 0.1, loss: 6.9, "
    "batch_cost: 0.39286s, reader_cost: 0.01500s, ips: 650.1 images/sec, eta: 0:10:00\n"
)


@pytest.mark.parametrize("name", sorted(_PRINTED_S))
def test_the_wait_for_data_of_each_record_is_read(name: str) -> None:
    text = synthetic_log(name, SampleRun([0.5] * 60))

    log = read_stream(io.BytesIO(text.encode()))

    assert log.format == name
    assert log.records.data_time_s is not None
    assert log.records.data_time_s.array().tolist() == pytest.approx([_PRINTED_S[name]] * log.records.count)


def test_the_older_line_of_paddleclas_has_it_too() -> None:
    lines = [_PADDLECLAS_OF_2021.format(step=step, second=step) for step in range(10, 50, 10)]

    log = read_stream(io.BytesIO("".join(lines).encode()))

    assert log.records.data_time_s is not None
    assert log.records.data_time_s.array().tolist() == [0.015] * 4


@pytest.mark.parametrize("name", ["detectron2", "paddleocr", "timm", "paddledetection"])
def test_lines_without_it_are_read_as_before(name: str) -> None:
    words = {
        "detectron2": "data_time: 0.0222 ",
        "timm": "  Data: 0.010 (0.110)",
        "paddledetection": "data_cost: 0.0003 ",
    }
    text = synthetic_log(name, SampleRun([0.5] * 60)).replace(
        words.get(name, "avg_reader_cost: 0.00971 s, "), ""
    )

    log = read_stream(io.BytesIO(text.encode()))

    assert log.format == name
    assert log.records.count >= 58
    assert log.records.data_time_s is None
