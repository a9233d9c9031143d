"""Runs of one case that were measured in different environments are refused, and what differs is named."""

import json
import shutil
from typing import Any

import pytest

from fakes import Bench, Silent
from trainmark.campaign import Progress, collect_results
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory, read_suite
from trainmark.report import render_markdown
from trainmark.words.manifest import Manifest
from trainmark.words.names import EVENTS
from trainmark.words.results import RunResult

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
    with pytest.raises(
        InputError, match=rf"^{folder.with_name('3')}: its outcome.json says that this was repeat 1;"
    ):
        collect_results(read_suite(bench.out), ResultDirectory(bench.out), "trainmark run")


def test_runs_that_count_other_things_are_not_pooled(bench: Bench) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run()
    (path,) = bench.out.glob(f"runs/*/1/{EVENTS}")
    path.write_text(path.read_text().replace("images", "tokens"))
    with pytest.raises(
        InputError, match=r"^runs of .* count (tokens/s and images/s|images/s and tokens/s): they are"
    ):
        collect_results(read_suite(bench.out), ResultDirectory(bench.out), "trainmark run")


def test_a_case_on_other_hardware_than_its_baseline_has_no_speedup(bench: Bench) -> None:
    bench.write({}, {"devices_per_node": 2}, protocol={**TWO_RUNS, "repeats": 1})
    assert [case.speedup is None for case in bench.run().cases] == [False, False]
    for path in bench.out.glob("runs/*-1n2g-*/1/manifest.json"):
        manifest = json.loads(path.read_text())
        manifest["nodes"][0]["cpu"]["model"] = "another processor"
        path.write_text(json.dumps(manifest))
    again = collect_results(read_suite(bench.out), ResultDirectory(bench.out), "trainmark run")
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
    kept = [results.manifests[case.runs[0].manifest or ""] for case in results.cases]
    said = [one.nodes[0].variables.get("KMP_BLOCKTIME") for one in kept if isinstance(one, Manifest)]
    assert said == [None, "0"]
    assert "2 different environments" in render_markdown(results, bench.out)


def test_a_resume_in_the_same_environment_goes_on(bench: Bench) -> None:
    bench.write({}, protocol=TWO_RUNS)
    bench.run(StopsAfterOneRun())
    assert len(bench.run(resume=True).cases[0].runs) == 2
