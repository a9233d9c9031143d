"""``trainmark compare``: faster, slower or not distinguishable, case by case, and in what the two sides differ."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes import Bench
from trainmark.cli.main import main
from trainmark.cli.run_output import compare_baseline
from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.insight import compare, compare_axis, history_of
from trainmark.measure import estimate
from trainmark.report.comparison import render_comparison
from trainmark.schema.comparison import Change, Comparison, Scope, Side
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import About, NoInterval, Suspicion
from trainmark.schema.outcome import Identity, Outcome, Part, PartName
from trainmark.schema.results import CaseResult, Results
from trainmark.store import read_results

OLD = Path(__file__).parents[1] / "store" / "old" / "results-0.1.json"
CAN = pytest.CaptureFixture[str]


@pytest.fixture
def results() -> Results:
    """Return two frameworks' cases, whose three runs lie within a percent."""
    stored = read_results(OLD)
    return stored.model_copy(
        update={"cases": tuple(with_rates(case, 1.0, 0.995, 1.005) for case in stored.cases)}
    )


def with_rates(case: CaseResult, *factors: float) -> CaseResult:
    """Return the case with a run for each factor of its first run's throughput."""
    first = case.runs[0]
    assert first.measurement is not None
    rates = [first.measurement.throughput * factor for factor in factors]
    windows = [(first.measurement.window_s or 0) / factor for factor in factors]
    runs = tuple(
        first.model_copy(
            update={
                "repeat": i,
                "directory": f"runs/{case.id}/{i}",
                "started_at": first.started_at and first.started_at + timedelta(minutes=i),
                "duration_s": 1000.0,
                "measurement": first.measurement.model_copy(update={"throughput": rate, "window_s": window}),
            }
        )
        for i, (rate, window) in enumerate(zip(rates, windows, strict=True), start=1)
    )
    return case.model_copy(update={"runs": runs, "estimate": estimate(rates)})


def times(results: Results, factor: float) -> Results:
    """Return the results with every run so many times as fast."""
    factors = [factor * own for own in (1.0, 0.995, 1.005)]
    cases = tuple(with_rates(case, *factors) for case in results.cases)
    return results.model_copy(update={"cases": cases})


def first_as(results: Results, **changes: Any) -> Results:
    """Return the results with another first case."""
    case, *others = results.cases
    return results.model_copy(update={"cases": (case.model_copy(update=changes), *others)})


def of_runs(results: Results, **changes: Any) -> Results:
    """Return the results with something else said of all runs."""
    cases = tuple(
        case.model_copy(update={"runs": tuple(run.model_copy(update=changes) for run in case.runs)})
        for case in results.cases
    )
    return results.model_copy(update={"cases": cases})


def table_of(results: Results, *factors: tuple[float, ...]) -> Results:
    """Return results with a case for each sequence of factors of the first case's throughput, one factor a run."""
    first = results.cases[0]
    cases = []
    for batch, own in enumerate(factors, start=1):
        case = first.case.model_copy(update={"batch_per_device": batch})
        cases.append(with_rates(first, *own).model_copy(update={"id": case.id, "case": case}))
    return results.model_copy(update={"cases": tuple(cases), "findings": None})


STILL = (1.0, 0.995, 1.005)
"""Factors of three runs that spread by half a percent."""


def by(factor: float) -> tuple[float, ...]:
    return tuple(factor * own for own in STILL)


def on_day(results: Results, day: int) -> Results:
    """Return the results as if their runs had started one after the other on another day."""
    start = results.measured[0] + timedelta(days=day)
    cases = tuple(
        case.model_copy(
            update={
                "runs": tuple(
                    run.model_copy(update={"started_at": start + timedelta(minutes=10 * i + run.repeat)})
                    for run in case.runs
                )
            }
        )
        for i, case in enumerate(results.cases)
    )
    return results.model_copy(update={"cases": cases})


def changes(comparison: Comparison) -> set[Change]:
    return {case.change for case in comparison.cases}


