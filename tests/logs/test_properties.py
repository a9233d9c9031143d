"""What must hold for any prefix, any cut, any interleaving: no exception, and no number that hides what is missing."""

import io
import math
import random

import pytest
from conftest_logs import rates, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.logs import Facts, ParsedLog, Status
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.row import reading_row
from trainmark.programs import read_stream, samples

FORMATS = sorted(samples())
_GIVEN = Facts(gpus=8, batch_per_device=64)
_SAMPLES = {name: sample(name, steps=60).encode() for name in FORMATS}


def _read(data: bytes, name: str = "-") -> ParsedLog:
    silent = b"Train: 0 [" in data or b"=> creating model" in data
    return read_stream(io.BytesIO(data), name, _GIVEN if silent else None)


def _check_row(log: ParsedLog) -> None:
    result = measure_log(log)
    row = reading_row(log, result)
    assert (row["throughput"] is None) == (row["status"] != "ok")
    assert row["throughput"] is None or (math.isfinite(row["throughput"]) and row["throughput"] > 0)


@given(name=st.sampled_from(FORMATS), share=st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_a_log_truncated_at_any_byte_is_reported_as_incomplete(name: str, share: float) -> None:
    whole = _SAMPLES[name]
    cut = whole[: int(share * len(whole))]
    log, full = _read(cut), _read(whole)

    _check_row(log)
    value, all_of_it = measure_log(log).value, measure_log(full).value
    if value is not None and value != pytest.approx(all_of_it, rel=1e-12):
        assert any("incomplete" in problem.message for problem in log.problems)


@pytest.mark.parametrize("name", FORMATS)
def test_a_number_cut_within_its_digits_is_never_used(name: str) -> None:
    """Cut the last record at each of its bytes: the rates that are read are those of the whole log, never shorter."""
    whole = _SAMPLES[name]
    every_rate = set(rates(_read(whole)))
    lines = whole.splitlines(keepends=True)
    middle = sum(map(len, lines[: len(lines) // 2]))
    for end in range(middle, middle + len(lines[len(lines) // 2])):
        cut = rates(_read(whole[:end]))
        assert {rate for rate in cut if rate is not None} <= every_rate


@given(
    name=st.sampled_from(FORMATS),
    prefix=st.sampled_from(
        [
            "[1,0]<stdout>:",
            "Wed Jun  1 10:54:35 2022[1,0]<stdout>:",
            "[1,0]<stderr>:",
            "[default0]:",
            "0: ",
            "node-17 | ",
            "2023-08-04T05:47:54.922593000Z stdout F ",
            "\x1b[36mworker_1 |\x1b[0m ",
        ]
    ),
)
@settings(max_examples=80, deadline=None)
def test_a_prefix_before_every_line_changes_no_record(name: str, prefix: str) -> None:
    whole = _SAMPLES[name].decode()
    prefixed = "".join(prefix + line for line in whole.splitlines(keepends=True))

    assert rates(_read(prefixed.encode())) == rates(_read(whole.encode()))


@given(name=st.sampled_from(FORMATS), prefix=st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_no_prefix_raises(name: str, prefix: str) -> None:
    whole = _SAMPLES[name].decode()

    _check_row(_read("".join(prefix + line for line in whole.splitlines(keepends=True)).encode()))


@given(name=st.sampled_from(FORMATS), seed=st.integers(0, 1 << 30), ranks=st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_any_interleaving_of_tagged_ranks_reads_as_one_rank(name: str, seed: int, ranks: int) -> None:
    whole = _SAMPLES[name].decode()
    queues = [whole.splitlines(keepends=True) for _ in range(ranks)]
    chance = random.Random(seed)
    mixed = []
    while queues_left := [rank for rank, queue in enumerate(queues) if queue]:
        rank = chance.choice(queues_left)
        line = queues[rank].pop(0)
        # Half of the time mpirun is handed a line in two pieces, and another rank may come between.
        cut = chance.randrange(len(line)) if chance.random() < 0.5 else 0
        if cut:
            queues[rank].insert(0, line[cut:])
            line = line[:cut]
        mixed.append(f"[1,{rank}]<stdout>:{line}")
    log = _read("".join(mixed).encode())

    _check_row(log)
    assert rates(log) == rates(_read(whole.encode()))


@given(name=st.sampled_from(FORMATS), seed=st.integers(0, 1 << 30), ranks=st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_untagged_ranks_that_overtake_each_other_never_change_the_number(
    name: str, seed: int, ranks: int
) -> None:
    whole = _SAMPLES[name].decode()
    chance = random.Random(seed)
    lines = []
    for position, line in enumerate(whole.splitlines(keepends=True)):
        lines += [(position + 2 * chance.random(), line) for _ in range(ranks)]
    log = _read("".join(line for _, line in sorted(lines, key=lambda pair: pair[0])).encode())
    value, alone = measure_log(log).value, measure_log(_read(whole.encode())).value

    _check_row(log)
    assert value is None or log.status is not Status.OK or value == pytest.approx(alone, rel=0.05)


@given(data=st.binary(max_size=2000))
@settings(max_examples=200, deadline=None)
def test_no_bytes_raise(data: bytes) -> None:
    _check_row(_read(data))


@given(name=st.sampled_from(FORMATS), at=st.floats(0, 1), noise=st.binary(min_size=1, max_size=60))
@settings(max_examples=150, deadline=None)
def test_noise_in_the_middle_of_a_log_never_raises(name: str, at: float, noise: bytes) -> None:
    whole = _SAMPLES[name]
    position = int(at * len(whole))

    _check_row(_read(whole[:position] + noise + whole[position:]))
