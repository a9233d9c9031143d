"""Ranks that nobody but the run itself starts: each finds its place, and all of them end together."""

import json
from pathlib import Path
from typing import Any

import pytest

from fakes import CARD, Bench, alive
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import RunResult

RANKS = {
    "launcher": "ranks",
    "command": ["{source}/ranks_training.py", *CARD["command"][1:]],
    "axes": {**CARD["axes"], "devices_per_node": {"flags": ["--devices={value}"]}},
}


def run(bench: Bench, devices: int = 2, **settings: Any) -> RunResult:
    options = {"options": settings.pop("options")} if "options" in settings else {}
    bench.write({"devices_per_node": devices, **options}, card=RANKS, **settings)
    (ran,) = bench.run().cases[0].runs
    return ran


def log(bench: Bench) -> str:
    return next(bench.out.glob("runs/*/1/train.log")).read_text()


def left(bench: Bench) -> list[str]:
    pids = next(bench.out.glob("runs/*/1/pids")).read_text().split()
    assert pids
    return [pid for pid in pids if alive(int(pid))]


def test_each_rank_is_a_process_that_knows_its_place(bench: Bench) -> None:
    ran = run(bench)
    assert ran.outcome is Outcome.OK, ran.reason
    assert len(ran.commands) == 2
    places = sorted(line.split()[1:] for line in log(bench).splitlines() if line.startswith("place"))
    assert [place[:5] for place in places] == [
        ["0", "2", "0", "2", "127.0.0.1"],
        ["1", "2", "1", "2", "127.0.0.1"],
    ]
    assert places[0][5] == places[1][5]
    assert int(places[0][5]) > 1024


def test_ranks_find_their_commands_when_the_directory_is_named_relatively(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)
    assert run(Bench(Path())).outcome is Outcome.OK


def test_one_rank_alone_is_given_no_place(bench: Bench) -> None:
    assert run(bench, devices=1).outcome is Outcome.OK
    assert "place - - - - - -" in log(bench)


def test_two_runs_do_not_meet_at_one_port(bench: Bench) -> None:
    bench.write(
        {"devices_per_node": 2},
        card=RANKS,
        protocol={"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 3},
    )
    ports = {
        words.split("MASTER_PORT=")[1].split()[0] for r in bench.run().cases[0].runs for words in r.commands
    }
    assert len(ports) == 3


@pytest.mark.process
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("rank-1-dies", "rank 1 was killed by signal 9 (SIGKILL)"),
        ("well", "rank 1 ended with exit code 1: rank 1 has something to say"),
    ],
)
def test_a_rank_that_fails_is_named_and_the_others_are_ended(
    bench: Bench, behaviour: str, reason: str
) -> None:
    ran = run(bench, options={"behaviour": behaviour})
    assert ran.outcome is Outcome.FAILED
    assert ran.reason == reason
    assert not left(bench)


@pytest.mark.process
def test_ranks_that_hang_are_all_ended_at_the_time_out(bench: Bench) -> None:
    ran = run(bench, options={"behaviour": "hangs"}, limits={"timeout_s": 6})
    assert ran.outcome is Outcome.TIMEOUT
    assert len(log(bench).splitlines()) >= 2
    assert not left(bench)
    # They did not die of the signal that asked them where they are.
    stored = json.loads((bench.out / ran.directory / "outcome.json").read_text())
    requested = "trainmark ended it to get its stack"
    assert [(rank["rank"], rank["reason"]) for rank in stored["ranks"]] == [(0, requested), (1, requested)]
    assert [node["reason"] for node in stored["nodes"]] == ["trainmark ended it"]
