"""``compiler: best`` and ``layout: best``: short runs find the fastest, and the case is measured with it."""

import json
import shutil
from collections.abc import Sequence
from typing import Any

import pytest

from fakes import CARD, Bench, Listener, behaving, disturb
from trainmark.campaign import CannotStart, collect_results, plan_campaign
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory
from trainmark.report import render_markdown
from trainmark.schema.measurement import About
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Plan
from trainmark.schema.results import Doubt, Results
from trainmark.schema.suite import Suite
from trainmark.suite import load_suite

OPEN: dict[str, Any] = {"compiler": "best", "layout": "best"}
TWICE = {"name": "adaptive", "steps": 60, "warmup_steps": 12, "repeats": 2}
VARIANTS: dict[str, Any] = {
    "axes": {
        **CARD["axes"],
        "compiler": {
            "values": {
                "none": [],
                "quick": ["--faster=1.5"],
                "broken": ["--faster=9", "--behaviour=crashes"],
            }
        },
        "layout": {"values": {"nchw": [], "nhwc": ["--faster=1.2"]}},
    },
    "gaps": [{"when": {"compiler": "broken", "layout": "nchw"}, "reason": "it has none"}],
}


def throughputs(results: Results) -> dict[tuple[str, ...], float | None]:
    return {tuple(trial.axes.values()): trial.throughput for trial in results.cases[0].trials}


def test_the_fastest_that_runs_is_measured_and_everything_tried_is_reported(bench: Bench) -> None:
    bench.write(OPEN, card=VARIANTS, protocol=TWICE)
    listener = Listener()
    results = bench.run(listener)
    (case,) = results.cases
    assert (case.outcome, case.case.compiler, case.case.value("layout")) == (Outcome.OK, "best", "best")
    assert (case.settled.compiler, case.settled.value("layout")) == ("quick", "nhwc")
    # The gap of the card is not tried; what fails is, and is not taken however fast it might be.
    assert len(listener.tried) == 5
    tried = throughputs(results)
    assert tried["broken", "nhwc"] is None
    assert tried["quick", "nhwc"] == pytest.approx(1.8 * (tried["none", "nchw"] or 0), rel=0.02)
    assert all("--faster=1.5" in run.commands[0] and "--faster=1.2" in run.commands[0] for run in case.runs)
    assert results.holds

    page = render_markdown(results, bench.out)
    assert "quick, nhwc" in page, page
    assert "ValueError: the labels of step 7 are wrong" in page


def test_a_choice_by_short_runs_that_others_disturbed_is_in_doubt(bench: Bench) -> None:
    suite = bench.write(OPEN, card=VARIANTS, protocol=TWICE, gates={"off": []})
    bench.run()
    disturb([events.parent for events in bench.out.glob("runs/*/*/events.jsonl")], 0.0)
    assert [doubt.code for doubt in doubts_of(suite, bench)] == []
    disturb(list(bench.out.glob("runs/*/trial-quick-nhwc")))
    (doubt,) = doubts_of(suite, bench)
    assert (doubt.code, doubt.repeat, doubt.about) == ("choice-disturbed", 0, About.MACHINE)
    assert "1 of the 5 short runs that chose the best value (quick, nhwc)" in doubt.sentence


def test_short_runs_of_another_machine_are_repeated_where_the_case_has_no_run_yet(bench: Bench) -> None:
    bench.write(OPEN, card=VARIANTS, protocol=TWICE)
    bench.run()
    for path in bench.out.glob("runs/*/trial-none-*/manifest.json"):
        manifest = json.loads(path.read_text())
        manifest["nodes"][0]["cpu"]["model"] = "another processor"
        path.write_text(json.dumps(manifest))
    listener = Listener()
    bench.run(listener, resume=True)
    assert listener.tried == [], "the case has its runs"
    for folder in bench.out.glob("runs/*/[12]"):
        shutil.rmtree(folder)
    results = bench.run(listener, resume=True)
    assert [tuple(axes.values()) for axes in listener.tried] == [("none", "nchw"), ("none", "nhwc")]
    assert len(results.cases[0].trials) == 5
    assert len(list(bench.out.glob("runs/*/trial-none-*.interrupted-1"))) == 2


