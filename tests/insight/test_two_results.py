"""``explain A --against B`` of results: causes in telemetry, programs and machines are named with their factors."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

from fakes import Bench
from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.insight import ExplainedRun, Explanation, StatedRecipe, explain, render_text, to_document
from trainmark.insight.difference import Basis, DifferenceOf, OwnCause, RecipeDifference
from trainmark.insight.evidence import load_effects
from trainmark.insight.factors import FactorEvidence
from trainmark.insight.from_log import run_from_log
from trainmark.insight.from_results import run_from_case
from trainmark.insight.physics import physical_limit
from trainmark.insight.recipe import Reading
from trainmark.insight.side_facts import MachineUse, SideFacts, program_differences
from trainmark.insight.sides import side_of_run
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import Parameters
from trainmark.schema.outcome import Entries, Identity, PartName
from trainmark.schema.recipe import AxisValue, Condition, RecipeAxis
from trainmark.store import read_results

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200"
NCHW = "pytorch-resnet50_v1.5-amp-fp16-b256-1n1g-synthetic-nchw-none-224px-cuda"
FP32 = "pytorch-resnet50_v1.5-fp32-b256-1n1g-synthetic-nhwc-none-224px-cuda"
AMP = "pytorch-resnet50_v1.5-amp-fp16-b256-1n1g-synthetic-nhwc-none-224px-cuda"


def side(
    name: str,
    rate: float,
    *uses: MachineUse,
    recipe: Mapping[str, AxisValue] = {},
    entries: Mapping[PartName, Mapping[str, str]] = {},
    noise: float = 0.005,
    **facts: Any,
) -> ExplainedRun:
    readings = {axis: Reading(value, "case") for axis, value in recipe.items()}
    waits = [use.data_wait for use in uses if use.data_wait is not None]
    return ExplainedRun(
        name,
        StatedRecipe(readings),
        rate,
        "samples/s",
        noise=noise,
        data_wait=waits[0] if waits else None,
        facts=SideFacts(uses=uses, entries=entries, **facts),
    )


def explained(here: ExplainedRun, there: ExplainedRun) -> Explanation:
    return explain(here, side_of_run(there), (), ())


def first(explanation: Explanation) -> RecipeDifference:
    return explanation.differences[0]


BUSY = MachineUse(cores=1.9, cpus=2, allowed_cpus=2, other_load=0.01, cpu_wait=0.01, data_wait=0.0)


def test_fewer_cpus_are_named_with_a_factor_between_their_use_and_the_gap() -> None:
    pinned = replace(BUSY, cores=1.0, allowed_cpus=1)

    explanation = explained(side("here", 100, *3 * [pinned]), side("there", 160, *3 * [BUSY]))

    found = first(explanation)
    assert (found.axis, found.basis) == (OwnCause.CPUS_ALLOWED, Basis.OWN)
    assert found.here.value == "1 CPUs allowed, 1.00 in use"
    assert (found.low, found.high) == pytest.approx((1.6, 1.9))
    assert math.prod(factor.value for factor in explanation.factors) == pytest.approx(1.6)


def test_other_load_is_named_by_the_wait_for_a_cpu() -> None:
    shared = replace(BUSY, cores=1.1, other_load=0.44, cpu_wait=0.42)

    found = first(explained(side("here", 100, *3 * [shared]), side("there", 175, *3 * [BUSY])))

    assert found.axis == OwnCause.CPU_SHARED
    assert "other processes take 44% of the CPUs" in str(found.here.value)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 1.75 <= found.high


def test_a_wait_for_data_of_several_runs_has_an_interval_over_them() -> None:
    waits = [replace(BUSY, data_wait=share) for share in (0.48, 0.5, 0.52)]

    found = first(explained(side("here", 100, *waits), side("there", 200, *3 * [BUSY])))

    assert found.axis == OwnCause.DATA_WAIT
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1 / 0.52 < found.high
    assert found.high / found.low > 1.1


def test_an_equal_wait_is_no_difference_if_the_computation_takes_longer() -> None:
    """Both wait 5 ms for data; one computes 1 ms, the other 61 ms."""
    short = replace(BUSY, data_wait=5 / 6, cpu_wait=0.0)
    long = replace(short, data_wait=5 / 66)
    here, there = (
        side(name, rate, use, recipe={"evaluations": count})
        for name, rate, use, count in (("here", 1000 / 66, long, 12), ("there", 1000 / 6, short, 0))
    )

    explanation = explained(here, there)

    assert [one.axis for one in explanation.differences] == ["evaluations"]
    assert explanation.differences[0].low == pytest.approx(11, rel=0.05)


def test_a_longer_wait_is_named_with_the_time_it_takes() -> None:
    """One waits 100 ms and the other 5 ms; both compute 1 ms, and other load stretches neither's wait."""
    slow = replace(BUSY, data_wait=100 / 101, cpu_wait=0.005)
    fast = replace(BUSY, data_wait=5 / 6, cpu_wait=0.1)

    found = explained(side("here", 1000 / 101, slow), side("there", 1000 / 6, fast)).differences

    assert found[0].axis == OwnCause.DATA_WAIT
    assert found[0].low is not None
    assert found[0].low < 101 / 6 < (found[0].high or 0)
    assert all(abs(math.log(one.high or 1)) < 0.1 for one in found[1:])


