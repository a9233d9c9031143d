"""Findings: what is doubted, and what a ratio is, judged from the results and stored in them."""

from dataclasses import replace
from pathlib import Path

import pytest

from trainmark.files import write_atomically
from trainmark.insight import find, judged
from trainmark.insight.from_results import run_from_case
from trainmark.measure import estimate, speedup
from trainmark.node.machine import collect
from trainmark.report.language import Language, catalogue
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import About, Measurement, NoInterval, Parameters, Steadiness, Suspicion
from trainmark.schema.outcome import Outcome
from trainmark.schema.ranks import AllReduce, RankTime, RankTimes
from trainmark.schema.results import CaseResult, RatioKind, RequirementVerdict, Results, RunResult
from trainmark.schema.suite import Requirement
from trainmark.store import read_results

OLD = Path(__file__).parents[1] / "store" / "old" / "results-0.1.json"
OTHER = Suspicion(code="batch-differs", sentence="batch 256 was asked for, not 128", about=About.WORK)
BUSY = Suspicion(code="cpu-shared", sentence="other processes took 48 % of the cores", about=About.MACHINE)


@pytest.fixture
def old() -> Results:
    """Return results that an earlier trainmark stored: two frameworks, three runs each, no findings."""
    return read_results(OLD)


def doubtful(case: CaseResult) -> CaseResult:
    """Return the case with a doubt of its last run."""
    last = case.runs[-1].model_copy(update={"suspicions": (OTHER,)})
    return case.model_copy(update={"runs": (*case.runs[:-1], last)})


def on_devices(results: Results, doubted: int | None = None) -> Results:
    """Return one case on 1 and on 4 devices, 3.6 times as fast; the side of ``doubted`` devices is in doubt."""
    (one, *_) = results.cases
    runs = tuple(of_more_devices(faster(run, 3.6), 4) for run in one.runs)
    many = one.case.model_copy(update={"devices_per_node": 4})
    estimates = {one.id: estimate(rates(one.runs)), many.id: estimate(rates(runs))}
    cases = tuple(
        CaseResult(
            id=case.id,
            case=case,
            outcome=Outcome.OK,
            reason=None,
            estimate=estimates[case.id],
            speedup=speedup(case.id, case.world_size, estimates, one.id),
            runs=tuple(
                run.model_copy(
                    update={"directory": f"runs/{case.id}/{run.repeat}", "parameters": Parameters()}
                )
                for run in held
            ),
        )
        for case, held in ((one.case, one.runs), (many, runs))
    )
    cases = tuple(doubtful(case) if case.case.world_size == doubted else case for case in cases)
    return results.model_copy(update={"cases": cases})


def of_more_devices(run: RunResult, devices: int) -> RunResult:
    """Return the run with the samples of so many devices, in as much more time."""
    assert run.measurement is not None
    samples, window_s = run.measurement.samples or 0, run.measurement.window_s or 0.0
    changes = {"samples": samples * devices, "window_s": window_s * devices}
    return run.model_copy(update={"measurement": run.measurement.model_copy(update=changes)})


def faster(run: RunResult, times: float) -> RunResult:
    assert run.measurement is not None
    measured = run.measurement.model_copy(
        update={
            "throughput": run.measurement.throughput * times,
            "window_s": (run.measurement.window_s or 0) / times,
            "step_times": None,
        }
    )
    return run.model_copy(update={"measurement": measured})


def rates(runs: tuple[RunResult, ...]) -> list[float]:
    return [run.measurement.throughput for run in runs if run.measurement]


def pulled(results: Results, factors: tuple[float, ...], *doubts: Suspicion) -> Results:
    """Return one case with a run for each factor of its first run's throughput, and doubts of the runs together."""
    (case, *_) = results.cases
    runs = tuple(
        faster(case.runs[0], factor).model_copy(update={"repeat": number})
        for number, factor in enumerate(factors, start=1)
    )
    held = case.model_copy(update={"runs": runs, "estimate": estimate(rates(runs)), "suspicions": doubts})
    return results.model_copy(update={"cases": (held,)})


