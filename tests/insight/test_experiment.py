"""Experiments of ``explain --test``: cases that differ in one factor each, and effects that multiply to the gap."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from trainmark.errors import InputError
from trainmark.insight.experiment import Experiment, closing_sentence, decompose, plan_experiment
from trainmark.measure import estimate, ratio
from trainmark.report import Language, render_markdown
from trainmark.report.charts import waterfall_bars
from trainmark.report.decomposition import render_decomposition
from trainmark.schema.case import Case
from trainmark.schema.decomposition import Decomposition
from trainmark.schema.measurement import About, Ratio, Suspicion
from trainmark.schema.names import DECOMPOSITION
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult, Results
from trainmark.store import read_results

OLD = Path(__file__).parents[1] / "store" / "old" / "results-0.1.json"


def case(**axes: object) -> Case:
    point = {"model": "resnet50_v1.5", "batch_per_device": 8, "layout": "nchw", **axes}
    return Case.model_validate(point)


A = case()
B = case(layout="nhwc", batch_per_device=32, compiler="torch.compile")


def results_of(rates: Mapping[str, tuple[float, ...]]) -> Results:
    """Return results with these rates of the runs, by case id."""
    stored = read_results(OLD)
    first = stored.cases[0]
    run = first.runs[0]
    assert run.measurement is not None
    cases = []
    for name, of_runs in rates.items():
        runs = tuple(
            run.model_copy(
                update={
                    "repeat": number,
                    "measurement": run.measurement.model_copy(update={"throughput": rate}),
                    "suspicions": (),
                }
            )
            for number, rate in enumerate(of_runs, start=1)
        )
        found = {"id": name, "runs": runs, "estimate": estimate(of_runs), "speedup": None}
        if not of_runs:
            found |= {"outcome": Outcome.UNSUPPORTED, "reason": "the card says no"}
        cases.append(first.model_copy(update=found))
    return stored.model_copy(update={"cases": tuple(cases), "findings": None, "complete": True})


def rates_of(experiment: Experiment, **effects: float) -> dict[str, tuple[float, ...]]:
    """Return the rates of all cases for effects that multiply, with a machine that slows down from pass to pass."""
    found = {}
    for one in experiment.cases:
        rate = 100.0
        for factor in experiment.factors:
            if one in _with(experiment, factor.name):
                rate *= effects[factor.name]
        found[one.id] = tuple(rate * slower for slower in (1.0, 0.7, 0.5))
    return found


def _with(experiment: Experiment, name: str) -> list[Case]:
    """Return the cases that have B's value of a factor."""
    (factor,) = [one for one in experiment.factors if one.name == name]
    others = [one.left_out for one in experiment.factors if one.name != name]
    return [factor.added, experiment.b, *others]


@pytest.mark.parametrize("others", [("layout",), ("layout", "batch_per_device")])
def test_a_factor_that_needs_all_others_has_the_effect_of_leaving_it_out(others: tuple[str, ...]) -> None:
    """Decompose the way to a compiler that supports only the other layout: nothing of the gap stays open."""
    effects = {"layout": 1.8, "batch_per_device": 1.1, "compiler": 1.6}
    to = {"layout": "nhwc", "batch_per_device": 32}
    experiment = plan_experiment(A, case(compiler="torch.compile", **{name: to[name] for name in others}))
    rates = rates_of(experiment, **effects)
    for one in experiment.cases:
        if one.compiler == "torch.compile" and one.value("layout") == "nchw":
            rates[one.id] = ()

    found = decompose(experiment, results_of(rates), ("a", "b"), None)

    by_name = {factor.name: factor for factor in found.factors}
    assert by_name["compiler"].added is None
    assert by_name["compiler"].effect is not None
    assert by_name["compiler"].effect.value == pytest.approx(1.6)
    # Of two factors of which one needs the other, what both do jointly is not measured.
    assert (found.interaction is None) is (len(others) == 1)
    assert found.interaction is None or found.interaction.value == pytest.approx(1.0)
    assert found.closes
    assert "A with compiler torch.compile alone has no number" in closing_sentence(found)
    bars = waterfall_bars(found, "A", "B", "interaction")
    assert [bar.label for bar in bars[1:]][len(others)] == "compiler: none → torch.compile"
    assert bars[-2].end == pytest.approx(bars[-1].end)


def test_two_factors_of_which_one_cannot_be_added_show_no_interaction() -> None:
    """The case in between is A with the one and B without the other: what both do jointly was not measured."""
    experiment = plan_experiment(A, case(layout="nhwc", compiler="torch.compile"))
    rates = rates_of(experiment, layout=1.8, compiler=1.6)
    for one in experiment.cases:
        if one.compiler == "torch.compile" and one.value("layout") == "nchw":
            rates[one.id] = ()

    found = decompose(experiment, results_of(rates), ("a", "b"), None)

    assert found.closes
    assert found.interaction is None
    assert "The factors multiply to x2.880" in closing_sentence(found)
    (row,) = (line for line in render_decomposition(found).splitlines() if line.startswith("interaction"))
    assert row.split() == ["interaction", "-", "-"]
    assert "interaction" not in [bar.label for bar in waterfall_bars(found, "A", "B", "interaction")]


