"""Joules for a unit of work: by all counters of a run's devices, or not at all."""

import json
from pathlib import Path

import pytest

from trainmark.insight import compare, find
from trainmark.insight.bound import bound_facts
from trainmark.measure.energy import (
    energy_finding,
    energy_of,
    gpus_of,
    joules_text,
    sampled_gpus,
    unit_of_work,
    working_gpus,
)
from trainmark.node.telemetry import PackageEnergy
from trainmark.node.telemetry_summary import summarise
from trainmark.report import Language, render_csv, render_markdown, render_runs_csv
from trainmark.report.comparison import render_comparison
from trainmark.schema.case import Case
from trainmark.schema.energy import EnergySource, EnergyUse
from trainmark.schema.manifest import Manifest
from trainmark.schema.results import Results
from trainmark.schema.telemetry import POWER_LIMIT, GpuSummary, TelemetrySummary
from trainmark.store import read_results

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200" / "results.json"


def gpu(index: int, energy_j: float | None, busy: float = 1.0) -> GpuSummary:
    return GpuSummary(
        index=index,
        uuid=None,
        name=None,
        sm_clock_mhz_mean=None,
        sm_clock_mhz_min=None,
        power_w_mean=None,
        power_w_max=None,
        temperature_c_max=None,
        utilisation_mean=busy,
        memory_used_bytes_max=None,
        throttled_share=None,
        reason_shares={},
        foreign_pids=(),
        unseen_processes_max=None,
        energy_j=energy_j,
    )


def node(*gpus: GpuSummary, cpu_energy_j: float | None = None, number: int = 0) -> TelemetrySummary:
    return TelemetrySummary(
        node=number, samples=100, seconds=10.0, covered_s=10.0, gpus=gpus, cpu_energy_j=cpu_energy_j
    )


@pytest.fixture(scope="module")
def results() -> Results:
    return read_results(H200)


def use(results: Results, *nodes: TelemetrySummary, device: str = "cuda", **axes: object) -> EnergyUse | None:
    measurement = results.cases[0].runs[0].measurement
    assert measurement is not None
    case = Case.model_validate({"model": "resnet50_v1.5", "batch_per_device": 8, **axes})
    return energy_of(case, device, measurement.model_copy(update={"throughput": 500.0}), nodes, None)


def test_power_over_throughput_is_the_energy_of_an_image(results: Results) -> None:
    found = use(results, node(gpu(0, 5000.0)))

    assert found is not None
    assert (found.source, found.devices, found.unit) == (EnergySource.GPUS, 1, "image")
    assert (found.watts, found.per_unit_j) == (500.0, 1.0)


def test_all_gpus_of_all_nodes_count_and_idle_ones_do_not(results: Results) -> None:
    one = node(gpu(0, 5000.0), gpu(1, 3000.0), gpu(2, 900.0, busy=0.0))
    other = node(gpu(0, 2000.0), number=1)

    found = use(results, one, other, nodes=2, devices_per_node=2)

    assert found is not None
    assert (found.watts, found.devices) == (1000.0, 3)


@pytest.mark.parametrize(
    "nodes",
    [
        (node(gpu(0, None)),),
        (node(gpu(0, 5000.0), gpu(1, None)),),
        (),
        (node(gpu(0, 5000.0, busy=0.0), cpu_energy_j=900.0),),
    ],
)
def test_a_missing_counter_gives_no_energy(results: Results, nodes: tuple[TelemetrySummary, ...]) -> None:
    assert use(results, *nodes) is None


def test_processors_count_for_a_run_on_cpus(results: Results) -> None:
    found = use(results, node(gpu(0, 5000.0), cpu_energy_j=1000.0), device="cpu")

    assert found is not None
    assert (found.source, found.watts) == (EnergySource.CPU_PACKAGES, 100.0)
    assert use(results, node(), device="cpu") is None


def line(at: float, joules: float | None) -> str:
    sample = {
        "monotonic_s": at,
        "wall_s": at,
        "interval_s": 1.0,
        "processes": 1,
        "cpu": {"busy": 0.5, "tree": 0.5, "own": 0.0, "other": 0.0},
        "memory": {"tree_rss_bytes": 1, "tree_pss_bytes": None, "available_bytes": None},
        "gpus": [],
        **({} if joules is None else {"cpu_energy_j": joules}),
    }
    return json.dumps(sample) + "\n"


@pytest.mark.parametrize(
    ("joules", "expected"),
    [
        ([100.0 * second for second in range(11)], 600.0),
        # A counter that starts again in the window, and one that does so long before it.
        ([*(100.0 * second for second in range(5)), *(100.0 * second for second in range(6))], None),
        ([900.0, *(100.0 * second for second in range(10))], 600.0),
        ([None] * 11, None),
    ],
)
def test_a_counter_that_resets_in_the_window_gives_none(
    tmp_path: Path, joules: list[float | None], expected: float | None
) -> None:
    path = tmp_path / "telemetry.jsonl"
    header = {"schema_version": 1, "pid": 1, "interval_s": 1.0, "cpus": 2, "gpus": []}
    path.write_text(json.dumps(header) + "\n" + "".join(line(at, found) for at, found in enumerate(joules)))

    assert summarise(path, (3.0, 9.0)).cpu_energy_j == expected