def test_a_drift_has_one_doubt_and_an_outlier_run_another(old: Results) -> None:
    steady = (1.0, 1.01, 0.99, 1.0, 1.01, 3.0)
    falling = (1.58, 1.3, 1.1, 0.9, 0.7, 0.42)
    drift = Suspicion(
        code="drift-over-runs", sentence="the runs became slower", about=About.MACHINE, value=1.2, bound=0.01
    )
    assert [doubt.code for doubt in find(pulled(old, steady)).doubts] == ["run-apart"]
    assert [doubt.code for doubt in find(pulled(old, falling, drift)).doubts] == ["drift-over-runs"]
    slight = drift.model_copy(update={"value": 0.02})
    assert {doubt.code for doubt in find(pulled(old, steady, slight)).doubts} == {
        "drift-over-runs",
        "run-apart",
    }


@pytest.mark.parametrize("factors", [(1.0, 1.9), (1.0, 1.9, 1.02, 1.88), (1.0, 1.9, 1.0, 1.9, 1.0, 1.9)])
def test_equally_many_fast_and_slow_runs_are_outliers_of_each_other(
    old: Results, factors: tuple[float, ...]
) -> None:
    doubts = find(pulled(old, factors)).doubts
    assert [(doubt.repeat, doubt.code) for doubt in doubts] == [
        (repeat, "run-apart") for repeat in range(1, len(factors) + 1)
    ]
    assert find(pulled(old, (1.0, 1.2, 1.4, 1.7))).doubts == ()


def test_an_outlier_of_a_large_rate_is_printed_without_an_exponent(old: Results) -> None:
    (doubt,) = find(pulled(old, (1000.0, 1010.0, 990.0, 1000.0, 1010.0, 3000.0))).doubts
    assert "e+" not in doubt.sentence


def test_an_explained_case_has_each_doubt_once_with_the_number_of_its_runs(old: Results) -> None:
    case = old.cases[0]
    busy = (
        BUSY.model_copy(update={"sentence": f"other processes took {share} % of the cores"})
        for share in (48, 50)
    )
    doubted = (
        run.model_copy(update={"suspicions": (one,)}) for run, one in zip(case.runs, busy, strict=False)
    )
    explained = run_from_case(old, case.model_copy(update={"runs": tuple(doubted)}), "here")
    assert explained.doubts == ("other processes took 50 % of the cores (cpu-shared)",)


@pytest.mark.parametrize("side", [1, 4])
def test_a_doubt_on_either_side_is_a_doubt_on_the_ratio(old: Results, side: int) -> None:
    results = on_devices(old, doubted=side)
    found = find(results)
    (case,) = (case.id for case in results.cases if case.case.world_size == side)
    assert [(doubt.case, doubt.repeat, doubt.code) for doubt in found.doubts] == [(case, 3, "batch-differs")]
    assert {ratio.kind: ratio.doubtful for ratio in found.ratios} == {
        RatioKind.SPEEDUP: (case,),
        RatioKind.EFFICIENCY: (case,),
    }


def test_a_ratio_of_two_sound_cases_is_not_in_doubt(old: Results) -> None:
    found = find(on_devices(old))
    assert [(ratio.kind, ratio.doubtful) for ratio in found.ratios] == [
        (RatioKind.SPEEDUP, ()),
        (RatioKind.EFFICIENCY, ()),
    ]
    assert found.ratios[0].ratio.value == pytest.approx(3.6)


def test_the_share_of_real_data_is_found_with_its_interval(old: Results) -> None:
    (synthetic, *_) = old.cases
    case = synthetic.case.model_copy(update={"data": "imagenet", "loader": "dali-gpu"})
    slower = tuple(faster(run, 0.9) for run in synthetic.runs)
    real = synthetic.model_copy(
        update={
            "id": case.id,
            "case": case,
            "runs": slower,
            "estimate": estimate(rates(slower)),
            "speedup": None,
        }
    )
    (ratio,) = find(old.model_copy(update={"cases": (synthetic, real)})).ratios
    assert (ratio.kind, ratio.case, ratio.against) == (RatioKind.REAL_TO_SYNTHETIC, real.id, synthetic.id)
    assert ratio.ratio.value == pytest.approx(0.9)
    assert ratio.ratio.interval is not None