@pytest.mark.parametrize(
    ("factor", "change"),
    [(1.5, Change.FASTER), (1.0, Change.NOT_DISTINGUISHABLE), (0.7, Change.SLOWER)],
)
def test_the_whole_interval_decides_whether_a_case_changed(
    results: Results, factor: float, change: Change
) -> None:
    found = compare([results], times(results, factor))
    assert changes(found) == {change}
    assert found.holds == (change is not Change.SLOWER)
    for case in found.cases:
        assert case.ratio is not None
        assert case.ratio.value == pytest.approx(factor)


def test_a_swapped_comparison_gives_the_inverse_result(results: Results) -> None:
    other = times(results, 1.02)
    for there, back in zip(compare([results], other).cases, compare([other], results).cases, strict=True):
        assert there.ratio is not None
        assert back.ratio is not None
        assert there.ratio.interval is not None
        assert back.ratio.interval is not None
        assert there.ratio.interval.low == pytest.approx(1 / back.ratio.interval.high)
        assert {there.change, back.change} == {Change.FASTER, Change.SLOWER}


def test_a_change_may_require_a_minimum_difference(results: Results) -> None:
    for factor in (1.03, 1 / 1.03):
        assert changes(compare([results], times(results, factor), within=0.05)) == {
            Change.NOT_DISTINGUISHABLE
        }
    assert changes(compare([results], times(results, 1.03), within=0.001)) == {Change.FASTER}


def test_a_change_that_is_likely_by_chance_in_a_large_table_is_none(results: Results) -> None:
    slower = by(1 / 1.02)
    alone = compare([table_of(results, STILL)], table_of(results, slower))
    many = compare([table_of(results, *[STILL] * 16)], table_of(results, slower, *[STILL] * 15))
    assert [case.change for case in alone.cases] == [Change.SLOWER]
    assert changes(many) == {Change.NOT_DISTINGUISHABLE}
    assert many.holds
    assert (many.judged, many.level, many.method) == (16, 0.05, "holm")
    ratio = many.cases[0].ratio
    assert ratio is not None
    assert ratio.interval is not None
    assert ratio.interval.high < 1, "an interval is that of its case alone"
    text = render_comparison(many)
    assert "p judges all 16 cases jointly (Holm)" in text
    assert "at most 5 % of such tables would call any case" in text


def test_runs_that_resemble_the_run_before_them_make_the_intervals_of_one_baseline_wider(
    results: Results,
) -> None:
    slow = tuple(1 + 0.001 * place for place in range(5))
    rising, mixed = (
        table_of(results, *[tuple(slow[place] for place in order)] * 8)
        for order in ((0, 1, 2, 3, 4), (2, 0, 4, 1, 3))
    )
    found, shuffled = (compare([side], times_of(side, 0.99)) for side in (rising, mixed))

    assert (found.run_correlation, shuffled.run_correlation) == (0.95, 0.0)
    wide, narrow = (one.cases[0].ratio for one in (found, shuffled))
    assert wide is not None
    assert narrow is not None
    assert wide.value == narrow.value
    assert wide.interval is not None
    assert narrow.interval is not None
    assert wide.interval.high - wide.interval.low > 3 * (narrow.interval.high - narrow.interval.low)
    assert changes(found) == {Change.NOT_DISTINGUISHABLE}
    assert changes(shuffled) == {Change.SLOWER}
    assert "Consecutive runs are correlated (0.95" in render_comparison(found)
    assert "correlated" not in render_comparison(shuffled)
    campaigns = [on_day(rising, day) for day in (1, 2)]
    assert compare(campaigns, times_of(rising, 0.99)).run_correlation == 0.0, (
        "the difference between campaigns contains it"
    )


def times_of(results: Results, factor: float) -> Results:
    """Return the results with each run so many times as fast."""
    cases = []
    for case in results.cases:
        rates = [run.measurement.throughput for run in case.runs if run.measurement is not None]
        cases.append(with_rates(case, *(factor * rate / rates[0] for rate in rates)))
    return results.model_copy(update={"cases": tuple(cases)})


