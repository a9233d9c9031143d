"""Logs that people and terminals wrote over (locales, cuts, wraps, units): no other number without a doubt."""

import io
import re
from collections.abc import Callable

import pytest
from conftest_logs import Reader

from trainmark.logs import Facts, ParsedLog, Severity, Status
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import find_rule, measure_log
from trainmark.programs import read_stream, synthetic_log

_GIVEN = Facts(gpus=8, batch_per_device=64)


def _text(name: str, seconds: float = 0.2) -> str:
    return synthetic_log(name, SampleRun([seconds + 0.0003 * (i * 7 % 11) for i in range(300)]))


def _doubts(log: ParsedLog) -> set[str]:
    result = measure_log(log)
    if log.status is not Status.OK or result.value is None:
        return {"no-number"}
    return {p.code for p in (*log.problems, *result.problems) if p.severity is Severity.DOUBT}


def _grouped(by: str) -> Callable[[str], str]:
    return lambda text: re.sub(r"(?<![\d.:])(\d)(\d{3})(?=\.\d)", rf"\1{by}\2", text)


def _half_in_commas(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(
        re.sub(r"(?<=\d)\.(?=\d)", ",", line) if at > len(lines) // 2 else line
        for at, line in enumerate(lines)
    )


def _all_in_commas(text: str) -> str:
    return re.sub(r"(?<=\d)\.(?=\d)", ",", text)


def _in_thousands(text: str) -> str:
    return re.sub(r"(\d{4})\.\d+(?=[^\d])", lambda found: f"{float(found[0]) / 1000:.3f}k", text)


def _cut_at_80(text: str) -> str:
    return "\n".join(line[:80] for line in text.split("\n"))


def _wrapped_at_80(text: str) -> str:
    return "\n".join(
        line[at : at + 80] for line in text.split("\n") for at in range(0, max(len(line), 1), 80)
    )


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("build-nanogpt", _grouped(" ")),
        ("composer", _grouped(" ")),
        ("hf-trainer", _grouped(",")),
        ("hf-trainer", _grouped(" ")),
        ("hf-trainer", _grouped("'")),
        ("hf-trainer", _in_thousands),
        ("nvidia-ssd", _grouped(" ")),
        ("nvidia-ssd", _cut_at_80),
        ("nvidia-ssd", _wrapped_at_80),
        ("nvidia-tacotron2", _cut_at_80),
        ("nvidia-tacotron2", _wrapped_at_80),
        ("oneflow", _grouped(" ")),
        ("pytorch-imagenet", _half_in_commas),
        ("tf-cnn-benchmarks", _grouped(" ")),
        ("tf-cnn-benchmarks", _all_in_commas),
    ],
)
def test_a_number_read_only_in_part_is_a_doubt(
    read: Reader, name: str, written: Callable[[str], str]
) -> None:
    whole = _text(name)
    assert not _doubts(read(whole, given=_GIVEN)) & {"numbers-cut", "records-passed-over", "numbers-unread"}

    assert _doubts(read(written(whole), given=_GIVEN))


def test_a_configuration_printed_again_is_a_second_run(read: Reader) -> None:
    """An older version of Composer, which prints no counter."""
    first, second = (
        [line for line in _text("composer", seconds).split("\n") if "time/batch" not in line]
        for seconds in (0.2, 0.21)
    )
    log = read("\n".join(first[:1200] + second))

    assert "several-runs" in _doubts(log)


def test_two_trainmark_runs_in_one_file_are_a_doubt(read: Reader) -> None:
    pairs = zip(_text("trainmark").split("\n"), _text("trainmark", 0.3).split("\n"), strict=True)
    text = "\n".join(f"{rank}: {line}" for pair in pairs for rank, line in enumerate(pair))

    assert _doubts(read(text))


@pytest.mark.parametrize("factor", [0.001, 3.0])
def test_hf_trainers_samples_are_checked_against_its_steps(read: Reader, factor: float) -> None:
    text = re.sub(
        r"(?<='train_samples_per_second': )([\d.]+)",
        lambda found: f"{float(found[0]) * factor:.3f}",
        _text("hf-trainer"),
    )

    assert "rates-contradict-batch" in _doubts(read(text))


def test_a_rate_that_contradicts_its_images_and_time_is_a_doubt(read: Reader) -> None:
    text = re.sub(r"(?<=Average images/sec: )[\d.]+", "2.541", _text("nvidia-ssd"))

    assert "rate-contradicts-time" in _doubts(read(text))


def test_a_truncated_list_of_devices_counts_nothing(read: Reader) -> None:
    text = "\n".join(line[:-3] if len(line) > 50 else line for line in _text("paddleclas").split("\n"))

    assert read(text).facts.gpus != 6


@pytest.mark.parametrize("every", [10, 299])
def test_a_digit_too_many_in_some_averages_does_not_hide_the_other_problems(read: Reader, every: int) -> None:
    lines = _text("timm").split("\n")
    at = range(100, len(lines), every)
    damaged = [
        re.sub(r"(?<=s, )(\d)(\d+\.\d+/s\))", r"\1\1\2", x) if n in at else x for n, x in enumerate(lines)
    ]
    assert damaged != lines

    assert "batches-differ" in _doubts(read("\n".join(damaged)))
    assert "batches-differ" not in _doubts(read("\n".join(lines)))


def test_the_columns_of_a_table_are_no_decimal_commas() -> None:
    rows = [f"{step},2.3,{100 + step % 3 / 10:.2f},{2560 - step % 5}" for step in range(1, 60)]

    text = "\n".join(["step,loss,time_ms,images_per_sec", *rows]) + "\n"
    log = read_stream(io.BytesIO(text.encode()), "-", guess=True)

    assert log.records.count == 59
    assert "numbers-cut" not in _doubts(log)


def test_a_log_with_only_its_own_result_has_no_step_to_skip(read: Reader) -> None:
    log = read("{'train_runtime': 250.0, 'train_samples_per_second': 64.0, 'train_steps_per_second': 2.0}\n")

    (note,) = (one for one in measure_log(log).problems if one.code == "by-summary")
    assert "no window (no line of the log has the rate or the time of a step)" in note.message
    skipped = measure_log(log, find_rule("window", 0))
    assert [one.message for one in skipped.problems] == [
        "no line of the log has the rate or the time of a step"
    ]


def test_a_run_with_its_last_bar_drawn_is_not_stopped_early(read: Reader) -> None:
    head = "***** Running training *****\n  Num examples = 800\n  Num Epochs = 1\n"
    bars = "".join(
        f"\r{step:3d}%|###| {step}/100 [00:{step // 2:02d}<00:30,  2.00it/s]" for step in range(101)
    )
    text = "\n{'train_runtime': 45.0, 'train_samples_per_second': 17.7, 'train_steps_per_second': 2.2}\n"

    assert "stopped-early" not in _doubts(read(head + bars + text))