def test_different_hardware_has_no_ratio(old: Results) -> None:
    (synthetic, *_) = old.cases
    case = synthetic.case.model_copy(update={"data": "imagenet"})
    other = tuple(run.model_copy(update={"manifest": "sha256:other"}) for run in synthetic.runs)
    real = synthetic.model_copy(update={"id": case.id, "case": case, "runs": other, "speedup": None})
    manifests = {
        "sha256:other": on_cpu("one"),
        **{run.manifest or "": on_cpu("one") for run in synthetic.runs},
    }
    results = old.model_copy(update={"cases": (synthetic, real), "manifests": manifests})
    assert [found.kind for found in find(results).ratios] == [RatioKind.REAL_TO_SYNTHETIC]
    different = manifests | {"sha256:other": on_cpu("another")}
    assert find(results.model_copy(update={"manifests": different})).ratios == ()


def on_cpu(model: str) -> Manifest:
    there = collect(None, environ={})
    (node,) = there.nodes
    cpu = replace(node.cpu, model=model)
    return there.model_copy(update={"nodes": (node.model_copy(update={"cpu": cpu}),)})


def test_a_window_that_was_not_steady_is_a_doubt(old: Results) -> None:
    (case, *_) = old.cases
    measured = case.runs[0].measurement
    assert isinstance(measured, Measurement)
    late = measured.model_copy(update={"steadiness": Steadiness(steady=False, settled_after=35, bias=0.043)})
    run = case.runs[0].model_copy(update={"measurement": late})
    (doubt,) = find(
        old.model_copy(update={"cases": (case.model_copy(update={"runs": (run, *case.runs[1:])}),)})
    ).doubts
    assert (doubt.repeat, doubt.code, doubt.about) == (1, "not-steady", About.WINDOW)
    assert "35 steps after the measured window began" in doubt.sentence


def test_a_run_without_a_number_is_an_outcome_and_not_a_doubt(old: Results) -> None:
    (case, *_) = old.cases
    failed = doubtful(case).runs[-1].model_copy(update={"outcome": Outcome.FAILED, "measurement": None})
    changed = case.model_copy(update={"runs": (*case.runs[:-1], failed)})
    assert find(old.model_copy(update={"cases": (changed,)})).doubts == ()


def test_results_of_an_earlier_trainmark_get_findings_when_read(old: Results) -> None:
    assert old.findings is None
    found = judged(old)
    assert found.findings is not None
    (equality,) = found.findings.equality
    assert {work.framework for work in equality.works} == {"pytorch", "jax"}


def test_frameworks_with_different_residual_types_are_different_variants(old: Results) -> None:
    def with_residual(case: CaseResult, kind: str) -> CaseResult:
        runs = tuple(
            run.model_copy(
                update={"parameters": run.parameters.model_copy(update={"actual": {"residual_dtype": kind}})}
            )
            for run in case.runs
        )
        return case.model_copy(update={"runs": runs})

    one, other = old.cases
    cases = (with_residual(one, "float32"), with_residual(other, "bfloat16"))
    (equality,) = find(old.model_copy(update={"cases": cases})).equality
    variants = {work.framework: work.way for work in equality.works}
    assert "residual bfloat16" in variants[other.case.framework]
    assert not any(word.startswith("residual") for word in variants[one.case.framework])


def test_stored_findings_are_not_computed_again(old: Results, tmp_path: Path) -> None:
    stored = judged(on_devices(old, doubted=4))
    write_atomically(tmp_path / "results.json", stored.to_json())
    again = read_results(tmp_path / "results.json")
    assert again == stored
    assert judged(again) is again


def test_empty_results_have_no_findings(old: Results) -> None:
    empty = old.model_copy(update={"cases": ()})
    found = find(empty)
    assert (found.doubts, found.ratios, found.equality) == ((), (), ())