def test_several_baselines_show_how_much_campaigns_differ(results: Results) -> None:
    days = [
        on_day(table_of(results, *[by(factor)] * 4), day) for day, factor in enumerate((1.0, 1.015, 0.99), 1)
    ]
    later = table_of(results, *[by(0.98)] * 4)
    single, several = compare(days[:1], later), compare(days, later, ("mon", "tue", "wed", "new"))
    assert (single.scope, several.scope) == (Scope.ONE_CAMPAIGN, Scope.CAMPAIGNS)
    assert changes(single) == {Change.SLOWER}
    assert changes(several) == {Change.NOT_DISTINGUISHABLE}
    assert several.variation is not None
    assert (several.variation.campaigns, several.variation.cases) == (3, 4)
    assert 0.005 < several.variation.common < 0.03
    first = several.cases[0]
    assert len(first.baselines) == 3
    assert first.estimates[0] is not None
    assert first.estimates[0].n == 9
    text = render_comparison(several)
    assert [line.split(":")[0].split() for line in text.splitlines()[:4]] == [
        ["baseline", "mon"],
        ["baseline", "tue"],
        ["baseline", "wed"],
        ["candidate", "new"],
    ]
    assert "variation between 3 campaigns of the baseline, estimated from 4 cases" in text
    assert "within one campaign" not in text
    assert changes(compare(days, table_of(results, *[by(0.8)] * 4))) == {Change.SLOWER}


def test_a_comparison_of_disturbed_runs_shows_how_to_get_a_verdict(results: Results) -> None:
    found = compare([results], results)
    first, *others = found.cases
    disturbed = [
        one and one.model_copy(update={"interval": None, "no_interval": NoInterval.SPOILED})
        for one in first.estimates
    ]
    cases = (first.model_copy(update={"estimates": tuple(disturbed)}), *others)
    advice = "`trainmark run --against 'OTHER COMMAND' -- COMMAND` compares two programs that take turns"

    assert advice in render_comparison(found.model_copy(update={"cases": cases}))
    assert advice not in render_comparison(found)


def test_a_reason_that_both_sides_share_is_given_once(results: Results) -> None:
    single = table_of(results, (1.0,))
    text = render_comparison(compare([single], single))
    assert "each side has only one run" in text
    assert "the candidate has" not in text


def test_a_verdict_against_one_baseline_says_so(results: Results) -> None:
    text = render_comparison(compare([results], times(results, 0.7)))
    assert text.count("slower within one campaign") == len(results.cases)
    assert "compare BASE1 BASE2 BASE3 --to CANDIDATE" in text


def test_a_baseline_without_a_case_is_left_out_of_it_with_the_reason(results: Results) -> None:
    days = [
        on_day(table_of(results, STILL, STILL), 1),
        on_day(table_of(results, STILL, (1.0,)), 2),
        on_day(table_of(results, STILL, STILL), 3),
    ]
    found = compare(days, table_of(results, STILL, STILL))
    assert [case.reason for case in found.cases] == [
        None,
        "not all baselines are compared: baseline 2 has only one run, but an interval needs 3 (`repeats`)",
    ]
    assert found.judged == 2


def test_baselines_of_different_programs_or_machines_are_refused(results: Results) -> None:
    def of(version: str) -> Results:
        part = Part(name=PartName.PACKAGES, word=version, digest=f"sha256:{version}")
        return of_runs(results, identity=Identity.of((part,)))

    with pytest.raises(
        InputError, match=r"a and b cannot both be the baseline of .*ran different things \(packages"
    ):
        compare([on_day(of("2.12"), 1), on_day(of("2.13"), 2)], results, ("a", "b", "c"))
    manifests = dict(results.manifests)
    for key, manifest in results.manifests.items():
        assert isinstance(manifest, Manifest)
        node = manifest.nodes[0]
        cpu = node.cpu.__class__(**{**{n: getattr(node.cpu, n) for n in node.cpu.__slots__}, "model": "Z80"})
        manifests[f"{key}-moved"] = Manifest(nodes=(node.model_copy(update={"cpu": cpu}),))
    moved = of_runs(results, manifest=f"{results.cases[0].runs[0].manifest}-moved")
    moved = on_day(moved.model_copy(update={"manifests": manifests}), 1)
    with pytest.raises(InputError, match=r"a and b cannot both .* they ran on different hardware"):
        compare([results, moved], on_day(results, 2), ("a", "b", "c"))