def test_source_files_are_compared_by_name_and_not_by_folder() -> None:
    one, other = (
        SideFacts(
            entries={
                PartName.SOURCE: {f"/tmp/{folder}/train.py": digest * 64, f"/tmp/{folder}/m.py": "c" * 64}
            }
        )
        for folder, digest in (("x", "a"), ("y", "b"))
    )

    found = list(program_differences(one, other, commands=True))

    assert [(fact.name, fact.here) for fact in found] == [("source train.py", "aaaaaaaa…")]


def test_a_cpu_quota_and_a_slow_rank_are_factors_of_their_own() -> None:
    quota = replace(BUSY, quota_stop=0.5)
    ranks = replace(BUSY, rank_wait=0.4)
    plain = replace(BUSY, quota_stop=0.0, rank_wait=0.0)

    assert first(explained(side("here", 100, quota), side("there", 200, plain))).axis == OwnCause.CPU_QUOTA
    assert first(explained(side("here", 100, ranks), side("there", 166, plain))).axis == OwnCause.RANK_WAIT


def test_a_lower_clock_limits_what_it_explains_and_names_the_power_limit() -> None:
    capped = MachineUse(
        clock_mhz=1200, power_w=350, power_limit_w=350, power_limited=1.0, gpu_busy=1.0, data_wait=0.0
    )
    free = replace(capped, clock_mhz=1800, power_w=600, power_limit_w=700, power_limited=0.0)

    explanation = explained(side("here", 100, capped, on_gpu=True), side("there", 140, free, on_gpu=True))

    found = first(explanation)
    assert (found.axis, found.basis) == (OwnCause.GPU_CLOCK, Basis.PHYSICS)
    assert found.here.value == "1200 MHz, 350 of 350 W, at the power limit in 100% of the samples"
    assert (found.low, found.high) == (1.0, 1.5)
    assert [factor.name for factor in explanation.factors] == ["open"]
    (candidate,) = explanation.factors[0].candidates
    assert (candidate.name, candidate.high) == (OwnCause.GPU_CLOCK, 1.5)


def test_an_idle_gpu_is_a_factor_only_if_no_recipe_may_cause_it() -> None:
    idle = MachineUse(gpu_busy=0.5, data_wait=0.0)
    here, there = (
        side("here", 100, idle, on_gpu=True),
        side("there", 190, replace(idle, gpu_busy=0.95), on_gpu=True),
    )
    compiled = replace(there, recipe=StatedRecipe({RecipeAxis.COMPILER: Reading("inductor", "case")}))
    eager = replace(here, recipe=StatedRecipe({RecipeAxis.COMPILER: Reading("none", "case")}))

    found = first(explained(here, there))
    assert found.basis is Basis.OWN
    assert (found.low, found.high) == pytest.approx((1.9 * 0.993, 1.9 * 1.007), rel=1e-3)
    idle_time = next(d for d in explained(eager, compiled).differences if d.axis == OwnCause.GPU_IDLE)
    assert idle_time.basis is Basis.BOUNDED


