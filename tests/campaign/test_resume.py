"""Going on where an earlier call ended: nothing is repeated, nothing is lost, and what was missing is tried again."""

import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import Bench, Listener, Silent, behaving
from trainmark.campaign import Progress, collect_results, run_campaign
from trainmark.execution import ResultDirectory, read_suite
from trainmark.schema.case import Case
from trainmark.schema.names import DATABASE
from trainmark.schema.outcome import Outcome
from trainmark.store import read_results
from trainmark.suite import select

REPEATS = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 3}


def stored(bench: Bench) -> list[tuple[str, int, str]]:
    with sqlite3.connect(bench.out / DATABASE) as connection:
        rows = connection.execute(
            "SELECT case_id, repeat, outcome FROM runs ORDER BY case_id, repeat"
        ).fetchall()
    connection.close()
    return rows


def inodes(bench: Bench) -> dict[str, int]:
    return {str(path): path.stat().st_ino for path in bench.out.glob("runs/*/*/outcome.json")}


def test_runs_go_round_the_cases_pass_by_pass(bench: Bench) -> None:
    bench.write({}, {"batch_per_device": 8}, protocol=REPEATS)
    listener = Listener()
    bench.run(listener)
    ids = [case.id for case in bench.order().cases]
    passes = [listener.started[at : at + 2] for at in (0, 2, 4)]
    assert [sorted(one) for one in passes] == [sorted((case, n) for case in ids) for n in (1, 2, 3)]
    assert [standing.finished for standing in listener.standings] == list(range(6))
    assert {standing.at_least for standing in listener.standings} == {6}


def test_a_resume_of_a_complete_suite_runs_nothing(bench: Bench) -> None:
    bench.write(protocol=REPEATS)
    bench.run()
    before, rows = inodes(bench), stored(bench)
    listener = Listener()
    results = bench.run(listener, resume=True)
    assert (listener.started, results.complete, results.holds) == ([], True, True)
    assert (inodes(bench), stored(bench)) == (before, rows)


def test_a_resume_makes_up_for_the_missing_run_alone(bench: Bench) -> None:
    bench.write({}, {"batch_per_device": 8}, protocol=REPEATS)
    bench.run()
    case = bench.order().cases[1]
    (bench.out / "runs" / case.id / "3" / "outcome.json").unlink()
    saved = inodes(bench)
    listener = Listener()
    bench.run(listener, resume=True)
    assert listener.started == [(case.id, 3)]
    assert inodes(bench).items() >= saved.items()
    assert (bench.out / "runs" / case.id / "3.interrupted-1" / "train.log").exists()
    assert len(stored(bench)) == 6


def test_a_run_that_reached_the_disk_and_not_the_database_is_caught_up(bench: Bench) -> None:
    bench.write(protocol=REPEATS)
    bench.run()
    rows = stored(bench)
    with sqlite3.connect(bench.out / DATABASE) as connection:
        connection.execute("DELETE FROM runs WHERE repeat = 2")
    connection.close()
    listener = Listener()
    bench.run(listener, resume=True)
    assert (listener.started, stored(bench)) == ([], rows)


def test_a_lost_database_is_made_again_from_the_runs(bench: Bench) -> None:
    bench.write(protocol=REPEATS)
    bench.run()
    rows = stored(bench)
    (bench.out / DATABASE).unlink()
    bench.run(resume=True)
    assert stored(bench) == rows


def test_a_case_whose_environment_was_missing_runs_once_it_is_there(bench: Bench) -> None:
    python = bench.folder / "python"
    bench.write(environment=str(python), protocol=REPEATS)
    first = bench.run()
    assert (first.cases[0].outcome, len(first.cases[0].runs)) == (Outcome.UNSUPPORTED, 1)
    assert f"{python}: is missing; the Python of a program must be at the same path on all its hosts" in (
        first.cases[0].reason or ""
    )
    assert not first.holds
    python.symlink_to(os.path.realpath(shutil.which("python3") or "/usr/bin/python3"))
    listener = Listener()
    results = bench.run(listener, resume=True)
    assert [repeat for _, repeat in listener.started] == [1, 2, 3]
    assert (results.cases[0].outcome, results.holds) == (Outcome.OK, True)
    assert [outcome for _, _, outcome in stored(bench)] == ["ok"] * 3


def test_a_killed_catch_up_of_a_once_unsupported_case_is_repeated(bench: Bench) -> None:
    """The database still calls run 1 unsupported: trainmark was killed after run 1 was done on disk."""
    bench.write()
    bench.run()
    with sqlite3.connect(bench.out / DATABASE) as connection:
        connection.execute("UPDATE runs SET outcome = 'unsupported', started_at = NULL")
    connection.close()
    bench.run(resume=True)
    assert [outcome for _, _, outcome in stored(bench)] == ["ok"]


