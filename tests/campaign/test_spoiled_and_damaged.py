"""Runs that their machine spoiled are repeated and kept apart; damaged files are named, set aside and made anew."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fakes import Bench, Silent, disturb
from trainmark.campaign import Progress, collect_results, stored_results
from trainmark.campaign.schedule import Attempt, Schedule, wants_another
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory, read_suite
from trainmark.schema.names import DATABASE
from trainmark.schema.outcome import NodeOutcome, Outcome
from trainmark.schema.results import CaseResult, RunResult
from trainmark.schema.suite import Protocol
from trainmark.suite import load_suite

ALL: dict[str, Any] = {"off": []}
THREE: dict[str, Any] = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 3}
UP_TO_SIX = Protocol.model_validate(
    {"name": "adaptive", "min_repeats": 3, "max_repeats": 6, "target_half_width": 0.02, "max_case_s": 100.0}
)


class Hearing(Silent):
    """An audience that remembers what it was told before the runs."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def readying(self, what: str) -> None:
        self.heard.append(what)


def ran(throughput: float, spoiled: bool = False, duration_s: float = 1.0) -> Attempt:
    return Attempt(Outcome.OK, throughput, duration_s, spoiled=spoiled)


def test_a_spoiled_run_is_repeated_until_there_are_as_many_sound_ones_as_wanted() -> None:
    sound, spoiled = ran(100.0), ran(9.9, spoiled=True)
    assert wants_another(UP_TO_SIX, [sound, sound, spoiled])
    assert not wants_another(UP_TO_SIX, [sound, sound, spoiled, sound]), "what was spoiled widens no interval"


def test_spoiled_runs_are_repeated_within_the_protocols_limits_only() -> None:
    spoiled = ran(9.9, spoiled=True)
    assert wants_another(UP_TO_SIX, [spoiled] * 5)
    assert not wants_another(UP_TO_SIX, [spoiled] * 6)
    assert not wants_another(UP_TO_SIX, [ran(9.9, spoiled=True, duration_s=40.0)] * 3)
    assert not wants_another(Protocol.model_validate("dlperf"), [spoiled] * 5)


def test_runs_to_come_are_counted_with_those_that_replace_spoiled_ones() -> None:
    done = [[ran(100.0), ran(9.9, spoiled=True)], [ran(9.9, spoiled=True)] * 5]
    schedule = Schedule(UP_TO_SIX, ["a", "b"], done)
    assert (schedule.progress.finished, schedule.progress.at_least) == (7, 7 + 2 + 1)


def spoil(bench: Bench, *spoiled: int) -> CaseResult:
    """Run a case three times, and have other processes take 60 % of the cores in some runs; return its result."""
    suite = bench.write({}, protocol=THREE, gates=ALL)
    bench.run()
    for folder in bench.out.glob("runs/*/[123]"):
        disturb([folder], 0.6 if int(folder.name) in spoiled else 0.0)
    (case,) = collect_results(suite, ResultDirectory(bench.out), "trainmark run").cases
    return case


def throughputs(case: CaseResult) -> list[float]:
    return [run.measurement.throughput for run in case.runs if run.measurement]


def test_a_spoiled_run_is_shown_and_not_pooled_with_sound_ones(bench: Bench) -> None:
    case = spoil(bench, 2)
    assert [run.spoiled for run in case.runs] == [False, True, False]
    assert [doubt.code for doubt in case.runs[1].suspicions] == ["cpu-shared"]
    first, _, third = throughputs(case)
    assert case.estimate is not None
    assert case.estimate.median == pytest.approx((first + third) / 2)


def test_a_case_with_spoiled_runs_only_has_an_estimate_all_the_same(bench: Bench) -> None:
    case = spoil(bench, 1, 2, 3)
    assert case.estimate is not None
    assert case.estimate.median == sorted(throughputs(case))[1]
    assert all(run.suspicions for run in case.runs)


def test_the_database_has_the_findings_of_the_present_gates_on_stored_runs(bench: Bench) -> None:
    spoil(bench, 2)
    for gates, spoiled in ((ALL, 1), ({"off": ["cpu-shared"]}, 0)):
        bench.write({}, protocol=THREE, gates=gates)
        reported = bench.run(resume=True)
        stored, _ = stored_results(str(bench.out / DATABASE), None)
        assert stored.cases[0].repeats is not None
        assert stored.cases[0].repeats.spoiled == spoiled
        assert (stored.cases, stored.gates_off) == (reported.cases, reported.gates_off)


def interrupted(bench: Bench) -> None:
    """Run two cases of which one is finished in two runs."""
    bench.write({}, {"batch_per_device": 8}, protocol={**THREE, "repeats": 2}, gates=ALL)
    bench.run()