def test_a_disturbed_run_is_shown_and_not_counted(old: Results) -> None:
    results = on_devices(old)
    one, many = results.cases
    spoiled = faster(one.runs[-1], 0.3).model_copy(update={"suspicions": (BUSY,)})
    data = one.case.model_copy(update={"data": "imagenet"})
    real = one.model_copy(update={"id": data.id, "case": data, "speedup": None})
    changed = one.model_copy(update={"runs": (*one.runs, spoiled.model_copy(update={"repeat": 4}))})
    found = find(results.model_copy(update={"cases": (changed, many, real)}))
    assert [(doubt.case, doubt.repeat) for doubt in found.doubts] == [(one.id, 4)]
    assert found.doubtful == ()
    ratio = found.ratio(RatioKind.REAL_TO_SYNTHETIC, real.id)
    assert ratio is not None
    assert ratio.ratio.value == pytest.approx(1)
    assert ratio.doubtful == ()


def test_a_case_with_spoiled_runs_only_is_in_doubt(old: Results) -> None:
    (case, *_) = old.cases
    runs = tuple(run.model_copy(update={"suspicions": (BUSY,)}) for run in case.runs)
    found = find(old.model_copy(update={"cases": (case.model_copy(update={"runs": runs}),)}))
    assert found.doubtful == (case.id,)


def ranks_of(slowest: int, slower_by: float) -> RankTimes:
    ranks = tuple(
        RankTime(rank=rank, node=rank, host=f"n{rank}", began_s=0.001 * rank, error_s=0.0002, window_s=1.0)
        for rank in range(2)
    )
    exchange = AllReduce(bytes=1 << 20, seconds=0.002, share=0.2)
    return RankTimes(
        ranks=ranks, slowest=slowest, slower_by=slower_by, waits=slower_by / 2, all_reduce=exchange
    )


def test_the_slowest_rank_of_most_runs_is_named_with_its_host(old: Results) -> None:
    case, *_ = old.cases
    shown = [ranks_of(1, 0.3), ranks_of(0, 0.01), ranks_of(1, 0.4)]
    runs = tuple(run.model_copy(update={"ranks": ranks}) for run, ranks in zip(case.runs, shown, strict=True))
    cases = (case.model_copy(update={"runs": runs}), *old.cases[1:])
    (found,) = find(old.model_copy(update={"cases": cases})).ranks

    assert (found.case, found.runs, found.told) == (case.id, 3, 3)
    assert (found.slowest, found.host, found.times) == (1, "n1", 2)
    assert found.slower_by == pytest.approx(0.35)
    assert (found.all_reduce_s, found.all_reduce_share) == (0.002, 0.2)
    # nccl-tests' bus bandwidth: 2 (n - 1) / n of the bytes over the seconds.
    assert found.all_reduce_bus_bytes_per_s == pytest.approx((1 << 20) / 0.002)
    assert (found.began_within_s, found.clock_error_s) == (0.001, 0.0002)


def judge(results: Results, *required: Requirement) -> list[tuple[str, str, str]]:
    """Return the quantity, verdict and sentence on each requirement."""
    found = find(results.model_copy(update={"require": required})).requirements
    return [(one.quantity, one.verdict.value, one.sentence) for one in found]


def test_what_the_interval_shows_is_met_or_missed_and_the_rest_is_undecided(old: Results) -> None:
    results = on_devices(old)
    (_one, many) = results.cases
    assert many.estimate is not None
    assert many.estimate.interval is not None
    low, high, unit = many.estimate.interval.low, many.estimate.interval.high, many.unit
    for least, verdict in ((low * 0.99, "met"), ((low + high) / 2, "undecided"), (high * 1.01, "missed")):
        required = Requirement(only="devices_per_node=4", throughput=f"{least:.6f} {unit}")
        ((quantity, found, sentence),) = judge(results, required)
        assert (quantity, found) == ("throughput", verdict)
        assert f"{unit} is required" in sentence
        per_device = Requirement(only="devices_per_node=4", per_device=f"{least / 4:.6f} {unit}")
        assert judge(results, per_device)[0][:2] == ("per_device", verdict)


def test_an_efficiency_is_of_the_smallest_scale_and_nothing_is_required_of_that(old: Results) -> None:
    (found,) = find(
        on_devices(old).model_copy(update={"require": (Requirement(efficiency=0.5),)})
    ).requirements
    assert found.against == on_devices(old).cases[0].id
    assert (found.verdict, round(found.value or 0, 2)) == (RequirementVerdict.MET, 0.9)
    ((_, verdict, _),) = judge(on_devices(old), Requirement(efficiency=0.99))
    assert verdict == "missed"