def test_the_idle_time_of_several_runs_has_an_interval_over_them() -> None:
    idle = [MachineUse(gpu_busy=share, data_wait=0.0) for share in (0.47, 0.5, 0.53)]
    busy = 3 * [MachineUse(gpu_busy=0.95, data_wait=0.0)]

    found = first(explained(side("here", 100, *idle, on_gpu=True), side("there", 190, *busy, on_gpu=True)))

    assert found.axis == OwnCause.GPU_IDLE
    # Student's t of two degrees of freedom on three logarithms.
    logs = [math.log(share) for share in (0.47, 0.5, 0.53)]
    width = 4.303 * stdev(logs) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((1.9 * math.exp(-width), 1.9 * math.exp(width)), rel=1e-3)


def test_the_only_difference_left_is_what_is_open_and_no_more() -> None:
    batch: dict[str, AxisValue] = {Condition.BATCH_PER_DEVICE: 4}
    here = side("here", 100, BUSY, recipe=batch, noise=0.01)
    there = side("there", 180, BUSY, recipe={Condition.BATCH_PER_DEVICE: 64}, noise=0.01)

    explanation = explained(here, there)

    found = first(explanation)
    assert (found.axis, found.basis) == (Condition.BATCH_PER_DEVICE, Basis.REMAINDER)
    assert found.low == pytest.approx(1.8 * math.exp(-math.hypot(0.01, 0.01)))
    assert [factor.name for factor in explanation.factors] == ["open"]
    assert "100%" not in render_text(explanation).replace("0% to 100%", "")


def test_two_cases_of_one_result_that_differ_in_one_axis_measure_it() -> None:
    here = side("here", 100, BUSY, recipe={"layout": "nchw"}, campaign="/results/a")
    there = side("there", 150, BUSY, recipe={"layout": "nhwc"}, campaign="/results/a")

    explanation = explained(here, there)

    assert [factor.name for factor in explanation.factors] == ["layout", "open"]
    assert explanation.factors[0].evidence is FactorEvidence.MEASURED
    assert explanation.factors[0].value == pytest.approx(1.5)
    assert explanation.factors[1].value == pytest.approx(1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"unrepeated": "has one run"},
        {"hosts": frozenset({"b"})},
        {"period": (datetime(2026, 11, 25, 8), datetime(2026, 11, 25, 9))},
    ],
)
def test_cases_of_one_result_whose_runs_did_not_take_turns_measure_nothing(changes: dict[str, Any]) -> None:
    today = datetime(2026, 11, 24, 8), datetime(2026, 11, 24, 9)
    here = side("here", 100, BUSY, recipe={"layout": "nchw"}, campaign="/results/a")
    there = side("there", 105, BUSY, recipe={"layout": "nhwc"}, campaign="/results/a")
    here, there = (
        replace(one, facts=replace(one.facts, hosts=frozenset({"a"}), period=today)) for one in (here, there)
    )
    assert first(explained(here, there)).basis is Basis.OWN
    of_run = {name: value for name, value in changes.items() if name == "unrepeated"}
    of_facts = {name: value for name, value in changes.items() if name not in of_run}
    there = replace(there, facts=replace(there.facts, **of_facts), **of_run)

    found = explained(here, there)

    assert (first(found).basis, first(found).share) == (Basis.REMAINDER, (0.0, 1.0))
    assert [factor.name for factor in found.factors] == ["open"]
    text = render_text(found)
    assert "measured here" not in text
    assert ("there has one run: how far another run would differ is unknown" in text) is bool(of_run)


def test_two_differences_of_unknown_effect_stay_open_with_both_as_candidates() -> None:
    here = side("here", 100, BUSY, recipe={"a": 1, "b": 2})
    there = side("there", 150, BUSY, recipe={"a": 3, "b": 4})

    (rest,) = explained(here, there).factors

    assert rest.evidence is FactorEvidence.UNKNOWN
    assert {candidate.name for candidate in rest.candidates} == {"a", "b"}


