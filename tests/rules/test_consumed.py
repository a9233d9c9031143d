"""Counters of consumed samples and tokens, and batch x sequence length, are held against the printed rate."""

import io
from collections.abc import Callable

import pytest

from trainmark.logs import Facts, ParsedLog, Severity
from trainmark.logs.description.patterns import compile_pattern
from trainmark.logs.lines.fields import derived, extract
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.catalog import count_consumed
from trainmark.programs import read_stream

_COUNTER = "consumed counter"


def _read(text: str, given: Facts | None = None) -> tuple[ParsedLog, dict[str, float], dict[str, str]]:
    """Return the log, its witnesses by name, and its doubts by code."""
    log = read_stream(io.BytesIO(text.encode()), "-", given)
    result = measure_log(log)
    problems = (*log.problems, *result.problems)
    doubts = {p.code: p.message for p in problems if p.severity is Severity.DOUBT}
    return log, {one.name: one.value for one in result.witnesses}, doubts


def _human(value: float) -> str:
    """Return a number as nanotron prints it: three digits and a unit."""
    value = float(f"{value:.3g}")
    for unit in ("", "K", "M"):
        if value < 1000:
            return f"{value:f}".rstrip("0").rstrip(".") + unit
        value /= 1000
    return f"{value:f}".rstrip("0").rstrip(".") + "B"


def _megatron(line: Callable[[int], int] = lambda step: 512 * step, batch: int = 512, count: int = 60) -> str:
    return "using world size: 8, data-parallel size: 8\n" + "".join(
        f" [2026-03-01 12:{step // 60:02}:{step % 60:02}] iteration {step:8d}/     100 | consumed samples: "
        f"{line(step):12d} | elapsed time per iteration (ms): 1000.0 | learning rate: 9.15E-06 | "
        f"global batch size: {batch:5d} | lm loss: 2.50E+00 |\n"
        for step in range(1, count + 1)
    )


def _nanotron(
    *,
    tokens: int = 262_144,
    start: int = 0,
    rate: float = 250_000,
    count: int = 60,
    name: str = "elapsed_time",
) -> str:
    return "".join(
        f"01/17/2026 16:31:50 [INFO|DP=0|PP=0|TP=0]: iteration: {step} / 100 | consumed_tokens: "
        f"{_human(start + tokens * step)} | {name}_per_iteration_ms: 1.05K | tokens_per_sec: {_human(rate)} | "
        "tokens_per_sec_per_gpu: 31.2K | global_batch_size: 64 | lm_loss: 2.38 |\n"
        for step in range(1, count + 1)
    )


def _olmo(*, tokens: int = 5_242_880, every: int = 10, count: int = 40) -> str:
    return "".join(
        "2025-12-22T10:01:00.000000Z\tnode-0:0\tolmo_core.train.callbacks.console_logger:45\tINFO\t"
        f"[step={step * every}/1000,epoch=1,eta=1h]\n    optim/LR (group 0)=0.0005\n"
        "    throughput/device/BPS=3.939\n    throughput/device/BPS (actual avg)=2.990\n"
        "    throughput/device/MFU=44.57\n    throughput/device/TPS=258,163\n"
        "    throughput/device/TPS (actual avg)=195,922\n"
        f"    throughput/total tokens={_olmo_number(tokens * step * every)}\n    train/CE loss=6.445\n"
        for step in range(1, count + 1)
    )


def _olmo_number(value: int) -> str:
    return f"{value / 1e9:.4f}B" if value >= 1e9 else f"{value:,}"


@pytest.mark.parametrize(
    ("text", "given", "value"),
    [
        (_megatron(), None, 512.0),
        (_nanotron(), None, 262_144 / 1.05),
        (_nanotron(name="time"), None, 262_144 / 1.05),
        (_olmo(), Facts(gpus=80), 5_242_880 * 3.939),
    ],
    ids=["megatron", "nanotron of 2025", "nanotron of 2026", "olmo-core"],
)
def test_a_consumed_counter_is_a_witness(text: str, given: Facts | None, value: float) -> None:
    _, witnesses, doubts = _read(text, given)

    assert witnesses[_COUNTER] == pytest.approx(value, rel=0.01)
    assert "witnesses-disagree" not in doubts


def test_a_counter_that_rises_by_more_than_the_printed_batch_is_a_doubt() -> None:
    """A batch size that is printed for a single micro-batch."""
    _, witnesses, doubts = _read(_megatron(lambda step: 2048 * step))

    assert witnesses[_COUNTER] == pytest.approx(2048)
    assert "by the consumed counter it is 2048" in doubts["witnesses-disagree"]