def test_the_kernels_counters_of_packages_are_summed(tmp_path: Path) -> None:
    for zone, name, value in (
        ("intel-rapl:0", "package-0", "5000000\n"),
        ("intel-rapl:0:0", "core", "1000000\n"),
        ("intel-rapl:1", "package-1", "7000000\n"),
        ("intel-rapl:2", "psys", "9000000\n"),
    ):
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "name").write_text(name + "\n")
        (tmp_path / zone / "energy_uj").write_text(value)

    energy = PackageEnergy(tmp_path)

    assert energy.read_j() == 12.0
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("")
    assert energy.read_j() is None
    assert PackageEnergy(tmp_path / "none").read_j() is None


def with_energy(results: Results, per_unit_j: float | None) -> Results:
    """Return the first case with so many joules a unit in its first run, and a little more in each other one."""
    case = results.cases[0]
    runs = tuple(
        run.model_copy(
            update={
                "energy": None
                if per_unit_j is None
                else EnergyUse(
                    source=EnergySource.GPUS,
                    joules=5000.0,
                    watts=500.0,
                    per_unit_j=per_unit_j * (1 + 0.001 * run.repeat),
                    unit="image",
                    devices=1,
                )
            }
        )
        for run in case.runs
    )
    changed = results.model_copy(
        update={"cases": (case.model_copy(update={"runs": runs}),), "findings": None}
    )
    return changed.model_copy(update={"findings": find(changed)})


def test_results_report_and_tables_have_the_energy(results: Results, tmp_path: Path) -> None:
    found = with_energy(results, 0.25)

    assert found.findings is not None
    (energy,) = found.findings.energy
    assert energy.per_unit_j == pytest.approx(0.25, rel=0.01)
    assert energy.interval is not None
    assert Results.model_validate_json(found.model_dump_json()).findings == found.findings
    page = render_markdown(found, tmp_path)
    assert "## Energy" in page
    assert "mJ / image" in page
    assert "1 GPUs, by NVML" in page
    assert "能耗" in render_markdown(found, tmp_path, Language.ZH)
    assert "energy_j_per_unit" in render_csv(found)
    assert ",500.0,gpus" in render_runs_csv(found)
    assert "## Energy" not in render_markdown(with_energy(results, None), tmp_path)


def test_compare_has_the_ratio_of_the_joules(results: Results) -> None:
    found = compare([with_energy(results, 0.2)], with_energy(results, 0.3), ["a", "b"])

    energy = found.cases[0].energy
    assert energy is not None
    assert energy.ratio.value == pytest.approx(1.5)
    assert energy.ratio.interval is not None
    text = render_comparison(found)
    assert "mJ for each image (GPUs), ratio 1.500 [" in text
    assert compare([with_energy(results, None)], with_energy(results, 0.3)).cases[0].energy is None


def test_one_run_without_a_counter_takes_the_cases_energy() -> None:
    one = EnergyUse(source=EnergySource.GPUS, joules=1.0, watts=1.0, per_unit_j=1.0, unit="token", devices=1)

    assert energy_finding("case", [one, None]) is None
    assert energy_finding("case", []) is None
    alone = energy_finding("case", [one])
    assert alone is not None
    assert alone.interval is None


def test_words_of_units_and_joules() -> None:
    assert [unit_of_work(unit) for unit in ("images/s", "tokens/s", "steps/s", "s/s")] == [
        "image",
        "token",
        "step",
        "s",
    ]
    assert [joules_text(joules) for joules in (1234.0, 12.0, 0.0123, 4.5e-6)] == [
        "1.234 kJ",
        "12 J",
        "12.3 mJ",
        "4.5 µJ",
    ]


@pytest.mark.parametrize(
    ("indexes", "sampled", "used"),
    [
        (None, (0, 1), (0, 1)),
        ((0,), (0, 1), (0,)),
        ((0,), (3,), (3,)),
        ((0, 1), (0, 1, 2), (0, 1)),
        ((), (0,), ()),
        ((), (0, 1), ()),
        ((0,), (), ()),
    ],
)
def test_the_gpus_of_a_run_are_chosen_by_one_rule(
    indexes: tuple[int, ...] | None, sampled: tuple[int, ...], used: tuple[int, ...]
) -> None:
    found = node(*(gpu(index, 1.0) for index in sampled))

    assert tuple(one.index for one in sampled_gpus(found, indexes)) == used
    idle = node(*(gpu(index, 1.0, busy=0.0) for index in sampled))
    assert working_gpus(idle, indexes) == ()


def test_of_unknown_gpus_those_with_processes_of_the_run_are_used() -> None:
    busy = [gpu(index, 1.0).model_copy(update={"run_processes_max": int(index > 1)}) for index in range(4)]
    found = node(*busy)

    assert [one.index for one in sampled_gpus(found, None)] == [2, 3]
    assert [one.index for one in sampled_gpus(found, (0,))] == [0]


def test_energy_gates_bound_and_findings_agree_on_the_only_gpu_of_a_node(results: Results) -> None:
    only = node(
        gpu(3, 5000.0).model_copy(update={"throttled_share": 0.0, "reason_shares": {POWER_LIMIT: 1.0}})
    )
    case = results.cases[0].case
    run = results.cases[0].runs[0].model_copy(update={"telemetry": (only,)})
    manifest = results.manifests[run.manifest or ""]
    assert isinstance(manifest, Manifest)
    assert gpus_of(case, manifest) == (0,)

    energy = energy_of(case, "cuda", run.measurement, (only,), manifest)
    assert energy is not None
    assert energy.devices == 1
    assert [used.summary.index for used in bound_facts(case, run, manifest).gpus] == [3]
    found = results.cases[0].model_copy(update={"runs": (run,)})
    (power,) = find(results.model_copy(update={"cases": (found,)})).power
    assert power.share == 1.0