def test_a_copy_of_a_campaign_is_no_second_baseline(results: Results) -> None:
    other, candidate = on_day(times(results, 1.01), 1), on_day(times(results, 0.97), 2)
    same = r"started at .*: one campaign, or a copy of it; give each campaign once"
    with pytest.raises(InputError, match=f"^a and copy have the same run of .*{same}"):
        compare([results, other, results], candidate, ("a", "b", "copy", "new"))
    with pytest.raises(InputError, match=f"^a and new have the same run of .*{same}"):
        compare([results, other], results, ("a", "b", "new"))
    assert compare([results, other], candidate).variation is not None


def test_earlier_campaigns_of_the_machine_set_the_margin(results: Results) -> None:
    def day(number: int, factor: float) -> Results:
        return on_day(table_of(results, *[by(factor)] * 4), number)

    days = [day(number, factor) for number, factor in enumerate((1.0, 1.015, 0.99, 1.005))]
    candidate = day(9, 0.97)
    history = history_of(days[0], candidate, [*days, candidate], "runs.db")
    assert history is not None
    assert history.variation.campaigns == 4, "the candidate's own campaign is none of them"
    assert history.within > 0.02
    assert history_of(days[0], candidate, days[:2], "runs.db") is None
    found = compare(days[:1], candidate, ("a", "b"), history=history)
    assert changes(found) == {Change.NOT_DISTINGUISHABLE}
    assert (found.within, found.history) == (history.within, history)
    assert "4 earlier campaigns of this program on this machine (runs.db)" in render_comparison(found)
    assert changes(compare(days[:1], candidate, within=0.0, history=history)) == {Change.SLOWER}


def test_an_outcome_is_not_a_number_and_a_lost_number_is_reported(results: Results) -> None:
    dead = first_as(results, runs=(), estimate=None, outcome=Outcome.OOM, reason="out of memory on rank 0")
    found = compare([results], dead)
    first = found.cases[0]
    assert (first.ratio, first.change, first.lost) == (None, Change.CANNOT_SAY, True)
    assert first.reason == "the candidate has no number: oom, out of memory on rank 0"
    assert not found.holds
    assert "oom" in render_comparison(found).splitlines()[6]
    later = first_as(results, runs=(), estimate=None, outcome=Outcome.SKIPPED, reason="not run yet")
    assert compare([results], later).holds
    assert not compare([dead], results).cases[0].lost


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ((1.0,), "the candidate has only one run"),
        ((1.0, 1.01), "the candidate has two runs"),
        ((1.0, 1.0, 1.0), "the candidate has runs with exactly equal numbers"),
        ((1.0, 1.0, 2.0), "the candidate has runs whose rates differ by more than a factor of 1.5"),
    ],
)
def test_without_an_interval_no_case_is_called_faster(
    results: Results, factors: tuple[float, ...], words: str
) -> None:
    cases = tuple(with_rates(case, *(3 * factor for factor in factors)) for case in results.cases)
    found = compare([results], results.model_copy(update={"cases": cases}))
    assert changes(found) == {Change.CANNOT_SAY}
    assert all(case.ratio is not None and words in (case.reason or "") for case in found.cases)


@pytest.mark.parametrize(("field", "value"), [("unit", "tokens/s"), ("rule", "mean-skip-20")])
def test_numbers_in_different_units_have_no_ratio(results: Results, field: str, value: str) -> None:
    measurement = results.cases[0].runs[0].measurement
    assert measurement is not None
    other = of_runs(results, measurement=measurement.model_copy(update={field: value}))
    found = compare([results], other)
    assert changes(found) == {Change.CANNOT_SAY}
    assert all(case.ratio is None for case in found.cases)
    assert f"the numbers have different {field}s" in (found.cases[0].reason or "")