def test_with_too_few_undisturbed_passes_all_of_them_give_the_interval() -> None:
    experiment = plan_experiment(A, case(layout="nhwc"))
    results = results_of({A.id: (99.0, 100.0, 101.0), experiment.b.id: (148.5, 150.0, 151.5)})
    busy = Suspicion(code="cpu-shared", sentence="", about=About.MACHINE)
    first, *others = results.cases[0].runs
    disturbed = results.cases[0].model_copy(
        update={
            "runs": (first.model_copy(update={"suspicions": (busy,)}), *others),
            "estimate": estimate((100.0, 101.0)),
        }
    )

    found = decompose(
        experiment, results.model_copy(update={"cases": (disturbed, results.cases[1])}), ("a", "b"), None
    )

    assert found.measured is not None
    assert found.measured.interval is not None
    assert found.measured.value == pytest.approx(1.5)


def test_two_factors_that_cannot_be_added_leave_the_gap_open() -> None:
    experiment = plan_experiment(A, B)
    rates = rates_of(experiment, layout=1.8, batch_per_device=1.1, compiler=1.6)
    for factor in experiment.factors[1:]:
        rates[factor.added.id] = ()

    found = decompose(experiment, results_of(rates), ("a", "b"), None)

    assert (found.interaction, found.closes_within) == (None, None)
    assert "The effect of layout, compiler could not be measured alone" in closing_sentence(found)


def test_each_factor_is_added_to_one_side_and_left_out_of_the_other() -> None:
    experiment = plan_experiment(A, B)

    assert [one.name for one in experiment.factors] == ["batch_per_device", "layout", "compiler"]
    assert len(experiment.cases) == 2 + 2 * 3
    layout = experiment.factors[1]
    assert (layout.here, layout.there) == ("nchw", "nhwc")
    assert layout.added == A.varied(layout="nhwc")
    assert layout.left_out == B.varied(layout="nchw")


def test_two_factors_need_four_cases_and_one_needs_two() -> None:
    assert len(plan_experiment(A, case(layout="nhwc", batch_per_device=32)).cases) == 4
    assert len(plan_experiment(A, case(layout="nhwc")).cases) == 2


def test_a_loader_belongs_to_its_data() -> None:
    experiment = plan_experiment(A, case(data="photos", loader="dali-gpu"))

    (factor,) = experiment.factors
    assert (factor.name, factor.there) == ("data", "photos, dali-gpu")