def test_a_rate_that_leaves_out_padding_is_named_so() -> None:
    _, _, doubts = _read(_nanotron(rate=180_000))

    assert "the printed rate may leave out padding" in doubts["witnesses-disagree"]


def test_a_counter_that_leaves_out_padding_is_named_so() -> None:
    _, _, doubts = _read(_nanotron(tokens=180_000))

    assert "the counter may leave out padding" in doubts["witnesses-disagree"]


def test_a_wrong_number_of_devices_is_named() -> None:
    _, _, doubts = _read(_olmo(), Facts(gpus=8))

    assert "the run has 80 devices, not 8" in doubts["witnesses-disagree"]


def test_a_counter_with_too_few_digits_is_no_witness() -> None:
    """The counter reads 7B in all lines but the last, 7.01B."""
    log, witnesses, _ = _read(_nanotron(start=7_000_000_000, count=30))

    assert log.records.consumed is not None
    assert _COUNTER not in witnesses


@pytest.mark.parametrize(
    "line",
    [
        lambda step: 512 * step if step != 30 else 0,  # a damaged number
        lambda step: 512 * (step if step < 30 else step - 29),  # reset
        lambda step: 512 * step + (10**9 if step >= 30 else 0),
    ],
)
def test_one_bad_number_of_the_counter_moves_its_witness_not_the_throughput(
    line: Callable[[int], int],
) -> None:
    log, _, _ = _read(_megatron(line))

    assert measure_log(log).value == pytest.approx(512)


def test_a_counter_that_does_not_rise_is_no_witness() -> None:
    _, witnesses, _ = _read(_megatron(lambda _: 0))

    assert _COUNTER not in witnesses


def test_lines_that_are_missing_leave_the_witness_as_it_is() -> None:
    lines = _megatron().splitlines(keepends=True)
    _, witnesses, doubts = _read("".join(lines[:20] + lines[33:]))

    assert witnesses[_COUNTER] == pytest.approx(512)
    assert "records-missing" in doubts


def test_records_that_the_number_leaves_out_are_not_counted() -> None:
    log, _, _ = _read(_megatron(lambda step: 512 * step + (4000 if step > 20 else 0)))

    whole, rest = count_consumed(log, 5), count_consumed(log, 21)
    assert whole is not None
    assert rest is not None
    assert whole.units == pytest.approx(512 * 55 + 4000)
    assert rest.units == pytest.approx(512 * 39)


def test_tokens_per_second_are_held_against_batch_times_sequence_length() -> None:
    """torchtitan prints no time of a step: the stamps give it."""
    head = (
        "[rank0]:[titan] 2026-06-16 22:30:00,000 - root - INFO - Trainer is initialized with local batch size 1, "
        "global batch size 8, gradient accumulation steps 1, sequence length 8192, total steps 100 (warmup 2)\n"
    )
    lines = "".join(
        f"[rank0]:[titan] 2026-06-16 22:{31 + step // 60:02}:{step % 60:02},000 - root - INFO - step: {step:2}  "
        f"loss:  6.1384  memory: 49.66GiB(52.28%)  tps: 5,000  tflops: 339.16  mfu: 34.29%\n"
        for step in range(1, 61)
    )
    log, _, doubts = _read(head + lines, Facts(gpus=8))

    assert (log.facts.global_batch, log.facts.sequence_length, log.facts.accumulation) == (65_536, 8192, 1)
    assert "the printed rate may leave out padding" in doubts["witnesses-disagree"]


def test_a_count_of_billions_with_commas_and_with_a_unit_is_read_whole() -> None:
    pattern = compile_pattern("tokens={consumed,K} left", "here")
    text = b"tokens=1,048,576,000 left\ntokens=52,428,800 left\ntokens=1.5B left\ntokens=2.5T left\n"

    found = derived(extract(pattern, text).columns)

    assert found["consumed"].tolist() == [1_048_576_000, 52_428_800, 1.5e9, 2.5e12]


@pytest.mark.parametrize(("rise", "agrees"), [(120_000_000, True), (60_000_000, False)])
def test_fairseq2s_total_of_elements_is_held_against_its_rate(rise: int, agrees: bool) -> None:
    text = "".join(
        f"2026-03-01 12:{step:02}:00 INFO: fairseq2 - Train Metrics (step {100 * step}) - "
        "NLL Loss: 2.41 | Data Time: 1s | Compute Time: 59s | Elements per Second: 2,000,000 | "
        f"Number of Elements: {rise:,} | Total Number of Elements: {1_000_000_000 + rise * step:,}\n"
        for step in range(1, 60)
    )

    _, witnesses, doubts = _read(text, Facts(gpus=8))

    assert witnesses[_COUNTER] == pytest.approx(rise / 60)
    assert ("witnesses-disagree" in doubts) is not agrees