@pytest.mark.parametrize("damage", [b"no database at all" * 100, "truncated"])
def test_a_damaged_database_is_set_aside_and_made_anew_from_the_runs(
    bench: Bench, damage: bytes | str
) -> None:
    interrupted(bench)
    database = bench.out / DATABASE
    whole = database.read_bytes()
    database.write_bytes(damage if isinstance(damage, bytes) else whole[: len(whole) // 2])
    listener = Hearing()
    results = bench.run(listener, resume=True, cases=())
    assert results.complete
    (reported,) = listener.heard
    assert reported == (
        f"{database.resolve()}: damaged; rebuilt from the runs (the old file is now {DATABASE}.damaged-1)"
    )
    assert (bench.out / f"{DATABASE}.damaged-1").exists()
    with closing(sqlite3.connect(database)) as connection:
        assert len(connection.execute("SELECT case_id, repeat FROM runs").fetchall()) == 4


@pytest.mark.parametrize("name", ["outcome.json", "manifest.json"])
def test_a_run_of_which_a_document_is_damaged_counts_as_interrupted_and_is_repeated(
    bench: Bench, name: str
) -> None:
    interrupted(bench)
    path = sorted(bench.out.glob(f"runs/*/2/{name}"))[0]
    path.write_text('{"case_id": "', encoding="utf-8")
    listener = Hearing()
    results = bench.run(listener, resume=True)
    assert listener.heard == [
        f"{path}: damaged; its run counts as interrupted and is repeated (kept as 2.interrupted-1)"
    ]
    assert [[run.repeat for run in case.runs] for case in results.cases] == [[1, 2], [1, 2]]
    assert results.holds
    assert (path.parent.with_name("2.interrupted-1") / "train.log").exists()


def test_a_damaged_suite_says_what_it_is_and_what_to_do(bench: Bench) -> None:
    bench.write({}, protocol=THREE, gates=ALL)
    bench.run()
    (bench.out / "suite.yaml").write_text("name: fakes\ncases: [")
    with pytest.raises(InputError, match=r"out/suite\.yaml:\d: .*restore it, or give another --out"):
        bench.run(resume=True)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        (
            {"rule": "mean-skip-ten", "log_format": "pytorch-imagenet"},
            r"rule: no rule 'mean-skip-ten'.*did you mean",
        ),
        (
            {"log_format": "pytorch-imagnet"},
            "log_format: no log format 'pytorch-imagnet'; did you mean 'pytorch-image",
        ),
        ({"rule": "median"}, "rule: has no effect"),
    ],
)
def test_a_card_whose_log_cannot_be_measured_is_refused_before_anything_runs(
    bench: Bench, card: dict[str, Any], message: str
) -> None:
    bench.write(card=card)
    with pytest.raises(InputError, match=r"card\.yaml:\d+: " + message):
        bench.run()
    assert not bench.out.exists()