def test_packages_variables_and_words_of_commands_are_compared() -> None:
    here = SideFacts(
        entries={
            PartName.PACKAGES: {"torch": "2.1", "numpy": "1.26"},
            PartName.VARIABLES: {"OMP_NUM_THREADS": "1"},
            PartName.COMMANDS: {"node 0": "python train.py --batch 4 --fast", "node 0 variable A": "1"},
        }
    )
    there = SideFacts(
        entries={
            PartName.PACKAGES: {"torch": "2.11", "numpy": "1.26"},
            PartName.VARIABLES: {},
            PartName.COMMANDS: {"node 0": "python train.py --batch 64", "node 0 variable A": "2"},
        }
    )

    found = {one.name: (one.here, one.there) for one in program_differences(here, there, commands=True)}

    assert found == {
        "package torch": ("2.1", "2.11"),
        "variable OMP_NUM_THREADS": ("1", "none"),
        "command --batch": ("4", "64"),
        "command --fast": ("given", "not given"),
        "command variable A": ("1", "2"),
    }
    alone = {one.name for one in program_differences(here, there, commands=False)}
    assert alone == {"package torch", "variable OMP_NUM_THREADS"}


def test_a_variable_that_differs_on_every_node_is_one_difference() -> None:
    def on_two_nodes(first: str, second: str) -> SideFacts:
        return SideFacts(
            entries={PartName.VARIABLES: {"node 0 KMP_BLOCKTIME": first, "node 1 KMP_BLOCKTIME": second}}
        )

    (found,) = program_differences(on_two_nodes("0", "0"), on_two_nodes("9", "9"), commands=True)
    assert (found.name, found.here, found.there) == ("variable KMP_BLOCKTIME", "0", "9")
    (found,) = program_differences(on_two_nodes("0", "0"), on_two_nodes("0", "9"), commands=True)
    assert (found.name, found.here, found.there) == ("variable node 1 KMP_BLOCKTIME", "0", "9")


def test_packages_and_source_of_two_frameworks_are_one_difference_each() -> None:
    packages = ({"torch": "2.11", "numpy": "1.26"}, {"jax": "0.10", "flax": "0.12", "numpy": "2.0"})
    sources = ({"pytorch/backend.py": "a"}, {"jax/backend.py": "b"})
    sides = [
        side(
            framework,
            100 * (number + 1),
            BUSY,
            recipe={Condition.FRAMEWORK: framework},
            entries={PartName.PACKAGES: packages[number], PartName.SOURCE: sources[number]},
        )
        for number, framework in enumerate(("pytorch", "jax"))
    ]

    found = explained(*sides).differences

    programs = {
        one.axis: (one.here.value, one.there.value) for one in found if one.of is DifferenceOf.PROGRAM
    }
    assert programs == {
        "packages of another framework": ("2 entries", "3 entries"),
        "source of another framework": ("1 entries", "1 entries"),
    }


def test_the_same_evidence_is_printed_once() -> None:
    layouts = ({"layout": "nchw"}, {"layout": "nhwc"})
    here, there = (side(name, 100, BUSY, recipe=recipe) for name, recipe in zip("ab", layouts, strict=True))
    printed = render_text(explain(here, side_of_run(replace(there, throughput=150)), load_effects(), ()))

    sources = [line for line in printed.splitlines() if "evidence  claimed x1.30" in line]
    assert len(sources) == 1


def test_a_number_of_threads_is_limited_by_the_cpus_in_use() -> None:
    one_thread = {PartName.VARIABLES: {"OMP_NUM_THREADS": "1"}}
    here = side("here", 100, replace(BUSY, cores=1.0), entries=one_thread)
    there = side("there", 170, BUSY, entries={PartName.VARIABLES: {"OMP_NUM_THREADS": "2"}})

    found = first(explained(here, there))

    assert (found.axis, found.of) == ("variable OMP_NUM_THREADS", DifferenceOf.PROGRAM)
    assert found.low is not None
    assert found.low <= 1.7 <= (found.high or 0.0)


