"""A run at whose machine a gate could not look: it is shown as that, and never preferred to one that was inspected."""

import json
import re
from pathlib import Path
from statistics import stdev

import pytest

from fakes import Bench, disturb, forget_telemetry, set_rate
from trainmark.campaign import collect_results
from trainmark.execution import ResultDirectory, read_suite
from trainmark.schema.measurement import Answer
from trainmark.schema.results import CaseResult, RunResult, pooled, sound
from trainmark.store import read_results

ALL: dict[str, object] = {"off": []}
FIVE: dict[str, object] = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 5}


def five_runs(bench: Bench) -> CaseResult:
    """Return the case of issue 29: three disturbed runs, and two faster ones with too short a window to be sampled."""
    suite = bench.write({}, protocol=FIVE, gates=ALL)
    bench.run()
    for folder, rate in zip(
        sorted(bench.out.glob("runs/*/[1-5]")), (709.0, 1271.0, 710.0, 1097.0, 753.0), strict=True
    ):
        set_rate(folder, rate)
        if rate < 1000:
            disturb([folder], 0.4)
        else:
            forget_telemetry([folder])
    (case,) = collect_results(suite, ResultDirectory(bench.out), "trainmark run").cases
    return case


def rates(runs: list[RunResult]) -> list[float]:
    return sorted(run.measurement.throughput for run in runs if run.measurement)


def test_runs_that_were_not_inspected_are_not_preferred_to_disturbed_ones(bench: Bench) -> None:
    case = five_runs(bench)
    assert sound(case.runs) == []
    assert rates(pooled(case.runs)) == pytest.approx([709, 710, 753, 1097, 1271])
    assert case.estimate is not None
    assert case.estimate.median == pytest.approx(753), (
        "1184 is the median of the two runs that nobody inspected"
    )
    assert case.estimate.interval is None


def test_a_run_that_was_not_inspected_says_so_and_why(bench: Bench) -> None:
    case = five_runs(bench)
    codes = [[doubt.code for doubt in run.suspicions] for run in case.runs]
    assert codes == [["cpu-shared"], ["not-looked"], ["cpu-shared"], ["not-looked"], ["cpu-shared"]]
    (check,) = (check for check in case.runs[1].gates or () if check.gate == "cpu-shared")
    assert check.answer is Answer.UNCHECKED
    assert check.samples is None
    (doubt,) = case.runs[1].suspicions
    assert doubt.sentence.startswith("not checked: cpu-shared: ")
    assert check.reason is not None
    assert check.reason in doubt.sentence


def test_a_clean_answer_says_how_many_samples_over_which_time(bench: Bench) -> None:
    suite = bench.write({}, protocol={**FIVE, "repeats": 1}, gates=ALL)
    bench.run()
    (folder,) = bench.out.glob("runs/*/1")
    set_rate(folder, 100.0)
    disturb([folder], 0.0)
    (case,) = collect_results(suite, ResultDirectory(bench.out), "trainmark run").cases
    (run,) = case.runs
    (check,) = (check for check in run.gates or () if check.gate == "cpu-shared")
    assert run.measurement is not None
    assert (check.answer, check.samples) == (Answer.CLEAN, 21)
    assert check.seconds == pytest.approx(run.measurement.window_s, abs=1e-3)
    assert run.suspicions == ()


def test_a_sound_run_is_preferred_to_the_others(bench: Bench) -> None:
    case = five_runs(bench)
    inspected = case.runs[4].model_copy(update={"suspicions": ()})
    runs = [*case.runs[:4], inspected]
    assert sound(runs) == [inspected]


def test_without_a_disturbed_run_all_runs_count_whether_inspected_or_not(bench: Bench) -> None:
    case = five_runs(bench)
    runs = [case.runs[1], case.runs[3]]
    assert sound(runs) == runs


def test_a_result_of_an_older_version_without_a_sample_was_not_inspected(bench: Bench) -> None:
    case = five_runs(bench)
    old = [run.model_copy(update={"gates": None}) for run in case.runs]
    old = [run.model_copy(update={"telemetry": ()}) if run.repeat in (2, 4) else run for run in old]
    read = [RunResult.model_validate_json(run.model_dump_json(exclude={"gates"})) for run in old]
    assert [run.gates for run in read] == [None] * 5
    assert sound(read) == []


def test_a_file_whose_number_is_of_runs_that_were_not_inspected_is_still_read(
    bench: Bench, tmp_path: Path
) -> None:
    """Read results of an older version, which gave 1184 as the median of the two runs that nobody inspected."""
    five_runs(bench)
    path = tmp_path / "results.json"
    document = json.loads(
        collect_results(read_suite(bench.out), ResultDirectory(bench.out), None).model_dump_json()
    )
    (case,) = document["cases"]
    for run in case["runs"]:
        del run["gates"]
    case["estimate"] |= {"n": 2, "median": 1184.0, "mean": 1184.0, "minimum": 1097.0, "maximum": 1271.0}
    case["estimate"] |= {"std": stdev((1097.0, 1271.0)), "interval": None}
    path.write_text(json.dumps(document))
    (read,) = read_results(path).cases
    assert read.estimate is not None
    assert read.estimate.median == 1184


def test_a_run_prints_how_often_its_machine_was_inspected(bench: Bench) -> None:
    """Measure for a second, for real, with every gate on: the line of the run and the table say what was looked at."""
    bench.write(
        {"options": {"behaviour": "window-of-1"}},
        protocol={**FIVE, "repeats": 1},
        gates={"off": ["two-levels"]},
    )
    called = bench.call()
    line = next(line for line in called.stderr.splitlines() if "images/s" in line)
    found = re.search(r"images/s; [0-9.e-]+ CPU s per sample; watched: (\d+) samples over 1 s", line)
    assert found is not None, called.stderr
    assert int(found[1]) >= 3
    assert re.search(r"\(\d+ samples over 1 s in the run with the fewest\)", called.stdout)


def test_a_run_with_a_window_of_some_milliseconds_prints_why_it_was_not_inspected(bench: Bench) -> None:
    bench.write({}, protocol={**FIVE, "repeats": 1}, gates=ALL)
    called = bench.call()
    # The program of the tests claims a window that begins before its process does.
    reasons = r"its window of 0\.\d+ s is shorter than two|the samples cover only|no sample was taken"
    assert re.search(rf"suspect: not checked: cpu-shared: ({reasons})", called.stderr), called.stderr