def test_a_nodes_telemetry_is_cut_by_its_own_window(tmp_path: Path, bench: Bench) -> None:
    from trainmark.campaign.resume import summaries_of
    from trainmark.logs.events import read_events

    (case,) = bench.write({"nodes": 2, "devices_per_node": 2}).cases

    def event(**data: object) -> str:
        return f"DLLL {json.dumps({'step': [], 'data': data})}\n"

    # The clock of the second node is an hour ahead.
    windows = {"rank_windows_at": [100.0, 100.0, 3700.0, 3700.0], "rank_windows_s": [10.0] * 4}
    (tmp_path / "events.jsonl").write_text(event(window_at=100.0, window_s=10.0, **windows))
    header = {"schema_version": 1, "pid": 1, "interval_s": 1.0, "cpus": 2, "gpus": []}
    for name, offset in (("telemetry.jsonl", 0.0), ("telemetry.node1.jsonl", 3600.0)):
        samples = [
            {
                "monotonic_s": float(second),
                "wall_s": 95.0 + second + offset,
                "interval_s": 1.0,
                "processes": 1,
                "cpu": {"busy": 0.5, "tree": 0.5, "own": 0.0, "other": 0.0},
                "memory": {"tree_rss_bytes": 1, "tree_pss_bytes": None, "available_bytes": None},
                "gpus": [],
            }
            for second in range(20)
        ]
        lines = [json.dumps(line) for line in (header, *samples)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    found = summaries_of(case, tmp_path, read_events(tmp_path / "events.jsonl"))
    assert [(summary.node, summary.samples) for summary in found] == [(0, 11), (1, 11)]

    # A program that says rank 0's window alone: how the clocks stand to each other was asked before the run.
    (tmp_path / "events.jsonl").write_text(event(window_at=100.0, window_s=10.0))
    nodes = (
        NodeOutcome(node=0, host="a", clock_offset_s=-5.0, clock_error_s=0.1),
        NodeOutcome(node=1, host="b", clock_offset_s=3595.0, clock_error_s=0.1),
    )
    found = summaries_of(case, tmp_path, read_events(tmp_path / "events.jsonl"), nodes)
    assert [(summary.node, summary.samples) for summary in found] == [(0, 11), (1, 11)]
    assert [(summary.host, summary.clock_ahead_s) for summary in found] == [("a", 0.0), ("b", 3600.0)]


class EndsTheLoad(Silent):
    """An audience that ends the load on the machine when the first run has ended."""

    def __init__(self, load: list["subprocess.Popen[bytes]"]) -> None:
        self._load = load

    def run_ended(self, result: RunResult, standing: Progress) -> None:
        for process in self._load:
            process.kill()


@pytest.mark.process
def test_a_run_next_to_a_real_load_is_spoiled_repeated_and_left_out(bench: Bench) -> None:
    protocol = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "min_repeats": 1, "max_repeats": 3}
    bench.write(
        {"options": {"behaviour": "window-of-3"}}, protocol={**protocol, "target_half_width": None}, gates=ALL
    )
    cores = len(os.sched_getaffinity(0))
    # Each in a session of its own: with autogroups, Linux shares the CPUs among sessions and not among processes.
    words = [sys.executable, "-c", "while True: pass"]
    load = [subprocess.Popen(words, start_new_session=True) for _ in range(cores)]
    try:
        (case,) = bench.run(EndsTheLoad(load)).cases
    finally:
        for process in load:
            process.kill()
            process.wait()
    first, second, *_ = case.runs
    assert first.spoiled
    (doubt,) = (doubt for doubt in first.suspicions if doubt.code == "cpu-shared")
    assert doubt.value is not None
    assert doubt.value > 0.1
    # What else this machine does may spoil the others too: what is pooled follows from what was seen of them.
    good = [run.measurement.throughput for run in case.runs if run.measurement and not run.spoiled]
    assert case.estimate is not None
    assert case.estimate.n == (len(good) or len(case.runs))
    assert good or case.estimate.interval is None
    assert second.started_at


def test_spoiled_runs_alone_give_no_interval_and_no_ratio(bench: Bench) -> None:
    suite = bench.write({}, {"devices_per_node": 2}, protocol=THREE, gates=ALL)
    bench.run()
    one = suite.cases[0]
    disturb(list(bench.out.glob("runs/*/[123]")), 0.0)
    disturb([bench.out / "runs" / one.id / str(repeat) for repeat in (1, 2, 3)])
    results = collect_results(suite, ResultDirectory(bench.out), "trainmark run")
    alone, two = results.cases
    assert alone.estimate is not None
    assert alone.estimate.interval is None
    assert two.estimate is not None
    assert two.estimate.interval is not None
    assert (alone.speedup, two.speedup) == (None, None)
    assert results.findings is not None
    assert results.findings.ratios == ()
    assert results.findings.doubtful == (one.id,)


def test_a_gate_is_turned_off_by_the_word_as_people_write_it(tmp_path: Path) -> None:
    """YAML 1.1 takes an unquoted ``off`` for false."""
    path = tmp_path / "suite.yaml"
    path.write_text("name: s\ngates: {off: [cpu-shared]}\naxes: {framework: [pytorch]}\n")
    assert load_suite(path).gates.off == ("cpu-shared",)


def test_a_gate_that_is_turned_off_raises_no_doubt_and_the_results_say_so(bench: Bench) -> None:
    bench.write({}, protocol=THREE, gates=ALL)
    bench.run()
    disturb(list(bench.out.glob("runs/*/[13]")), 0.0)
    disturb(list(bench.out.glob("runs/*/2")))
    suite = bench.write({}, protocol=THREE, gates={"off": ["cpu-shared"]})
    results = bench.run(resume=True)
    assert (results.complete, results.gates_off) == (True, ("cpu-shared",))
    assert not any(run.suspicions for run in results.cases[0].runs)
    assert results.cases[0].estimate is not None
    assert results.cases[0].estimate.n == 3
    assert read_suite(bench.out) == suite


def test_an_unknown_gate_is_refused_with_the_nearest_one(bench: Bench) -> None:
    with pytest.raises(
        InputError,
        match=r"suite\.yaml:\d+: gates\.off\[0\]: 'cpu-share' is not known; did you mean 'cpu-shared'",
    ):
        bench.write({}, gates={"off": ["cpu-share"]})