def test_a_doubt_on_either_side_is_marked_at_its_number(results: Results) -> None:
    doubt = Suspicion(code="batch-differs", sentence="batch 256 was asked for, not 128", about=About.WORK)
    found = compare([of_runs(results, suspicions=(doubt,))], results)
    assert {case.doubtful for case in found.cases} == {(Side.BASELINE,)}
    text = render_comparison(found)
    assert text.count("†") == len(found.cases) + 1


def test_the_dates_are_those_of_the_runs_and_not_of_the_document(results: Results) -> None:
    later = results.model_copy(update={"generated_at": results.generated_at.replace(year=2031)})
    day = f"{results.measured[0]:%Y-%m-%d}"
    text = render_comparison(compare([results], later, ("old", "new")))
    assert text.startswith(f"baseline   old: suite {results.suite}, measured on {day}")
    assert "2031" not in text


def test_each_other_difference_is_listed_once_with_its_cases(results: Results) -> None:
    def identity(version: str) -> Identity:
        return Identity.of((Part(name=PartName.PACKAGES, word=version, digest=f"sha256:{version}"),))

    baseline, candidate = (of_runs(results, identity=identity(version)) for version in ("2.12", "2.13"))
    candidate = candidate.model_copy(
        update={"protocol": candidate.protocol.model_copy(update={"warmup_steps": 77})}
    )
    manifests = dict(candidate.manifests)
    for key, manifest in manifests.items():
        assert isinstance(manifest, Manifest)
        node = manifest.nodes[0]
        cpu = node.cpu.__class__(**{**{n: getattr(node.cpu, n) for n in node.cpu.__slots__}, "model": "Z80"})
        manifests[key] = Manifest(nodes=(node.model_copy(update={"cpu": cpu, "hostname": "elsewhere"}),))
    found = compare([baseline], candidate.model_copy(update={"manifests": manifests}))
    differing = {difference.what: difference for difference in found.differences}
    assert differing["packages"].cases == tuple(case.id for case in results.cases)
    assert (differing["packages"].baseline, differing["packages"].candidate) == (
        "2.12 (2.12)",
        "2.13 (2.13)",
    )
    assert differing["protocol warmup_steps"].candidate == "77"
    assert differing["cpu.model"].candidate == "Z80"
    assert not any("hostname" in what for what in differing), "a name is no fact of a machine"
    assert compare([results], results).differences == ()


def test_ignored_axes_are_listed_as_differences(results: Results) -> None:
    case = results.cases[0]
    other = case.case.model_copy(update={"compiler": "xla"})
    changed = results.model_copy(update={"cases": (case.model_copy(update={"id": other.id, "case": other}),)})
    hint = r"here .* and there .* have no case in common; if they .* differ in compiler, add --ignoring compiler$"
    with pytest.raises(InputError, match=hint):
        compare([results], changed, ("here", "there"))
    found = compare([results], changed, ignoring=("compiler",))
    assert [(one.case, one.against) for one in found.cases] == [(case.id, other.id)]
    (difference,) = found.differences
    assert (difference.what, difference.candidate) == ("compiler", "xla")
    assert found.only[Side.BASELINE] == tuple(one.id for one in results.cases[1:])
    both = results.model_copy(update={"cases": (case, *changed.cases)})
    with pytest.raises(InputError, match="are the same case when compiler is ignored"):
        compare([both], results, ignoring=("compiler",))


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        ("python train.py", "python train.py --lr 0.1", ("not given", "--lr 0.1")),
        ("python train.py --lr 0.1 --amp", "python train.py --lr 0.2", ("--lr 0.1 --amp", "--lr 0.2")),
        ("python a.py --out o/runs/a/1", "python b.py --out p/runs/a/1", ("a.py", "b.py")),
        (
            "python a.py --port=20001 -x h:20001",
            "python a.py --port=31999 -x h:31999 -y",
            ("not given", "-y"),
        ),
        ("cd /here && A=1 python a.py", "cd /there && A=1 python b.py", ("a.py", "b.py")),
    ],
)
def test_a_changed_command_is_shown_by_its_words(
    results: Results, before: str, after: str, difference: tuple[str, str]
) -> None:
    def of(command: str) -> Results:
        part = Part(name=PartName.COMMANDS, word="of the run", digest=f"sha256:{command}")
        return of_runs(results, identity=Identity.of((part,)), commands=(command,))

    found = compare([of(before)], of(after)).differences

    assert [(one.what, one.baseline, one.candidate) for one in found] == [("commands", *difference)]