def test_options_of_cards_are_factors() -> None:
    one = case(options={"lr": 1, "k": 2})
    experiment = plan_experiment(one, case(options={"lr": 2, "fast": True, "k": 2}))

    assert [(f.name, f.here, f.there) for f in experiment.factors] == [
        ("lr", "1", "2"),
        ("fast", "not set", "true"),
    ]
    assert experiment.factors[1].added.options == {"lr": 1, "k": 2, "fast": True}
    assert experiment.factors[1].left_out.options == {"lr": 2, "k": 2}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (A, "A and B are the same case"),
        (case(framework="jax"), "framework is pytorch in A and jax in B"),
        (case(model="mobilenet_v1"), "--test needs two cases of one program and model: model is"),
        (case(compiler="best"), "B leaves compiler open"),
        (case(options={f"o{number}": 1 for number in range(13)}), "at most 12 can be tested"),
    ],
)
def test_cases_that_cannot_be_tested_are_refused(other: Case, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_experiment(A, other)


def test_effects_within_passes_multiply_to_the_gap_on_a_machine_that_slows_down() -> None:
    experiment = plan_experiment(A, B)
    effects = {"batch_per_device": 1.5, "layout": 1.2, "compiler": 0.9}

    found = decompose(experiment, results_of(rates_of(experiment, **effects)), ("a", "b"), None)

    for factor in found.factors:
        assert factor.added is not None
        assert factor.left_out is not None
        assert factor.added.value == pytest.approx(effects[factor.name])
        assert factor.left_out.value == pytest.approx(effects[factor.name])
        assert factor.added.interval is not None
        assert factor.added.interval.high / factor.added.interval.low < 1.001
    assert found.measured is not None
    assert found.measured.value == pytest.approx(math.prod(effects.values()))
    assert found.interaction is not None
    assert found.interaction.value == pytest.approx(1.0)
    assert found.closes


def interacting(extra: float = 1.0) -> tuple[Experiment, Results]:
    """Return two factors that do more jointly than each alone; B is ``extra`` times as fast as that."""
    experiment = plan_experiment(A, case(layout="nhwc", batch_per_device=32))
    batch, layout = experiment.factors
    rates = {A.id: 100.0, batch.added.id: 120.0, layout.added.id: 110.0, experiment.b.id: 198.0 * extra}
    noisy = {name: (rate * 0.99, rate, rate * 1.01) for name, rate in rates.items()}
    return experiment, results_of(noisy)


def test_the_interaction_is_a_bar_of_its_own() -> None:
    experiment, results = interacting()

    found = decompose(experiment, results, ("a", "b"), None)

    assert found.interaction is not None
    assert found.interaction.value == pytest.approx(1.98 / (1.2 * 1.1))
    bars = waterfall_bars(found, "A", "B", "interaction")
    assert [bar.label for bar in bars] == [
        "A",
        "batch_per_device: 8 → 32",
        "layout: nchw → nhwc",
        "interaction",
        "B",
    ]
    assert bars[3].end == pytest.approx(bars[4].end)
    assert bars[1].low is not None


def test_what_was_recorded_and_not_tested_is_open() -> None:
    experiment, results = interacting()
    recorded = ratio(estimate((237.0, 238.0, 239.0)), estimate((99.0, 100.0, 101.0)))
    assert recorded is not None

    found = decompose(experiment, results, ("a", "b"), recorded, ["package torch"])

    assert not found.closes
    assert found.open is not None
    assert found.open.value == pytest.approx(2.38 / 1.98, rel=1e-3)
    assert found.open.interval is not None
    assert closing_sentence(found).endswith(
        "of the recorded x2.380; x1.202 is open; not tested: package torch."
    )


def test_a_gap_that_is_met_closes_with_its_distance() -> None:
    experiment, results = interacting()

    found = decompose(experiment, results, ("a", "b"), Ratio(value=2.0, interval=None))

    assert found.closes
    assert found.closes_within == pytest.approx(0.01, rel=1e-3)
    assert closing_sentence(found) == (
        "The factors and their interaction multiply to x1.980 of the recorded x2.000: this closes the gap within 1.0%."
    )


def test_a_factor_that_cannot_be_measured_alone_is_named_with_the_reason() -> None:
    experiment, results = interacting()
    lost = {experiment.factors[0].added.id, experiment.factors[0].left_out.id}
    without = tuple(_lost(one) if one.id in lost else one for one in results.cases)

    found = decompose(experiment, results.model_copy(update={"cases": without}), ("a", "b"), None)

    assert (found.factors[0].added, found.factors[0].effect) == (None, None)
    assert "not supported" in (found.factors[0].reason or "") or "unsupported" in (
        found.factors[0].reason or ""
    )
    assert found.interaction is None
    assert not found.closes
    assert closing_sentence(found).startswith("The effect of batch_per_device, layout could")
    assert waterfall_bars(found, "A", "B", "interaction") == ()


def _lost(one: CaseResult) -> CaseResult:
    changes = {"estimate": None, "runs": (), "outcome": Outcome.UNSUPPORTED, "reason": "the card says no"}
    return one.model_copy(update=changes)


def test_one_factor_is_the_whole_gap() -> None:
    experiment = plan_experiment(A, case(layout="nhwc"))
    rates = {A.id: (99.0, 100.0, 101.0), experiment.b.id: (148.5, 150.0, 151.5)}

    found = decompose(experiment, results_of(rates), ("a", "b"), None)

    assert found.factors[0].added is not None
    assert found.factors[0].added.value == pytest.approx(1.5)
    assert "interaction" not in render_decomposition(found)
    assert "The factor comes to x1.500 of the recorded x1.500" in closing_sentence(found)


def test_a_case_with_fewer_runs_than_an_interval_needs_lacks_runs() -> None:
    experiment = plan_experiment(A, case(layout="nhwc"))
    rates = {A.id: (100.0,), experiment.b.id: (150.0, 151.0, 149.0)}

    found = decompose(experiment, results_of(rates), ("a", "b"), None)

    assert found.closes
    assert not found.complete
    assert closing_sentence(found).startswith("Runs are missing: continue with --resume")


def test_the_report_has_the_table_the_waterfall_and_the_closing_sentence(tmp_path: Path) -> None:
    experiment, results = interacting()
    found = decompose(experiment, results, ("a", "b"), Ratio(value=2.0, interval=None))
    (tmp_path / DECOMPOSITION).write_text(found.model_dump_json())

    for language, title in ((Language.EN, "From A to B, factor by factor"), (Language.ZH, "逐项分解")):
        page = render_markdown(results, tmp_path, language)
        assert title in page
        assert "plots/waterfall.svg" in page
        assert "this closes the gap within 1.0%" in page
    text = render_decomposition(found)
    assert "interaction" in text
    assert "B / A as recorded" in text
    assert Decomposition.model_validate_json(found.model_dump_json()) == found