def test_a_moved_directory_is_gone_on_with_and_stays_one_campaign(bench: Bench) -> None:
    bench.write(protocol=REPEATS)
    bench.run()
    place = bench.folder / "a?moved#directory"
    bench.out.rename(place)
    order = bench.order(resume=True)
    assert run_campaign(replace(order, out=place), Silent()).results.complete
    with sqlite3.connect(place / DATABASE) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("campaigns", "runs")
        ]
    connection.close()
    assert counts == [1, 3]


def test_cases_that_were_not_chosen_wait_for_a_later_call(bench: Bench) -> None:
    suite = bench.write({}, {"batch_per_device": 8}, {"batch_per_device": 16})
    first = bench.run(cases=select(suite.cases, "batch_per_device=8"))
    assert [case.outcome.value for case in first.cases] == ["skipped", "ok", "skipped"]
    second = bench.run(resume=True, cases=select(suite.cases, "batch_per_device=16"))
    assert [case.outcome.value for case in second.cases] == ["skipped", "ok", "ok"]
    assert not second.complete
    listener = Listener()
    third = bench.run(listener, resume=True)
    assert [case.outcome.value for case in third.cases] == ["ok", "ok", "ok"]
    assert third.complete
    assert len(listener.started) == 1


def test_the_results_can_be_collected_from_the_directory_alone(bench: Bench) -> None:
    bench.write({}, behaving("crashes"), {"devices_per_node": 2}, protocol=REPEATS)
    results = bench.run()
    again = collect_results(read_suite(bench.out), ResultDirectory(bench.out), results.command)
    assert again.model_copy(update={"generated_at": results.generated_at}) == results
    assert read_results(bench.out / "results.json") == results


def test_a_speedup_compares_with_the_same_case_on_one_device(bench: Bench) -> None:
    bench.write({}, {"devices_per_node": 2}, {"devices_per_node": 2, "precision": "bf16"}, protocol=REPEATS)
    one, two, alone = bench.run().cases
    assert two.speedup is not None
    assert two.speedup.baseline == one.id
    assert alone.speedup is None


def test_an_invalid_run_is_written_so_and_not_repeated(bench: Bench) -> None:
    bench.write(behaving("writes-no-events"), protocol=REPEATS)
    bench.run()
    (path,) = bench.out.glob("runs/*/*/outcome.json")
    assert '"outcome": "invalid"' in path.read_text()
    listener = Listener()
    bench.run(listener, resume=True)
    assert listener.started == []


def test_relative_out_directories_work(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write()
    monkeypatch.chdir(tmp_path)
    assert run_campaign(replace(bench.order(), out=Path("out")), Silent()).results.holds


def test_failed_runs_are_repeated_on_request_and_their_files_stay(bench: Bench) -> None:
    bench.write(behaving("crashes"), {}, protocol={**REPEATS, "repeats": 1})
    before = bench.run()
    failed, fine = before.cases
    assert (failed.outcome, fine.outcome) == (Outcome.FAILED, Outcome.OK)
    saved = inodes(bench)
    listener = Listener()
    bench.run(listener, resume=True)
    assert listener.started == [], "resume alone repeats no finished run"
    bench.run(listener, resume=True, retry_failed=True)
    assert listener.started == [(failed.id, 1)]
    assert (bench.out / "runs" / failed.id / "1.interrupted-1" / "train.log").exists()
    fine_runs = {path: node for path, node in saved.items() if f"/{fine.id}/" in path}
    assert inodes(bench).items() >= fine_runs.items()
    assert len(stored(bench)) == 2


def test_a_repeated_run_has_no_row_in_the_database_until_it_ends(bench: Bench) -> None:
    bench.write(behaving("crashes"), {}, protocol={**REPEATS, "repeats": 1})
    bench.run()
    assert sorted(outcome for *_, outcome in stored(bench)) == ["failed", "ok"]
    rows: list[list[tuple[str, int, str]]] = []

    class Reader(Listener):
        def run_begins(self, case: Case, repeat: int, standing: Progress) -> None:
            rows.append(stored(bench))

    bench.run(Reader(), resume=True, retry_failed=True)
    assert [[outcome for *_, outcome in found] for found in rows] == [["ok"]]
    assert sorted(outcome for *_, outcome in stored(bench)) == ["failed", "ok"]


def test_the_command_says_how_failed_runs_are_repeated(bench: Bench) -> None:
    bench.write(behaving("crashes"), protocol={**REPEATS, "repeats": 1})
    done = bench.call()
    (line,) = [line for line in done.stderr.splitlines() if "--retry-failed" in line]
    assert done.returncode == 1
    assert line.startswith("run 1 of ")
    assert "gave no number (failed, " in line
    assert f"repeat it with: trainmark run {bench.suite} --out {bench.out} --retry-failed" in line
    again = bench.call("--retry-failed")
    assert "is repeated: failed, " in again.stderr
    assert (bench.out / "runs" / bench.order().cases[0].id / "1.interrupted-1").is_dir()
