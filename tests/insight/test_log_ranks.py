"""Ranks of one job are compared by their logs or tags; slow ones are named by host, others are not."""

import io
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainmark.errors import InputError
from trainmark.insight.log_ranks import compare_ranks
from trainmark.logs import read_stream
from trainmark.logs.format import GivenFormats
from trainmark.logs.model import Floats
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import find_format, read_log, synthetic_log

HEADER = "| distributed init (rank 0): env://\n"


def rank_log(rank: int, step_s: float, data_s: float = 0.001, steps: int = 120, spread: float = 0.05) -> str:
    """Return a log of one rank as DINO prints it: the time of a step, and how much of it was the wait for its batch."""
    source = random.Random(rank)
    lines = [HEADER]
    for step in range(0, steps * 10, 10):
        noise = source.gauss(1, spread)
        lines.append(
            f"Epoch: [0/100]  [{step:4d}/2502]  eta: 0:02:44  loss: 5.385776 (7.546279)  lr: 0.000089 (0.000045)  "
            f"wd: 0.040071 (0.040024)  time: {step_s * noise:.6f}  data: {data_s * noise:.6f}  max mem: 13871\n"
        )
    return "".join(lines)


def write(folder: Path, seconds: dict[str, float], **more: Any) -> list[Path]:
    paths = []
    for number, (name, step_s) in enumerate(seconds.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rank_log(number, step_s, **more), encoding="utf-8")
        paths.append(path)
    return paths


def compared(paths: list[Path], skip: int | None = None):  # type: ignore[no-untyped-def]
    return compare_ranks([read_log(str(path)) for path in paths], skip)


def test_ranks_are_listed_by_their_numbers_and_not_by_their_files_names(tmp_path: Path) -> None:
    found = compared(write(tmp_path, {f"rank{rank}.log": 0.4 for rank in (0, 10, 11, 2, 9)}))

    assert [one.rank for one in found.ranks] == [0, 2, 9, 10, 11]


def test_a_slow_rank_is_named_with_its_host_and_the_others_are_not(tmp_path: Path) -> None:
    seconds = {f"node0{rank // 2}/rank{rank}.log": 0.5 if rank == 3 else 0.4 for rank in range(4)}
    found = compared(write(tmp_path, seconds))

    assert [(one.rank, one.host) for one in found.ranks] == [
        (0, "node00"),
        (1, "node00"),
        (2, "node01"),
        (3, "node01"),
    ]
    assert [one.rank for one in found.ranks if one.is_slower] == [3]
    assert found.ranks[3].slower_by == pytest.approx(0.25, abs=0.03)
    low, high = found.ranks[3].interval
    assert low < 0.25 < high
    (sentence,) = found.findings
    assert sentence.startswith("rank 3 on node01 is 2")


def test_eight_neighbours_of_one_node_are_one_host(tmp_path: Path) -> None:
    seconds = {f"out.{rank:02d}.log": 0.44 if 8 <= rank < 16 else 0.4 for rank in range(24)}
    found = compared(write(tmp_path, seconds))

    (sentence,) = found.findings
    assert sentence.startswith("ranks 8 to 15 (one node of 8?): its 8 ranks are ")
    assert all(one.slower_by == pytest.approx(0.1, abs=0.02) for one in found.ranks if one.is_slower)


def test_ranks_of_one_pace_are_called_equal(tmp_path: Path) -> None:
    false_alarms = 0
    for number in range(20):
        folder = tmp_path / str(number)
        seconds = {f"rank{rank + 100 * number}.log": 0.4 for rank in range(4)}
        false_alarms += bool(compared(write(folder, seconds)).findings)

    assert false_alarms <= 2


def test_what_slows_all_ranks_down_is_no_ranks_fault(tmp_path: Path) -> None:
    paths = write(tmp_path, {f"rank{rank}.log": 0.4 for rank in range(4)})
    for path in paths:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        slow = [
            line.replace("time: 0.", "time: 1.") if 40 < at < 80 else line for at, line in enumerate(lines)
        ]
        path.write_text("".join(slow), encoding="utf-8")

    assert compared(paths).findings == ()


def test_the_wait_for_data_shows_which_of_equally_fast_ranks_is_slow(tmp_path: Path) -> None:
    paths = write(tmp_path, {f"node{rank // 4}.rank{rank}.log": 0.4 for rank in range(8)}, spread=0.01)
    for rank, path in enumerate(paths[4:], 4):
        path.write_text(rank_log(rank, 0.4, data_s=0.1, spread=0.01), encoding="utf-8")
    found = compared(paths)

    assert [one.rank for one in found.ranks if one.waits_for_data] == [4, 5, 6, 7]
    (sentence,) = found.findings
    assert sentence.startswith("node1: its 4 ranks wait 0.09")
    assert sentence.endswith(" s a step longer for data than the others")


def test_few_steps_name_nobody(tmp_path: Path) -> None:
    found = compared(write(tmp_path, {"rank0.log": 0.4, "rank1.log": 0.8}, steps=12))

    assert found.findings == ()
    # Each line is a mean of 20 steps, so that of lines ten steps apart every second one is used.
    assert "5 common steps show no interval" in found.notes[0]


def test_one_log_with_rank_tags_is_several_ranks(tmp_path: Path) -> None:
    logs = [rank_log(rank, 0.5 if rank == 1 else 0.4).splitlines() for rank in range(3)]
    lines = [f"[1,{rank}]<stdout>:{log[at]}\n" for at in range(len(logs[0])) for rank, log in enumerate(logs)]
    path = tmp_path / "train.log"
    path.write_text("".join(lines), encoding="utf-8")
    found = compared([path])

    assert [one.rank for one in found.ranks] == [0, 1, 2]
    assert [one.rank for one in found.ranks if one.is_slower] == [1]


def test_one_rank_or_two_logs_of_one_rank_are_refused(tmp_path: Path) -> None:
    one, other = write(tmp_path, {"a/rank0.log": 0.4, "b/rank0.log": 0.4})
    with pytest.raises(InputError, match="1 rank prints records"):
        compared([one])
    with pytest.raises(InputError, match="are both rank 0"):
        compared([one, other])


def test_records_of_tagged_ranks_are_assembled_only_on_request() -> None:
    nanogpt = find_format("nanogpt")
    assembled: list[int] = []

    def transform(blocks: Iterator[dict[str, Floats]]) -> Iterator[dict[str, Floats]]:
        assembled.append(1)
        assert nanogpt.transform is not None
        return nanogpt.transform(blocks)

    lines = synthetic_log("nanogpt", SampleRun([0.5] * 40)).splitlines()
    text = "".join(f"[rank{rank}]: {line}\n" for line in lines for rank in range(3))

    log = read_stream(io.BytesIO(text.encode()), GivenFormats((replace(nanogpt, transform=transform),)))

    assert log.records.count == 40
    assert len(assembled) == 1
    assert [(one.rank, one.records.count) for one in log.tagged_ranks()] == [(0, 40), (1, 40), (2, 40)]
    assert len(assembled) == 4