def doubts_of(suite: Suite, bench: Bench) -> Sequence[Doubt]:
    results = collect_results(suite, ResultDirectory(bench.out), "trainmark run")
    assert results.findings is not None
    return results.findings.doubts


def test_short_runs_stay_short_and_are_not_repeated(bench: Bench) -> None:
    bench.write(OPEN, card=VARIANTS, protocol=TWICE)
    first = bench.run()
    files = sorted(bench.out.glob("runs/*/trial-*/trial.json"))
    assert len(files) == 5
    outcome = json.loads((files[-1].parent / "outcome.json").read_text())
    assert "--steps=40 --warmup-steps=10" in outcome["commands"][0]
    next(bench.out.glob("runs/*/2/outcome.json")).unlink()
    listener = Listener()
    again = bench.run(listener, resume=True)
    assert (listener.tried, [repeat for _, repeat in listener.started]) == ([], [2])
    assert throughputs(again) == throughputs(first)
    suite = load_suite(bench.suite)
    assert collect_results(suite, ResultDirectory(bench.out), "trainmark run").cases[0].trials


def test_where_nothing_could_be_measured_the_case_says_what_was_tried(bench: Bench) -> None:
    bench.write(behaving("crashes", **OPEN), {}, card=VARIANTS, protocol=TWICE)
    bad, good = bench.run().cases
    assert (bad.outcome, good.outcome) == (Outcome.FAILED, Outcome.OK)
    assert (bad.reason or "").startswith(
        "no candidate could be measured: none, nchw: failed: the program ended"
    )
    assert len(bad.runs) == 1


def test_where_every_choice_is_a_gap_its_reasons_are_reported_and_nothing_runs(bench: Bench) -> None:
    gaps = [{"when": {"layout": layout}, "reason": "it has none"} for layout in ("nchw", "nhwc")]
    suite = bench.write(OPEN, card=VARIANTS | {"gaps": gaps}, protocol=TWICE)
    (plan,) = plan_campaign(suite, suite.cases, bench.out, bench.folder / "home")
    assert plan == CannotStart(Outcome.UNSUPPORTED, "it has none")
    (case,) = bench.run().cases
    assert (case.outcome, case.reason, case.trials) == (Outcome.UNSUPPORTED, "it has none", ())


def test_an_axis_that_the_program_lacks_has_one_candidate(bench: Bench) -> None:
    bench.write({"compiler": "best"}, protocol=TWICE)
    results = bench.run()
    assert [tuple(trial.axes.values()) for trial in results.cases[0].trials] == [("none",)]


def test_the_plan_of_such_a_case_is_its_first_short_run(bench: Bench) -> None:
    suite = bench.write(OPEN, card=VARIANTS, protocol=TWICE)
    (plan,) = plan_campaign(suite, suite.cases, bench.out, bench.folder / "home")
    assert isinstance(plan, Plan)
    (command,) = plan.commands
    assert "/trial-none-nchw/" in " ".join(command.words)


def test_the_largest_batch_and_the_best_layout_are_not_searched_at_once(bench: Bench) -> None:
    with pytest.raises(InputError, match=r"layout 'best' cannot be combined with batch_per_device 'max'"):
        bench.write({"layout": "best", "batch_per_device": "max"}, card=VARIANTS)


def test_the_fastest_loader_is_measured_and_made_up_data_have_none_to_choose(bench: Bench) -> None:
    loaders = {"native": [], "engine": ["--faster=1.5"], "absent": []}
    card = {
        "axes": {**CARD["axes"], "loader": {"values": loaders}},
        "gaps": [{"when": {"loader": "absent"}, "reason": "it is not installed"}],
    }
    photos = {"photos": {"make": {"images": 12, "classes": 2, "width": 48, "height": 32}}}
    requested = {"loader": "best"}
    bench.write({**requested, "data": "photos"}, requested, card=card, protocol=TWICE, datasets=photos)
    real, synthetic = bench.run().cases
    assert (real.case.loader, real.settled.loader) == ("best", "engine")
    assert sorted(trial.axes["loader"] for trial in real.trials) == ["engine", "native"]
    assert "photos-best" in real.id
    assert (synthetic.case.loader, synthetic.trials) == ("native", ())
    assert all("--faster=1.5" in run.commands[0] for run in real.runs)