def on_nodes(results: Results, command: str, *variables: dict[str, str]) -> Results:
    """Return the results as of one command on nodes with these variables each."""
    part = Part(name=PartName.COMMANDS, word="of the run", digest=f"sha256:{command}")
    caller = Part(name=PartName.VARIABLES, word="of the caller", digest=f"sha256:{variables}")
    changed = of_runs(results, identity=Identity.of((part, caller)), commands=(command,))
    manifests = {}
    for key, manifest in results.manifests.items():
        assert isinstance(manifest, Manifest)
        nodes = [manifest.nodes[0].model_copy(update={"variables": one}) for one in variables]
        manifests[key] = Manifest(nodes=tuple(nodes))
    return changed.model_copy(update={"manifests": manifests})


def test_a_variable_that_changed_on_every_node_is_listed_once(results: Results) -> None:
    passive, active = ({"OMP_WAIT_POLICY": policy} for policy in ("passive", "active"))
    before = on_nodes(results, "env -u A OMP_WAIT_POLICY=passive python t.py", passive, passive, passive)
    after = on_nodes(results, "env -u A OMP_WAIT_POLICY=active TUNED=1 python t.py", active, active, active)
    found = compare([before], after).differences
    assert [(one.what, one.baseline, one.candidate) for one in found] == [
        ("variables.OMP_WAIT_POLICY", "passive", "active"),
        ("variables.TUNED", None, "1"),
    ]


def test_a_variable_of_some_nodes_names_them(results: Results) -> None:
    before = on_nodes(results, "python t.py", {}, {}, {})
    after = on_nodes(results, "python t.py", {}, {"KMP_BLOCKTIME": "0"}, {"KMP_BLOCKTIME": "0"})
    (found,) = compare([before], after).differences
    assert (found.what, found.baseline, found.candidate) == ("nodes[1,2].variables.KMP_BLOCKTIME", None, "0")


def test_a_variable_that_the_command_sets_on_both_sides_is_no_difference(results: Results) -> None:
    before = on_nodes(results, "OMP_NUM_THREADS=2 python t.py", {})
    after = on_nodes(results, "OMP_NUM_THREADS=2 python t.py", {"OMP_NUM_THREADS": "1", "KMP_BLOCKTIME": "0"})
    (found,) = compare([before], after).differences
    assert (found.what, found.candidate) == ("variables.KMP_BLOCKTIME", "0")


