"""``batch_per_device: max``: the search, and cases that are measured at what it finds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Bench, Listener, behaving
from trainmark.campaign import plan_campaign
from trainmark.campaign.batch_search import LARGEST, largest_fitting, next_batch
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Plan

TWICE = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}


def searched(limit: int) -> dict[int, bool]:
    tried: dict[int, bool] = {}
    while (batch := next_batch(tried)) is not None:
        assert batch not in tried
        tried[batch] = batch <= limit
    return tried


@given(st.integers(0, LARGEST))
def test_the_search_finds_the_limit_to_a_multiple_of_eight(limit: int) -> None:
    tried = searched(limit)
    found = largest_fitting(tried)
    assert found == (limit if limit < 8 else limit // 8 * 8)
    assert len(tried) <= 28


def test_the_search_doubles_and_then_halves_the_gap() -> None:
    assert list(searched(100)) == [8, 16, 32, 64, 128, 96, 112, 104]
    assert list(searched(5)) == [8, 4, 6, 5]
    assert list(searched(0)) == [8, 4, 2, 1]


def test_a_program_that_takes_any_batch_ends_the_search() -> None:
    assert largest_fitting(searched(10**9)) == LARGEST


def test_a_case_is_measured_at_the_largest_batch_that_fits(bench: Bench) -> None:
    bench.write(behaving("needs-20", batch_per_device="max"), protocol=TWICE)
    listener = Listener()
    results = bench.run(listener)
    (case,) = results.cases
    assert (case.outcome, case.case.batch_per_device) == (Outcome.OK, "max")
    assert [run.parameters.batch_per_device for run in case.runs] == [16, 16]
    assert all(run.suspicions == () for run in case.runs)
    assert listener.probed == [8, 16, 32, 24]
    assert len(listener.started) == 2
    assert results.holds


def test_the_short_runs_are_stored_and_not_repeated(bench: Bench) -> None:
    bench.write(behaving("needs-20", batch_per_device="max"), protocol=TWICE)
    bench.run()
    probes = {path.parent.name: path for path in bench.out.glob("runs/*/probe-*/outcome.json")}
    outcomes = {name: json.loads(path.read_text())["outcome"] for name, path in probes.items()}
    assert outcomes == {"probe-b8": "ok", "probe-b16": "ok", "probe-b32": "oom", "probe-b24": "oom"}
    assert b"--steps=4" in next(iter(probes.values())).read_bytes()
    next(bench.out.glob("runs/*/2/outcome.json")).unlink()
    probes["probe-b24"].unlink()
    listener = Listener()
    assert bench.run(listener, resume=True).complete
    assert listener.probed == [24], "only what was interrupted is done again"
    assert [repeat for _, repeat in listener.started] == [2]


@pytest.mark.parametrize(
    ("behaviour", "outcome", "reason"),
    [
        ("needs-0", Outcome.OOM, "no batch fits: 1 images do not fit"),
        ("crashes", Outcome.FAILED, "a batch of 8 was tried: the program ended with exit code 1: ValueError"),
    ],
)
def test_a_search_without_an_answer_ends_the_case_alone(
    bench: Bench, behaviour: str, outcome: Outcome, reason: str
) -> None:
    bench.write(behaving(behaviour, batch_per_device="max"), {}, protocol=TWICE)
    bad, good = bench.run().cases
    assert (bad.outcome, good.outcome) == (outcome, Outcome.OK)
    assert (bad.reason or "").startswith(reason)
    assert len(bad.runs) == 1


def test_the_plan_of_such_a_case_is_the_first_short_run(bench: Bench) -> None:
    suite = bench.write({"batch_per_device": "max"})
    (plan,) = plan_campaign(suite, suite.cases, bench.out, bench.folder / "home")
    assert isinstance(plan, Plan)
    assert {"--batch-per-device=8", "--steps=4"} <= set(plan.commands[0].words)
    assert plan.events == bench.out / "runs" / suite.cases[0].id / "probe-b8" / "events.jsonl"


def test_the_published_log_keeps_the_name_that_was_requested(bench: Bench) -> None:
    bench.write(behaving("needs-8", batch_per_device="max"), naming="ngc")
    assert bench.run().cases[0].runs[0].log == "logs/fake_gpu1_fp32_bsmax.txt"