def test_arithmetic_limits_devices_precision_and_device() -> None:
    def recipe(**values: AxisValue) -> StatedRecipe:
        return StatedRecipe({axis: Reading(value, "case") for axis, value in values.items()})

    devices = physical_limit(Condition.DEVICES, recipe(devices=2), recipe(devices=8), None)
    precision = physical_limit(
        Condition.PRECISION, recipe(precision="amp-bf16"), recipe(precision="amp-fp8"), "H100"
    )
    unknown = physical_limit(Condition.PRECISION, recipe(precision="amp-bf16"), recipe(precision="x"), "H100")

    assert devices is not None
    assert (devices.low, devices.high) == (4.0, 4.0)
    assert precision is not None
    assert (precision.low, precision.high) == pytest.approx((1.0, 2.0), rel=1e-2)
    assert unknown is None


def case_with(options: Mapping[str, Any], reported: Mapping[str, Any]) -> ExplainedRun:
    """Return a recorded case whose options and reported parameters are changed, and whose data is real."""
    results = read_results(H200 / "results.json")
    case = results.cases[0]
    runs = []
    for run in case.runs:
        known = run.parameters.reported()
        optimizer = known["optimizer"] | {
            name.partition(".")[2]: value for name, value in reported.items() if "." in name
        }
        plain = {name: value for name, value in reported.items() if "." not in name}
        parameters = Parameters.of({**known, "data": "pictures", **plain, "optimizer": optimizer})
        runs.append(run.model_copy(update={"parameters": parameters}))
    changed = case.case.model_copy(update={"options": dict(options), "data": "pictures"})
    found = case.model_copy(update={"case": changed, "settled": changed, "runs": tuple(runs)})
    return run_from_case(results, found, str(options))


def stored_side(
    folder: Path, name: str, *, batch: int, kernel: str, torch: str, clock_mhz: float
) -> ExplainedRun:
    """Return a recorded case whose axis, machine, packages and telemetry are as given."""
    results = read_results(H200 / "results.json")
    case = next(case for case in results.cases if case.id == AMP)
    packages = Entries(name=PartName.PACKAGES, word=torch, entries={"torch": torch, "numpy": "2.0"})
    (folder / "identity").mkdir(parents=True)
    (folder / "identity" / packages.part.entries_file).write_text(packages.model_dump_json())
    manifests = dict(results.manifests)
    runs = []
    for run in case.runs:
        manifest = manifests[run.manifest or ""]
        assert isinstance(manifest, Manifest)
        node = manifest.nodes[0]
        os = replace(node.os, kernel=kernel)
        manifests[run.manifest or ""] = Manifest(
            nodes=(node.model_copy(update={"os": os, "hostname": name}),)
        )
        gpus = tuple(gpu.model_copy(update={"sm_clock_mhz_mean": clock_mhz}) for gpu in run.telemetry[0].gpus)
        telemetry = (run.telemetry[0].model_copy(update={"gpus": gpus}),)
        parameters = Parameters.of({**run.parameters.reported(), "batch_per_device": batch})
        identity = Identity.of((packages.part,))
        changes = {"telemetry": telemetry, "parameters": parameters, "identity": identity}
        runs.append(run.model_copy(update=changes))
    changed = case.case.model_copy(update={"batch_per_device": batch})
    found = case.model_copy(update={"case": changed, "settled": changed, "runs": tuple(runs)})
    whole = results.model_copy(update={"manifests": manifests})
    return run_from_case(whole, found, name, folder)


def test_a_case_of_one_run_has_the_noise_of_its_records(bench: Bench) -> None:
    bench.write(protocol={"name": "adaptive", "steps": 40, "warmup_steps": 2, "repeats": 1})
    (case,) = (results := bench.run()).cases

    noise = run_from_case(results, case, "here", bench.out).noise

    assert noise > 0
    assert noise == run_from_log(bench.out / case.runs[0].directory).noise
    assert run_from_case(results, case, "here").noise == 0


