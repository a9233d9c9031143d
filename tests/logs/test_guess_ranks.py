"""Whose a guessed rate is: that of one device, or of all."""

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from guess_logs import START, guessed_row

from trainmark.logs import Facts, Status
from trainmark.logs.guess.families import meaning_of
from trainmark.programs import read_log, read_stream


@pytest.mark.parametrize("words", ["per GPU", "(per GPU)", "/GPU", "per device"])
def test_words_behind_a_unit_name_the_devices(words: str) -> None:
    found = meaning_of("speed", "img/s", f" img/s {words} loss ")

    assert found is not None
    assert found.per_device


@pytest.mark.parametrize("tag", ["[1,{rank}]<stdout>:", "[default{rank}]:", "{rank}: "])
def test_a_log_of_tagged_ranks_is_guessed_and_read_rank_by_rank(tmp_path: Path, tag: str) -> None:
    lines = [
        tag.format(rank=rank) + f"step {at} | loss 2.5 | step_time 0.5 s | data_time 0.{rank + 1} s"
        for at in range(1, 61)
        for rank in (0, 1)
    ]
    (tmp_path / "a.log").write_text("\n".join([*lines, ""]))

    log = read_log(tmp_path / "a.log", guess=True)

    assert log.status.value == "guessed"
    waits = [one.records.data_time_s for one in log.tagged_ranks()]
    assert [column.array()[0] for column in waits if column is not None] == [0.1, 0.2]


@pytest.mark.parametrize(
    "tag", ["", "[rank{}] ", "cuda:{} | ", "[rank {}/4] "], ids=["untagged", "rank", "device", "rank-of-all"]
)
def test_different_rates_of_ranks_are_each_ranks_own_and_equal_ones_those_of_all(
    tmp_path: Path, tag: str
) -> None:
    def lines(each: float) -> str:
        return "".join(
            f"{tag.format(rank)}step {at} | loss 2.{at} | {100 + at % 3 + each * rank:.1f} samples/s\n"
            for at in range(1, 61)
            for rank in range(4)
        )

    own = guessed_row(tmp_path, lines(0.1), Facts(gpus=4))
    of_all = guessed_row(tmp_path, lines(0.0), Facts(gpus=4))

    assert (own["status"], own["records"]) == ("guessed", 60)
    assert own["throughput"] == pytest.approx(4 * 101, rel=0.01)
    assert of_all["throughput"] == pytest.approx(101, rel=0.01)
    assert "is samples/s of one device" in own["problems"][0]["message"]
    assert "if each prints its own rate, all are 4 times as fast" in of_all["problems"][0]["message"]
    assert own["problems"][0]["severity"] == of_all["problems"][0]["severity"] == "doubt"


@pytest.mark.parametrize(
    ("form", "given", "value"),
    [
        (lambda at: f"step {at} avg_samples/s {900 + at} samples/s 1000.0", Facts(), 1000),
        (lambda at: f"step {at} avg samples/s {900 + at} samples/s 1000.0", Facts(), 1000),
        (lambda at: f"step {at} local_tps 1000 global_tps 8000 time 1.0", Facts(), 8000),
        (lambda at: f"step {at} throughput per node: 1000 samples/s", Facts(nodes=2, gpus=16), 2000),
        (lambda at: f"step {10 * at} 10 steps took 5.0 s", Facts(gpus=1, batch_per_device=16), 32),
        (lambda at: f"step {10 * at} steps took 5.0 s", Facts(gpus=1, batch_per_device=16), None),
        (lambda at: f"step {at} loss 2,{at} | 1.234,5 tok/s", Facts(), None),
        (
            lambda at: f"step {at} gpu time 0.25 s sync time 0.25 s step time 0.50 s",
            Facts(gpus=1, batch_per_device=8),
            16,
        ),
        (lambda at: f"step {at} time 2.0 min", Facts(gpus=1, batch_per_device=8), 8 / 120),
        (lambda at: f"step {at} elapsed {at / 10} h", Facts(gpus=1, batch_per_device=8), 8 / 360),
        (lambda at: f"step {at} epoch_time 12.5", Facts(gpus=1, batch_per_device=8), None),
        (lambda at: f"step {at} | 234,5 tok/s", Facts(), None),
    ],
)
def test_of_several_figures_the_one_of_all_steps_and_devices_is_used(
    tmp_path: Path, form: Callable[[int], str], given: Facts, value: float | None
) -> None:
    row = guessed_row(tmp_path, "".join(f"{form(at)}\n" for at in range(1, 100)), given)

    assert row["throughput"] == (None if value is None else pytest.approx(value))


def test_lines_that_print_the_same_steps_are_named(tmp_path: Path) -> None:
    """A GAN trains two networks in turn: the time of a step is that of both."""
    text = "".join(f"[G] step {at} time 0.25 s\n[D] step {at} time 0.25 s\n" for at in range(1, 100))

    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=8))

    assert "lines such as '[D] step N time N s' print the same steps" in row["problems"][0]["message"]


@pytest.mark.parametrize(("each", "of"), [(1, "one device"), (0, "all devices")])
@pytest.mark.parametrize("tag", ["[rank{}]: ", "{}: ", "[rank {}] "])
def test_rates_of_tagged_ranks_may_be_each_ranks_own(tag: str, each: int, of: str) -> None:
    lines = (
        f"{tag.format(rank)}step {step} loss 3.2 throughput {1000 + each * rank + step % 3} samples/s\n"
        for step in range(1, 100)
        for rank in range(4)
    )

    log = read_stream(io.BytesIO("".join(lines).encode()), "a.log", guess=True)

    assert log.status is Status.GUESSED
    (doubt,) = (one.message for one in log.problems if one.code == "guessed")
    assert f"is samples/s of {of}" in doubt
    assert doubt.count("if each prints its own rate, all are 4 times as fast") == 1 - each


@pytest.mark.parametrize(
    ("form", "whose"),
    [
        (
            lambda rank, at: f"[rank{rank}] iter {at} | loss 2.1 | {8 + at % 3 / 10:.2f} samples/s",
            "one device",
        ),
        (
            lambda rank, at: f"[rank{rank}] iter {at} | loss 2.1 | {32 + at % 3 / 10:.2f} samples/s",
            "all devices",
        ),
        (
            lambda rank, at: f"rank: {rank}, iter {at} | loss 2.1 | {32 + at % 3 / 10:.2f} samples/s",
            "all devices",
        ),
    ],
)
def test_the_clock_and_the_batch_show_whose_the_rates_are(
    tmp_path: Path, form: Callable[[int, int], str], whose: str
) -> None:
    lines = (
        f"{START + timedelta(seconds=2 * at):%Y-%m-%d %H:%M:%S} {form(rank, at)}\n"
        for at in range(1, 90)
        for rank in range(4)
    )

    row = guessed_row(tmp_path, "".join(lines), Facts(gpus=4, batch_per_device=16))

    assert row["throughput"] == pytest.approx(32, rel=0.02)
    assert f"is samples/s of {whose}" in row["problems"][0]["message"]