@pytest.mark.parametrize("reason", list(NoInterval))
@pytest.mark.parametrize("language", list(Language))
def test_a_missing_interval_has_its_reason_in_every_language(
    old: Results, reason: NoInterval, language: Language
) -> None:
    results = on_devices(old)
    cases = tuple(
        case.model_copy(
            update={"estimate": case.estimate.model_copy(update={"interval": None, "no_interval": reason})}
        )
        for case in results.cases
        if case.estimate is not None
    )
    lacking = results.model_copy(update={"cases": cases})
    required = Requirement(throughput=f"1 {results.cases[0].unit}"), Requirement(efficiency=0.5)
    sentences = [sentence for _, _, sentence in judge(lacking, *required)]
    assert f"there is no interval, as the case {reason.in_words}" in sentences[0]
    assert f"there is no interval, as one of the cases {reason.in_words}" in sentences[-1]
    translated = [catalogue(language).translated(sentence) for sentence in sentences]
    assert (translated == sentences) is (language is Language.EN)
    assert not any("interval" in sentence for sentence in translated) or language is Language.EN


def test_an_efficiency_without_another_scale_is_not_met(old: Results) -> None:
    single = old.model_copy(update={"cases": old.cases[:1]})
    ((_, verdict, sentence),) = judge(single, Requirement(efficiency=0.5))
    assert verdict == "undecided"
    assert "no other scale" in sentence


def counting_steps(results: Results) -> Results:
    """Return the results as of a program whose log states no work of a step."""
    cases = []
    for case in results.cases:
        runs = tuple(
            run.model_copy(update={"measurement": run.measurement.model_copy(update={"unit": "steps/s"})})
            for run in case.runs
            if run.measurement is not None
        )
        cases.append(case.model_copy(update={"runs": runs}))
    return results.model_copy(update={"cases": tuple(cases)})


def test_counted_steps_of_several_scales_have_no_efficiency_and_no_rate_of_a_device(old: Results) -> None:
    steps = counting_steps(on_devices(old))
    ((_, verdict, sentence),) = judge(steps, Requirement(efficiency=0.01))
    assert verdict == "undecided"
    assert "counts steps" in sentence
    assert "--work-per-step" in sentence
    ((_, verdict, sentence), *_) = judge(steps, Requirement(per_device="1 steps/s"))
    assert (verdict, "counts steps" in sentence) == ("undecided", True)
    assert find(on_devices(old)).per_device
    assert find(steps).per_device == ()


@pytest.mark.parametrize("doubted", [1, 4])
def test_a_doubtful_number_meets_nothing_even_as_the_other_side_of_an_efficiency(
    old: Results, doubted: int
) -> None:
    ((_, verdict, sentence),) = judge(on_devices(old, doubted), Requirement(efficiency=0.5))
    assert verdict == "undecided"
    assert "in doubt" in sentence


def test_a_number_in_another_unit_meets_nothing(old: Results) -> None:
    ((_, verdict, sentence),) = judge(
        old.model_copy(update={"cases": old.cases[:1]}), Requirement(throughput="1 steps/s")
    )
    assert verdict == "undecided"
    assert "measured in" in sentence


def test_a_case_without_a_number_meets_nothing_and_the_results_do_not_hold(old: Results) -> None:
    case = old.cases[0].model_copy(
        update={"estimate": None, "runs": (), "outcome": Outcome.OOM, "reason": "out of memory"}
    )
    lost = old.model_copy(update={"cases": (case,)})
    ((_, verdict, sentence),) = judge(lost, Requirement(throughput="1 images/s"))
    assert (verdict, Outcome.OOM.label in sentence) == ("undecided", True)


def test_results_hold_only_if_what_is_required_is_met(old: Results) -> None:
    results = old.model_copy(update={"certificates": ()})
    for least, holds in (("0.001", True), ("1e9", False)):
        required = (Requirement(throughput=f"{least} {results.cases[0].unit}"),)
        with_some = results.model_copy(update={"require": required, "findings": None})
        assert judged(with_some).holds is holds