def test_recipes_environments_telemetry_and_records_of_two_results_are_compared(tmp_path: Path) -> None:
    here = stored_side(tmp_path / "a", "here", batch=256, kernel="6.1", torch="2.10", clock_mhz=1200.0)
    there = stored_side(tmp_path / "b", "there", batch=128, kernel="6.18", torch="2.11", clock_mhz=1800.0)
    here = replace(here, data_wait=0.4)

    found = {
        (one.of, one.axis): (one.here.value, one.there.value) for one in explained(here, there).differences
    }

    assert found.pop((DifferenceOf.RECORDS, OwnCause.DATA_WAIT))[0] == "40.0% of a step"
    assert str(found.pop((DifferenceOf.RECORDS, OwnCause.GPU_CLOCK))[0]).startswith("1200 MHz")
    assert found == {
        (DifferenceOf.RECIPE, Condition.BATCH_PER_DEVICE): (256, 128),
        (DifferenceOf.PROGRAM, "package torch"): ("2.10", "2.11"),
        (DifferenceOf.MACHINE, "machine os.kernel"): ("6.1", "6.18"),
    }


@pytest.mark.parametrize(
    ("option", "setting", "values", "axis"),
    [
        ("loader_workers", "loader_workers", (2, 14), RecipeAxis.WORKERS),
        ("schedule", "optimizer.schedule", ("step", "cosine"), RecipeAxis.LR_SCHEDULE),
        ("momentum", "optimizer.momentum", (0.5, 0.9), RecipeAxis.MOMENTUM),
    ],
)
def test_an_option_that_the_run_reports_is_one_difference(
    option: str, setting: str, values: tuple[AxisValue, AxisValue], axis: RecipeAxis
) -> None:
    here, there = (case_with({option: value}, {setting: value}) for value in values)

    differences = explained(here, there).differences

    assert [(one.axis, one.here.value, one.there.value) for one in differences] == [(axis, *values)]


def test_an_option_that_the_program_did_not_follow_remains_a_difference() -> None:
    here, there = (case_with({"loader_workers": value}, {"loader_workers": 8}) for value in (2, 14))

    assert [one.axis for one in explained(here, there).differences] == ["loader_workers"]


class TestTheVerb:
    def test_cases_of_a_result_are_sides(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", f"{H200}#{FP32}", "--against", f"{H200}#{AMP}"]) == 0

        printed = capsys.readouterr().out
        assert "1. precision: fp32 here, amp-fp16 there" in printed
        assert "precision  x5.759 [5.739, 5.779]; measured here" in printed

    def test_a_case_is_set_against_a_published_figure_and_the_other_way_round(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        figure = "ngc-pytorch-resnet50-a100-80gb-amp-1gpu"

        assert main(["explain", f"{H200}#{NCHW}", "--against", figure]) == 0
        assert "there  ngc-pytorch-resnet50-a100-80gb-amp-1gpu: 2470 images/s" in capsys.readouterr().out
        assert main(["explain", figure, "--against", f"{H200}#{NCHW}"]) == 0
        assert "The other run is 1.250 times as fast." in capsys.readouterr().out

    def test_a_result_of_several_cases_asks_for_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", str(H200), "--against", f"{H200}#{AMP}"]) == 2
        assert "add #CASE, its id or axis=value, to choose one" in capsys.readouterr().err

    def test_a_word_that_names_nothing_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "no/such.log", "--against", f"{H200}#{AMP}"]) == 2
        assert "no such log file, result directory or published figure" in capsys.readouterr().err
        assert main(["explain", f"{H200}#{AMP}", "--against", "ngc-pytorch-resnet50-a100-80gb-amp-2gpu"]) == 2
        assert "did you mean" in capsys.readouterr().err


def test_the_document_has_the_factors_with_their_candidates() -> None:
    document = to_document(
        explained(
            side("here", 100, BUSY, recipe={"a": 1, "b": 1}),
            side("there", 150, BUSY, recipe={"a": 2, "b": 2}),
        )
    )

    (rest,) = document["factors"]
    assert rest["name"] == "open"
    assert rest["candidates"] == [{"name": "a", "at_most": None}, {"name": "b", "at_most": None}]


def test_results_of_two_units_are_refused() -> None:
    other = replace(side("there", 150, BUSY), unit="tokens/s")

    with pytest.raises(InputError, match=r"here is in samples/s, but there is in tokens/s"):
        explained(side("here", 100, BUSY), other)
    assert read_results(H200 / "results.json").cases
