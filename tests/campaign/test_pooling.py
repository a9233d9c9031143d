"""Runs of one case that were measured in different environments are refused, and what differs is named."""

import json
import re
import shutil
from typing import Any

import pytest

from fakes import Bench, Silent
from trainmark.campaign import Progress, collect_results, stored_results
from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory, read_suite
from trainmark.report import render_markdown
from trainmark.report.exchange import rows_from_results
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import About, NoInterval
from trainmark.schema.names import EVENTS, OUTCOME
from trainmark.schema.results import Results, RunResult

TWO_RUNS: dict[str, Any] = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}


class StopsAfterOneRun(Silent):
    def run_ended(self, result: RunResult, standing: Progress) -> None:
        raise KeyboardInterrupt


def test_a_resume_in_another_environment_is_refused_by_what_differs(bench: Bench) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run(StopsAfterOneRun())
    (path,) = bench.out.glob("runs/*/1/manifest.json")
    manifest = json.loads(path.read_text())
    manifest["nodes"][0]["cpu"]["model"] = "another processor"
    path.write_text(json.dumps(manifest))
    with pytest.raises(
        InputError, match=r"nodes\[0\]\.cpu\.model was another processor and is .* cannot be pooled"
    ):
        bench.run(resume=True)


def test_a_run_that_was_copied_under_another_number_is_no_other_run(bench: Bench) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run()
    (folder,) = bench.out.glob("runs/*/1")
    shutil.copytree(folder, folder.with_name("3"))
    with pytest.raises(InputError, match=rf"^{folder.with_name('3')}: its outcome.json is of repeat 1;"):
        collected(bench)


def test_a_copied_run_whose_number_was_edited_is_no_other_run(bench: Bench) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run()
    (folder,) = bench.out.glob("runs/*/1")
    copy = folder.with_name("3")
    shutil.copytree(folder, copy)
    record = json.loads((copy / OUTCOME).read_text())
    (copy / OUTCOME).write_text(json.dumps(record | {"repeat": 3}))
    with pytest.raises(InputError, match=rf"^{copy}: is a copy of run 1 \(.*/1\): both started at "):
        collected(bench)


def test_a_run_that_was_copied_to_another_case_is_none_of_it(bench: Bench) -> None:
    one, other = bench.write({}, {"options": {"behaviour": "tells-peaks"}}).cases
    bench.run()
    there = bench.out / "runs" / other.id / "1"
    shutil.rmtree(there)
    shutil.copytree(bench.out / "runs" / one.id / "1", there)
    with pytest.raises(InputError, match=rf"^{there}: its outcome.json is of a run of {one.id}; "):
        collected(bench)


def test_runs_that_count_other_things_are_not_pooled(bench: Bench) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run()
    (path,) = bench.out.glob(f"runs/*/1/{EVENTS}")
    path.write_text(path.read_text().replace("images", "tokens"))
    with pytest.raises(
        InputError,
        match=r"^runs of .* have different units \((tokens/s and images/s|images/s and tokens/s)\)",
    ):
        collected(bench)


def moved(bench: Bench, repeat: int, **facts: Any) -> None:
    """Let a run's manifest say that it was measured on a machine with these facts of its processors and GPUs."""
    for path in bench.out.glob(f"runs/*/{repeat}/manifest.json"):
        manifest = json.loads(path.read_text())
        for part, changed in facts.items():
            manifest["nodes"][0][part] |= changed
        path.write_text(json.dumps(manifest))


def collected(bench: Bench) -> Results:
    return collect_results(read_suite(bench.out), ResultDirectory(bench.out), "trainmark run")


def test_runs_of_different_machines_are_one_number_in_doubt_that_names_what_differs(bench: Bench) -> None:
    bench.write({}, {"devices_per_node": 2}, protocol={**TWO_RUNS, "repeats": 3})
    bench.run()
    assert not [case.suspicions for case in collected(bench).cases if case.suspicions]
    moved(bench, 2, cpu={"model": "another processor"}, accelerators={"driver": "999.99"})
    for case in collected(bench).cases:
        (doubt,) = case.suspicions
        assert (doubt.code, doubt.about) == ("machines-differ", About.MACHINE)
        assert re.match(
            r"run 2 was measured on another machine than run 1, and the number includes both: "
            r"nodes\[0\]\.accelerators\.driver is 999\.99 instead of .*; "
            r"nodes\[0\]\.cpu\.model is another processor instead of ",
            doubt.sentence,
        )
        assert case.estimate is not None
        assert (case.estimate.n, case.estimate.interval) == (3, None)
        assert case.estimate.no_interval is NoInterval.MACHINES_DIFFER
        assert case.speedup is None
    assert {row.one_machine for row in rows_from_results(collected(bench))} == {False}
    findings = collected(bench).findings
    assert findings is not None
    assert findings.doubtful == tuple(case.id for case in collected(bench).cases)


def test_a_database_doubts_runs_of_different_machines_too(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run()
    moved(bench, 2, cpu={"model": "another processor"})
    into = tmp_path_factory.mktemp("into") / "all.sqlite"
    assert main(["store", "add", str(bench.out), "--to", str(into)]) == 0
    (case,) = stored_results(str(into), None)[0].cases
    assert [doubt.code for doubt in case.suspicions] == ["machines-differ"]


def test_a_run_without_a_manifest_is_pooled_with_others_in_doubt(bench: Bench) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run()
    (path,) = bench.out.glob("runs/*/2/manifest.json")
    path.unlink()
    (doubt,) = collected(bench).cases[0].suspicions
    assert doubt.code == "machine-unknown"
    assert doubt.sentence == (
        "run 2 has no readable manifest: it is unknown whether it was measured on the machine of run 1"
    )
    (other,) = bench.out.glob("runs/*/1/manifest.json")
    other.unlink()
    assert collected(bench).cases[0].suspicions == ()


def test_a_case_on_other_hardware_than_its_baseline_has_no_speedup(bench: Bench) -> None:
    bench.write({}, {"devices_per_node": 2}, protocol={**TWO_RUNS, "repeats": 1})
    assert [case.speedup is None for case in bench.run().cases] == [False, False]
    for path in bench.out.glob("runs/*-1n2g-*/1/manifest.json"):
        manifest = json.loads(path.read_text())
        manifest["nodes"][0]["cpu"]["model"] = "another processor"
        path.write_text(json.dumps(manifest))
    again = collected(bench)
    assert [case.speedup is None for case in again.cases] == [False, True]


def test_cases_that_were_run_with_other_variables_have_environments_of_their_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KMP_BLOCKTIME", raising=False)
    suite = bench.write({}, {"batch_per_device": 8}, protocol={**TWO_RUNS, "repeats": 1})
    bench.run(cases=suite.cases[:1])
    monkeypatch.setenv("KMP_BLOCKTIME", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    results = bench.run(resume=True)
    stored = [results.manifests[case.runs[0].manifest or ""] for case in results.cases]
    reported = [one.nodes[0].variables.get("KMP_BLOCKTIME") for one in stored if isinstance(one, Manifest)]
    assert reported == [None, "0"]
    assert "2 different environments" in render_markdown(results, bench.out)


def test_a_resume_in_the_same_environment_goes_on(bench: Bench) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run(StopsAfterOneRun())
    assert len(bench.run(resume=True).cases[0].runs) == 2