class TestTheVerb:
    @pytest.fixture
    def sides(self, tmp_path: Path, results: Results) -> tuple[str, str]:
        paths = tmp_path / "base.json", tmp_path / "new.json"
        for path, side in zip(paths, (results, times(results, 0.9)), strict=True):
            write_atomically(path, side.to_json())
        return str(paths[0]), str(paths[1])

    def test_a_slower_case_is_exit_code_1_and_a_faster_one_0(
        self, sides: tuple[str, str], capsys: CAN
    ) -> None:
        assert main(["compare", *sides]) == 1
        text = capsys.readouterr().out
        assert "slower" in text
        assert "0.900" in text
        assert main(["compare", *reversed(sides), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert {case["change"] for case in document["cases"]} == {"faster"}
        assert Comparison.model_validate(document).candidate.path == sides[0]

    def test_several_baselines_are_named_before_the_candidate(
        self, sides: tuple[str, str], tmp_path: Path, results: Results, capsys: CAN
    ) -> None:
        base, new = sides
        days = [str(tmp_path / f"day{day}.json") for day in (1, 2, 3)]
        for number, path in enumerate(days, start=1):
            write_atomically(Path(path), on_day(results, number).to_json())
        assert main(["compare", *days, "--to", new, "--json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert (document["scope"], len(document["baselines"])) == ("campaigns", 3)
        assert (document["method"], document["level"], document["judged"]) == ("holm", 0.05, 2)
        assert main(["compare", base, base, new]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "several baselines need --to" in line
        assert main(["compare", base]) == 2
        assert "compare takes two results: add the candidate after" in capsys.readouterr().err

    def test_the_margin_is_taken_from_the_database_of_earlier_campaigns(
        self, tmp_path: Path, results: Results, capsys: CAN
    ) -> None:
        store = str(tmp_path / "runs.db")
        for number, factor in enumerate((1.0, 1.03, 0.98, 0.95), start=1):
            folder = tmp_path / f"day{number}"
            folder.mkdir()
            write_atomically(folder / "results.json", on_day(times(results, factor), number).to_json())
            assert main(["store", "add", str(folder), "--to", store]) == 0
        capsys.readouterr()
        assert main(["compare", f"{store}#1", f"{store}#4", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["history"]["variation"]["campaigns"] == 3
        assert document["within"] == document["history"]["within"] > 0.03
        assert main(["compare", f"{store}#1", f"{store}#4", "--within", "0"]) == 1
        days = [str(tmp_path / f"day{number}") for number in (1, 4)]
        assert main(["compare", *days]) == 1
        assert main(["compare", *days, "--history", store]) == 0

    def test_some_cases_alone(self, sides: tuple[str, str], results: Results, capsys: CAN) -> None:
        wanted = results.cases[0].case.framework
        assert main(["compare", *sides, "--only", f"framework={wanted}", "--json"]) == 1
        assert len(json.loads(capsys.readouterr().out)["cases"]) < len(results.cases)

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (["--ignoring", "compilr"], "no case has this axis or option; did you mean 'compiler'?"),
            (["--only", "framework=cobol"], "framework=cobol"),
        ],
    )
    def test_a_wrong_word_is_one_line(
        self, sides: tuple[str, str], more: list[str], words: str, capsys: CAN
    ) -> None:
        assert main(["compare", *sides, *more]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line

    def test_what_is_no_result_is_one_line(self, tmp_path: Path, sides: tuple[str, str], capsys: CAN) -> None:
        (tmp_path / "broken.json").write_text("step 3")
        for source in (str(tmp_path / name) for name in ("none", "none.json", "broken.json")):
            assert main(["compare", source, sides[0]]) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert source in line

    def test_directories_and_campaigns_of_a_database_are_sides(self, tmp_path: Path, capsys: CAN) -> None:
        bench = Bench(tmp_path)
        bench.write(protocol={"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 3})
        results = bench.run()
        store = str(tmp_path / "runs.db")
        assert main(["store", "add", str(bench.out), "--to", store]) == 0
        capsys.readouterr()
        assert main(["compare", str(bench.out), f"{store}#1", "--json"]) == 0
        (case,) = json.loads(capsys.readouterr().out)["cases"]
        assert case["case"] == results.cases[0].id
        assert case["ratio"]["value"] == 1
        assert case["change"] in ("not-distinguishable", "cannot-say")


class TestPairsOfOneResult:
    H200 = str(Path(__file__).parents[2] / "docs" / "results" / "h200")

    def test_cases_that_differ_in_one_axis_are_paired(self, capsys: CAN) -> None:
        assert main(["compare", self.H200, "--axis", "layout=nchw"]) == 0

        printed = capsys.readouterr().out
        assert "cases that differ in layout only of" in printed
        assert "1.982  [" in printed
        assert printed.count("No partner that differs in layout only") == 1
        assert "layout: nchw -> nhwc" in printed

    def test_all_values_are_compared_with_the_base_at_one_level(self, capsys: CAN) -> None:
        assert main(["compare", self.H200, "--axis", "precision=fp32", "--json"]) == 0

        found = json.loads(capsys.readouterr().out)
        assert (found["axis"], found["judged"], len(found["cases"])) == ("precision", 3, 3)
        assert {case["change"] for case in found["cases"]} == {"faster"}

    def test_commands_that_differ_by_the_axis_are_no_difference_of_their_own(self, results: Results) -> None:
        def case_with(value: int) -> CaseResult:
            parts = [
                Part(name=name, word="of the run", digest=f"sha256:{value}")
                for name in (PartName.COMMANDS, PartName.VARIABLES)
            ]
            runs = tuple(
                run.model_copy(update={"identity": Identity.of(tuple(parts))})
                for run in results.cases[0].runs
            )
            case = results.cases[0].case.varied(options={"lr": value})
            return results.cases[0].model_copy(update={"id": f"c{value}", "case": case, "runs": runs})

        cases = (case_with(1), case_with(2))
        found = compare_axis(results.model_copy(update={"cases": cases, "findings": None}), "lr")

        assert [one.what for one in found.differences] == ["lr", "variables"]

    def test_frameworks_with_layouts_of_their_own_are_paired_if_the_layout_is_ignored(
        self, results: Results
    ) -> None:
        case = results.cases[0]
        other = case.case.varied(framework="jax", layout="nchw", compiler="xla")
        both = (case, case.model_copy(update={"id": "jax", "case": other}))
        two = results.model_copy(update={"cases": both, "findings": None})

        with pytest.raises(InputError, match="differ in layout,compiler: --ignoring layout,compiler pairs"):
            compare_axis(two, "framework")
        found = compare_axis(two, "framework", ignoring=["layout", "compiler"])

        assert [(one.case, one.against) for one in found.cases] == [(case.id, "jax")]
        assert [one.what for one in found.differences] == ["framework", "layout", "compiler"]

    def test_an_ignored_axis_may_not_give_a_case_two_partners(self, capsys: CAN) -> None:
        assert main(["compare", self.H200, "--axis", "precision", "--ignoring", "layout"]) == 2
        assert "are the same case when layout is ignored: choose one" in capsys.readouterr().err

    def test_options_of_cards_are_axes(self, results: Results) -> None:
        case = results.cases[0]
        cases = tuple(
            case.model_copy(
                update={"id": f"c{value}", "case": case.case.varied(options={"lr": value, "k": 1})}
            )
            for value in (1, 2)
        )

        found = compare_axis(results.model_copy(update={"cases": cases, "findings": None}), "lr")

        assert [(one.case, one.against) for one in found.cases] == [("c1", "c2")]
        assert [(one.what, one.baseline, one.candidate) for one in found.differences] == [("lr", "1", "2")]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--axis", "layot"], "no case has this axis or option; did you mean 'layout'?"),
            (["--axis", "layout=nchv"], "no case has this value; did you mean 'nchw'?"),
            (["--axis", "device"], "no two cases differ in device only"),
            (["--axis", "layout", "--to", "x"], "--axis takes one result"),
            (["other", "--axis", "layout"], "--axis pairs the cases of one result: 2 are given"),
        ],
    )
    def test_what_cannot_be_paired_is_one_line(self, words: list[str], message: str, capsys: CAN) -> None:
        assert main(["compare", self.H200, *words]) == 2
        assert message in capsys.readouterr().err


def test_a_baseline_that_does_not_fit_leaves_the_measured_result(results: Results, tmp_path: Path) -> None:
    case, *_ = results.cases
    one = results.model_copy(update={"cases": (case,)})
    with_option = case.case.model_copy(update={"options": {"lr": "0.1"}})
    other = results.model_copy(
        update={"cases": (case.model_copy(update={"id": with_option.id, "case": with_option}),)}
    )
    renamed = case.case.model_copy(update={"framework": "unknown", "workload": "mine"})
    mine = results.model_copy(update={"cases": (case.model_copy(update={"id": "mine", "case": renamed}),)})

    holds, text = compare_baseline(Path("before"), other, one, tmp_path)
    assert not holds
    assert "ratio       none: before (" in text
    assert f"to trainmark compare before {tmp_path}" in text
    holds, text = compare_baseline(Path("before"), mine, one, tmp_path)
    assert holds
    assert "framework: unknown -> " in text
