"""The cause that limits a run: each from planted facts and from recorded runs, and none without facts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainmark.insight import judged
from trainmark.insight.bound import BoundFacts, UsedGpu, bound_line, bound_table, judge_bound, stored_bound
from trainmark.schema.ranks import AllReduce, RankComparison, RankSpeed, RankTime, RankTimes
from trainmark.schema.results import Bound
from trainmark.schema.telemetry import POWER_LIMIT, GpuSummary, TelemetrySummary
from trainmark.store import read_results

RESULTS = Path(__file__).parents[2] / "docs" / "results"

GPU = GpuSummary(
    index=0,
    uuid=None,
    name="NVIDIA H100 80GB HBM3",
    sm_clock_mhz_mean=1905.0,
    sm_clock_mhz_min=1905,
    power_w_mean=612.0,
    power_w_max=640.0,
    temperature_c_max=60,
    utilisation_mean=0.99,
    memory_used_bytes_max=None,
    throttled_share=0.0,
    reason_shares={},
    foreign_pids=(),
    unseen_processes_max=None,
    memory_utilisation_mean=0.4,
)
NODE = TelemetrySummary(
    samples=40, cpu_tree_mean=0.98, cpu_other_mean=0.0, cpus=2, busy_cpus=2, cpu_wait_mean=0.0
)


def on_gpu(**changes: Any) -> BoundFacts:
    """Return the facts of a run on one GPU that is busy and uses 38 % of its peak."""
    gpu = UsedGpu(
        GPU.model_copy(
            update={key: changes.pop(key) for key in list(changes) if key in GpuSummary.model_fields}
        ),
        power_limit_w=700.0,
        max_clock_mhz=1980,
    )
    return replace(BoundFacts(on_gpu=True, data_wait=0.004, mfu=0.38, gpus=(gpu,), nodes=(NODE,)), **changes)


def on_cpu(*nodes: dict[str, Any], **changes: Any) -> BoundFacts:
    """Return the facts of a run on CPUs whose nodes differ from a busy one."""
    found = tuple(NODE.model_copy(update=node) for node in nodes) or (NODE,)
    return replace(BoundFacts(data_wait=0.0, nodes=found), **changes)


def ranks(waits: float | None = 0.0, exchange: float = 0.02, passes: float | None = 0.095) -> RankTimes:
    """Return the times of two ranks; a step takes 0.1 s."""
    return RankTimes(
        ranks=tuple(
            RankTime(rank=rank, node=0, host=None, began_s=0, error_s=0, window_s=10, pass_s=passes)
            for rank in range(2)
        ),
        slowest=None if waits is None else 1,
        slower_by=None if waits is None else 0.5,
        waits=waits,
        all_reduce=AllReduce(bytes=2**20, seconds=exchange / 10, share=exchange),
    )


def test_a_pass_that_was_disturbed_after_the_window_says_nothing_about_the_exchange() -> None:
    found = judge_bound(on_cpu(devices=2, step_s=0.1, ranks=ranks(waits=None, exchange=0.3, passes=0.2)))
    sentences = {check.evidence: (check.share, check.sentence) for check in found.checks}
    assert sentences["rank-wait"][0] is None
    assert "takes longer after the window than a whole step in it" in sentences["rank-wait"][1]
    assert sentences["gradient-exchange"][0] is None
    assert found.bound is Bound.UNKNOWN


@pytest.mark.parametrize(
    ("facts", "bound"),
    [
        (on_gpu(), Bound.COMPUTE),
        (on_gpu(data_wait=0.58, utilisation_mean=0.41), Bound.DATA),
        (on_gpu(utilisation_mean=0.55), Bound.HOST),
        (on_gpu(utilisation_mean=0.55, data_wait=None), Bound.HOST),
        (on_gpu(sm_clock_mhz_mean=1670.0, reason_shares={POWER_LIMIT: 1.0}), Bound.POWER),
        (on_gpu(sm_clock_mhz_mean=1950.0, reason_shares={POWER_LIMIT: 1.0}), Bound.COMPUTE),
        (on_gpu(mfu=0.05, roofline=0.7), Bound.MEMORY),
        (on_gpu(mfu=0.6, roofline=0.8), Bound.COMPUTE),
        (on_gpu(mfu=None, memory_utilisation_mean=0.93), Bound.MEMORY),
        (on_gpu(mfu=None), Bound.UNKNOWN),
        (on_gpu(utilisation_mean=None), Bound.UNKNOWN),
        (on_gpu(devices=2, ranks=ranks(waits=0.42), step_s=0.1), Bound.COMMUNICATION),
        (on_gpu(devices=2, ranks=ranks(exchange=0.5, passes=0.06), step_s=0.1), Bound.COMMUNICATION),
        (on_gpu(devices=2, ranks=ranks(exchange=0.5), step_s=0.1), Bound.COMPUTE),
        (on_gpu(devices=2, ranks=ranks(waits=None, exchange=0.5, passes=None)), Bound.UNKNOWN),
        (on_gpu(devices=2), Bound.UNKNOWN),
        (on_gpu(devices=2, mfu=0.55), Bound.COMPUTE),
        (on_cpu(), Bound.COMPUTE),
        (on_cpu(data_wait=0.3), Bound.DATA),
        (on_cpu({"cpu_tree_mean": 0.5, "busy_cpus": 1}), Bound.HOST),
        (on_cpu({"cpu_tree_mean": 0.5}), Bound.COMPUTE),
        (on_cpu({"cpu_tree_mean": 0.3}), Bound.UNKNOWN),
        (on_cpu({"cpu_tree_mean": 0.5, "cpu_other_mean": 0.5, "cpu_wait_mean": 0.48}), Bound.HOST),
        (on_cpu({"cpu_tree_mean": 0.5, "cpu_other_mean": 0.5, "cpu_wait_mean": 0.02}), Bound.COMPUTE),
        (on_cpu({"cpu_tree_mean": 0.5, "cpu_other_mean": 0.5, "cpu_wait_mean": None}), Bound.HOST),
        (on_cpu({"cpu_tree_mean": 0.5, "cpu_other_mean": 0.3, "cpu_wait_mean": None}), Bound.COMPUTE),
        (on_cpu(devices=2), Bound.UNKNOWN),
        (on_cpu(devices=2, ranks=ranks(), step_s=0.1), Bound.COMPUTE),
        (BoundFacts(), Bound.UNKNOWN),
        (BoundFacts(on_gpu=True, data_wait=0.0, mfu=0.5), Bound.UNKNOWN),
        (BoundFacts(data_wait=0.8), Bound.DATA),
    ],
)
def test_each_cause_is_named_from_its_facts(facts: BoundFacts, bound: Bound) -> None:
    assert judge_bound(facts).bound is bound


def test_of_two_stalls_the_longer_one_is_the_cause() -> None:
    starved = {"cpu_tree_mean": 0.3, "cpu_other_mean": 0.7, "cpu_wait_mean": 0.2}
    assert judge_bound(on_cpu(starved, data_wait=0.6)).bound is Bound.DATA
    assert judge_bound(on_cpu(starved | {"cpu_wait_mean": 0.7}, data_wait=0.2)).bound is Bound.HOST


def test_a_fact_that_is_missing_is_named_with_the_way_to_get_it() -> None:
    found = judge_bound(BoundFacts(unsampled="no telemetry was recorded"))
    assert (found.bound, found.share) == (Bound.UNKNOWN, None)
    assert "not measured: the wait for data" in found.sentence
    assert found.settle is not None
    assert "print the time that it waits for data" in found.settle
    assert {check.share for check in found.checks} == {None}


def test_an_idle_gpu_of_a_program_that_prints_no_wait_for_data_may_wait_for_either() -> None:
    found = judge_bound(on_gpu(utilisation_mean=0.55, data_wait=None))
    assert "launches kernels or loads data" in found.sentence
    assert "print the time" in (found.settle or "")
    known = judge_bound(on_gpu(utilisation_mean=0.55))
    assert known.settle is None
    assert bound_line(known) == (
        "host 45%: GPU busy 55% at 612 W of 700 W, idle while the host launches kernels (data wait 0.4%; MFU 38%; "
        "GPU memory at work 40%)"
    )


def test_the_line_has_the_cause_its_evidence_and_the_other_shares() -> None:
    assert bound_line(judge_bound(on_gpu())) == (
        "compute: the MFU is 38% (data wait 0.4%; GPU busy 99% at 612 W of 700 W; GPU memory at work 40%)"
    )
    assert bound_line(judge_bound(on_gpu(mfu=None, memory_utilisation_mean=0.2))).startswith(
        "not known: the GPU itself, its arithmetic or its memory; data wait 0.4%; GPU busy 99%"
    )


def test_every_threshold_has_a_source_and_every_piece_of_evidence_a_reader() -> None:
    assert all(rule.source and 0 < rule.least < 1 for rule in bound_table())
    assert {
        check.evidence for facts in (on_gpu(roofline=0.5), on_cpu()) for check in judge_bound(facts).checks
    } >= {rule.name for rule in bound_table() if rule.bound is not Bound.COMMUNICATION}
    assert {rule.bound for rule in bound_table()} == set(Bound) - {Bound.UNKNOWN}


@pytest.mark.parametrize(
    ("result", "case", "bound", "sentence"),
    [
        ("h200", "photos-nvjpeg", Bound.DATA, "waits for data in 37% of the window"),
        ("h200", "fp32-b256", Bound.UNKNOWN, "the GPU itself"),
        ("h200-language", "llama3.2_1b", Bound.POWER, "of 1980 MHz"),
        ("h200-language", "gpt2_124m", Bound.POWER, "in 100% of the samples"),
        ("h200-language", "wide_deep", Bound.COMPUTE, "the MFU is 78%"),
        ("h200-scaling", "1n4g-synthetic-nhwc-torch", Bound.POWER, "of 1980 MHz"),
        ("h200-scaling", "1n4g-synthetic-nhwc-none", Bound.UNKNOWN, "not measured: the wait of the ranks"),
        ("frameworks", "mxnet-mobilenet_v1-fp32-b8-1n1g-photos", Bound.DATA, "waits for data in 18%"),
        ("cluster-slurm-pytorch", "2n1g", Bound.COMMUNICATION, "wait 91% of a step for rank 1"),
        ("cluster-ssh", "tensorflow-mobilenet_v1-fp32-b4-4n2g", Bound.HOST, "other processes took 80%"),
    ],
)
def test_recorded_runs_of_older_versions_are_judged_when_they_are_read(
    result: str, case: str, bound: Bound, sentence: str
) -> None:
    results = judged(read_results(RESULTS / result / "results.json"))
    assert results.findings is not None
    found = next(one for one in results.findings.bounds if case in one.case)
    assert found.bound is bound
    assert sentence in found.sentence


def test_the_bound_of_a_runs_folder_is_that_of_its_results(tmp_path: Path) -> None:
    stored = read_results(RESULTS / "h200" / "results.json")
    (tmp_path / "results.json").write_bytes((RESULTS / "h200" / "results.json").read_bytes())
    run = next(run for case in stored.cases if "nvjpeg" in case.id for run in case.runs)
    found = stored_bound(tmp_path / run.directory)
    assert found is not None
    assert found.bound is Bound.DATA
    assert stored_bound(tmp_path / "runs" / "no-such-case" / "1") is None
    assert stored_bound(tmp_path) is None


def test_the_page_on_gates_has_the_table() -> None:
    page = (RESULTS.parent / "reference" / "gates.md").read_text(encoding="utf-8")
    for rule in bound_table():
        assert f"| `{rule.name}` | {rule.bound.label} | {rule.least:g} | {rule.of} | {rule.source} |" in page


def logged(*waits: float, slower: float = 0.0) -> RankComparison:
    """Return ranks by their logs; a step takes 0.1 s, and the last rank is the slow one."""
    last = len(waits) - 1
    return RankComparison(
        ranks=tuple(
            RankSpeed(
                rank=rank,
                host="node-b" if rank == last else "node-a",
                log="train.log",
                records=40,
                step_time_s=0.1,
                rate=None,
                data_time_s=wait,
                slower_by=slower if rank == last else 0.0,
                more_data_s=wait - waits[0],
                is_slower=rank == last and slower > 0,
                waits_for_data=wait > waits[0],
            )
            for rank, wait in enumerate(waits)
        ),
        steps=40,
        unit=None,
        findings=(),
        notes=(),
    )


def test_the_rank_that_waits_for_data_holds_up_the_others() -> None:
    found = judge_bound(on_cpu(devices=2, data_wait=0.04, rank_logs=logged(0.004, 0.08)))
    assert (found.bound, found.share) == (Bound.DATA, 0.8)
    assert found.sentence.startswith("rank 1 on node-b waits for data in 80% of a step, 0.076 s longer")


def test_a_rank_that_is_slower_by_its_log_is_what_the_others_wait_for() -> None:
    found = judge_bound(on_cpu(devices=2, rank_logs=logged(0.0, 0.0, slower=0.5)))
    assert found.bound is Bound.COMMUNICATION
    assert "rank 1 on node-b is 50% slower" in found.sentence
    assert judge_bound(on_cpu(devices=2, rank_logs=logged(0.0, 0.0))).bound is Bound.UNKNOWN


def test_a_case_on_several_devices_has_the_rate_of_one() -> None:
    results = judged(read_results(RESULTS / "h200-scaling" / "results.json"))
    assert results.findings is not None
    rates = {one.case: one for one in results.findings.per_device}
    for case in results.cases:
        assert case.estimate is not None
        if case.case.world_size == 1:
            assert case.id not in rates
            continue
        found = rates[case.id]
        assert found.value * case.case.world_size == pytest.approx(case.estimate.median)
        assert (found.low is None) == (case.estimate.interval is None)
