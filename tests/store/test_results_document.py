"""``results.json``: written whole, read back equal, refused with a reason."""

import json
from pathlib import Path

import pytest

from fakes import Bench, behaving
from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import SCHEMA
from trainmark.store import read_results

OLD = Path(__file__).with_name("old") / "results-0.1.json"
TWICE = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}


def test_written_results_are_read_back_equal(bench: Bench, tmp_path: Path) -> None:
    bench.write({}, behaving("nan-loss"), behaving("crashes"), {"nodes": 2}, protocol=TWICE)
    results = bench.run()
    write_atomically(tmp_path / "again.json", results.to_json())
    assert read_results(tmp_path / "again.json") == results
    document = json.loads((tmp_path / "again.json").read_text(), parse_constant=pytest.fail)
    assert document["schema_name"] == SCHEMA


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "no such file; is it the --out directory of a trainmark run"),
        ("{", "not a trainmark.results/1 document"),
        ("{}", "not a trainmark.results/1 document: .*: Field required"),
        (
            '{"schema_name": "trainmark.results/2"}',
            "a trainmark.results/2 document of a newer trainmark; .* update",
        ),
        ('{"schema_name": "trainmark.results/0"}', "not a trainmark.results/1 document: schema_name"),
        ('{"schema_name": "others/2"}', "not a trainmark.results/1 document: schema_name"),
    ],
)
def test_an_invalid_results_document_is_reported_with_its_path(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=f"^{path}: {reason}"):
        read_results(path)


def test_a_missing_results_document_names_the_result_directories_below(tmp_path: Path) -> None:
    for name in ("first", "results/second", "too/deep/third"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "results.json").write_text("{}")

    with pytest.raises(InputError) as raised:
        read_results(tmp_path / "results.json")

    there, _, below = str(raised.value).partition(": no such file; results are in ")
    assert there == str(tmp_path / "results.json")
    assert set(below.split(", ")) == {str(tmp_path / "first"), str(tmp_path / "results/second")}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"median": float("nan")}, "median: Input should be a finite number"),
        ({"median": -5.0, "minimum": -6.0}, "median: Input should be greater than 0"),
        ({"median": 1e6}, "a median of 1000000.0 is not between"),
        (
            {"interval": {"low": 7000, "high": 6000, "method": "student-t-log"}},
            "an interval from 7000.0 to 6000.0 ends before it begins",
        ),
    ],
)
def test_impossible_numbers_are_refused(
    bench: Bench, tmp_path: Path, wrong: dict[str, object], reason: str
) -> None:
    bench.write({}, behaving("well"), protocol=TWICE)
    write_atomically(tmp_path / "results.json", bench.run().to_json())
    document = json.loads((tmp_path / "results.json").read_text())
    next(case["estimate"] for case in document["cases"] if case["estimate"]).update(wrong)
    (tmp_path / "results.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=f"not a trainmark.results/1 document: .*{reason}"):
        read_results(tmp_path / "results.json")


@pytest.mark.parametrize("changed", ["estimate", "run", "number"])
def test_an_estimate_that_contradicts_its_runs_is_refused(tmp_path: Path, changed: str) -> None:
    document = json.loads(OLD.read_text())
    path, (case, *_) = tmp_path / "results.json", document["cases"]
    path.write_text(json.dumps(document))
    assert read_results(path).cases[0].estimate is not None
    if changed == "estimate":
        case["estimate"] |= {
            "median": case["estimate"]["median"] * 2,
            "maximum": case["estimate"]["maximum"] * 2,
        }
    elif changed == "run":
        for run in case["runs"]:
            run["measurement"]["throughput"] *= 1.5
            run["measurement"]["window_s"] /= 1.5
            run["measurement"]["step_times"] = None
    else:
        case["runs"] = case["runs"][:1]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=rf"^{path}: the number of {case['id']} contradicts its runs: "):
        read_results(path)


def test_a_throughput_that_contradicts_its_window_is_refused_if_the_median_agrees(tmp_path: Path) -> None:
    document = json.loads(OLD.read_text())
    path, (case, *_) = tmp_path / "results.json", document["cases"]
    for run in case["runs"]:
        run["measurement"]["throughput"] *= 2
    for key in ("median", "mean", "minimum", "maximum"):
        case["estimate"][key] *= 2
    path.write_text(json.dumps(document))
    with pytest.raises(
        InputError, match=rf"^{path}: run 1 of {case['id']} contradicts its own window: \d+ .* in "
    ):
        read_results(path)


def test_a_window_that_is_shorter_than_its_steps_is_refused(tmp_path: Path) -> None:
    document = json.loads(OLD.read_text())
    path, (case, *_) = tmp_path / "results.json", document["cases"]
    for run in case["runs"]:
        run["measurement"]["throughput"] *= 2
        run["measurement"]["window_s"] /= 2
    for key in ("median", "mean", "minimum", "maximum"):
        case["estimate"][key] *= 2
    path.write_text(json.dumps(document))
    with pytest.raises(
        InputError, match=r"contradicts its own window: a window of .* s cannot contain \d+ steps"
    ):
        read_results(path)


def test_results_hold_when_every_run_did_the_requested_work(bench: Bench) -> None:
    bench.write({}, behaving("well"), protocol=TWICE)
    assert bench.run().holds


@pytest.mark.parametrize("behaviour", ["crashes", "needs-3", "measures-nothing", "nan-loss", "stops-early"])
def test_results_do_not_hold_with_a_bad_or_doubtful_run(bench: Bench, behaviour: str) -> None:
    bench.write({}, behaving(behaviour))
    assert not bench.run().holds


def test_one_bad_run_of_three_invalidates_the_results(bench: Bench) -> None:
    bench.write(protocol={**TWICE, "repeats": 3})
    results = bench.run()
    (case,) = results.cases
    bad = case.runs[0].model_copy(update={"outcome": Outcome.FAILED, "reason": "x", "measurement": None})
    spoilt = results.model_copy(update={"cases": (case.model_copy(update={"runs": (bad, *case.runs[1:])}),)})
    assert results.holds
    assert not spoilt.holds


def test_a_doubt_about_the_machine_does_not_invalidate_the_results(bench: Bench) -> None:
    from trainmark.schema.measurement import About, Suspicion

    bench.write()
    results = bench.run()
    (case,) = results.cases
    for about, holds in ((About.MACHINE, True), (About.WORK, False)):
        doubt = Suspicion(code="x", sentence="y", about=about)
        run = case.runs[0].model_copy(update={"suspicions": (doubt,)})
        doubted = results.model_copy(update={"cases": (case.model_copy(update={"runs": (run,)}),)})
        assert doubted.holds is holds


def test_results_with_a_case_not_run_yet_do_not_hold(bench: Bench) -> None:
    bench.write()
    results = bench.run()
    waiting = results.cases[0].model_copy(update={"outcome": Outcome.SKIPPED, "runs": ()})
    assert not results.model_copy(update={"cases": (waiting,)}).holds


@pytest.mark.parametrize("lacking", [(), ("certificates",)])
def test_results_of_every_earlier_version_can_be_read(tmp_path: Path, lacking: tuple[str, ...]) -> None:
    """The first version had no certificates, the second no findings."""
    document = json.loads(OLD.read_text())
    for field in lacking:
        del document[field]
    (tmp_path / "results.json").write_text(json.dumps(document))
    results = read_results(tmp_path / "results.json")
    assert [len(case.runs) for case in results.cases] == [3, 3]
    assert (results.findings, len(results.certificates)) == (None, 0 if lacking else 1)
