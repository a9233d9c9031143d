"""A line that prints a rate and a step time has its batch twice; a record where they disagree is a doubt."""

import io

import pytest

from trainmark.logs import ParsedLog, Severity
from trainmark.programs import read_stream

_CODE = "record-contradicts-time"


def _read(rates: list[float], seconds: float = 0.78562, batch: int = 96) -> ParsedLog:
    head = f"Namespace(batch_size={batch}, gradient_merge_steps=1, max_steps=600, use_amp=True)\n"
    lines = "".join(
        f"total step: {10 * at}, epoch: 0, batch: {10 * at - 1}, loss: 10.8, avg_reader_cost: 0.00008 sec, "
        f"avg_batch_cost: {seconds:.5f} sec, avg_samples: {batch}.00000, ips: {rate:.5f} sequences/sec\n"
        for at, rate in enumerate(rates, 1)
    )
    return read_stream(io.BytesIO((head + lines).encode()))


def _doubts(log: ParsedLog) -> dict[str, str]:
    return {p.code: p.message for p in log.problems if p.severity is Severity.DOUBT}


def test_a_digit_that_changes_in_one_rate_is_a_doubt_by_its_time() -> None:
    rates = [96 / 0.78562] * 50
    rates[43] = 162.18389

    message = _doubts(_read(rates))[_CODE]

    assert message.startswith(
        "record 44 has a rate and a step time that make a batch of 127.4, the others one of 96"
    )


def test_records_that_agree_are_no_doubt() -> None:
    assert _CODE not in _doubts(_read([96 / 0.78562] * 50))


def test_batches_that_vary_throughout_are_no_doubt() -> None:
    assert _CODE not in _doubts(_read([(96 - at % 7 * 8) / 0.78562 for at in range(50)]))


def test_times_with_few_digits_are_no_doubt() -> None:
    """0.0123 s may be 0.01225 or 0.01235 s, and 0.0004 s anything from 0.00035 to 0.00045 s."""
    log = _read([96 / 0.00044 if at % 20 else 96 / 0.00036 for at in range(60)], seconds=0.0004)

    assert _CODE not in _doubts(log)


@pytest.mark.parametrize(("number", "is_doubted"), [(1, True), (12, False)])
def test_one_odd_record_of_a_hundred_is_damage_and_many_are_not(number: int, is_doubted: bool) -> None:
    rates = [96 / 0.78562 * (3 if at < number else 1) for at in range(100)]

    assert (_CODE in _doubts(_read(rates))) is is_doubted
