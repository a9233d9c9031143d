"""DLPerf's tables, from the run speeds that they print eight_devices them."""

from pathlib import Path

import pytest

from trainmark.errors import InputError
from trainmark.logs.model import Severity, Status
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import PlacementRow, read_tree, summarise
from trainmark.programs import synthetic_log
from trainmark.report.exchange import dlperf_json, rows_from_tree

# NVIDIA TensorFlow ResNet-50 v1.5, FP32, batch 128 (Oneflow-Inc/DLPerf): the speeds of the runs, in the printed order.
_SPEEDS = {
    "4n8g": [9403.78, 9477.39, 9574.57, 9551.9, 9631.24, 9342.6],
    "1n8g": [2737.81, 2696.33, 2718.0, 2715.18, 2725.96, 2727.71],
    "1n4g": [1391.53, 1393.31, 1392.25, 1390.17, 1391.03, 1389.73],
    "1n1g": [362.05, 362.43, 362.28, 362.78, 362.45, 362.45],
    "2n8g": [5097.79, 5018.54, 5063.02, 5107.27, 5125.81, 5101.06],
}
_PRINTED = {
    "1n1g": (362.41, 362.44, 1.0),
    "1n4g": (1391.34, 1391.28, 3.84),
    "1n8g": (2720.16, 2721.98, 7.51),
    "2n8g": (5085.58, 5099.42, 14.07),
    "4n8g": (9496.91, 9514.64, 26.25),
}


@pytest.mark.parametrize("placement", sorted(_PRINTED))
def test_the_printed_means_medians_and_speedups_are_reproduced_exactly(placement: str) -> None:
    found = summarise(_SPEEDS)[placement]

    assert (found.average_speed, found.median_speed, found.speedup) == _PRINTED[placement]


def test_without_a_baseline_there_is_no_speedup() -> None:
    found = summarise({"1n8g": [2700.0], "1n1g": []})

    assert list(found) == ["1n8g"]
    assert found["1n8g"].speedup is None


def _write(
    folder: Path, place: str, name: str, seconds: float, gpus: int, batch: int = 128, steps: int = 130
) -> None:
    target = folder / place
    target.mkdir(parents=True, exist_ok=True)
    run = SampleRun([seconds] * steps, gpus=gpus, batch_per_device=batch)
    (target / name).write_text(synthetic_log("ngc-tensorflow-convnets", run))


def _row(rows: list[PlacementRow], placement: str, **group: object) -> PlacementRow:
    return next(
        row
        for row in rows
        if row.placement == placement and all(getattr(row.group, k) == v for k, v in group.items())
    )


def test_a_tree_is_read_by_dlperfs_rule_and_compared_with_1n1g(tmp_path: Path) -> None:
    for repeat in range(1, 6):
        _write(tmp_path, "1n1g", f"r50_b128_fp32_{repeat}.log", 0.350 + 0.001 * repeat, 1)
        _write(tmp_path, "1n8g", f"r50_b128_fp32_{repeat}.log", 0.380, 8)

    rows = read_tree(tmp_path)

    single, eight = _row(rows, "1n1g"), _row(rows, "1n8g")
    assert single.summary is not None
    assert single.summary.median_speed == round(128 / 0.353, 2)
    assert eight.summary is not None
    assert eight.summary.speedup == round(round(1024 / 0.380, 2) / round(128 / 0.353, 2), 2)
    assert [repeat for repeat, _ in eight.speeds] == [1, 2, 3, 4, 5]


def test_an_oom_repeat_is_an_outcome_and_not_a_zero(tmp_path: Path) -> None:
    for repeat in (1, 2, 3):
        _write(tmp_path, "1n1g", f"r50_b128_fp32_{repeat}.log", 0.5, 1)
    dead = tmp_path / "1n1g" / "r50_b128_fp32_4.log"
    dead.write_text(
        "Traceback (most recent call last):\nResourceExhaustedError: OOM when allocating tensor\n"
    )

    row = _row(read_tree(tmp_path), "1n1g")

    assert row.summary is not None
    assert row.summary.average_speed == 256.0
    assert row.outcomes == ((4, Status.OOM),)
    assert "repeat-oom" in {problem.code for problem in row.problems}


@pytest.mark.parametrize(
    ("alone", "eight_devices", "speedup"),
    [
        (["Tesla V100-SXM2-32GB"], ["NVIDIA A100-SXM4-40GB"], None),
        (["Tesla V100-SXM2-32GB"], ["Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-40GB"], None),
        (["Tesla V100-SXM2-32GB", "Tesla P100-PCIE-16GB"], [""], None),
        (["Tesla V100-SXM2-32GB"], ["Tesla V100-SXM2-16GB"], None),
        (["A100-SXM4-40GB"], ["NVIDIA A100-SXM4-40GB"], 8.0),
        (["Compute Capability: 7.0"], ["Tesla V100-SXM2-32GB"], 8.0),
        (["Compute Capability: 7.0"], ["NVIDIA A100-SXM4-40GB"], None),
        ([""], ["NVIDIA A100-SXM4-40GB"], 8.0),
    ],
)
def test_a_tree_has_no_speedup_between_different_devices_and_reports_why(
    tmp_path: Path, alone: list[str], eight_devices: list[str], speedup: float | None
) -> None:
    for place, names, gpus in (("1n1g", alone, 1), ("1n8g", eight_devices, 8)):
        for repeat, name in enumerate(names, 1):
            _write(tmp_path, place, f"r50_b128_fp32_{repeat}.log", 0.5, gpus)
            log = tmp_path / place / f"r50_b128_fp32_{repeat}.log"
            log.write_text(f"{name}\n{log.read_text()}")

    rows = read_tree(tmp_path)

    eight = _row(rows, "1n8g")
    assert eight.summary is not None
    assert eight.summary.speedup == speedup
    messages = [problem.message for problem in eight.problems if problem.code == "hardware-differs"]
    assert len(messages) == (speedup is None)
    assert all(name in messages[0] for name in alone + eight_devices if messages and "Compute" not in name)
    assert dlperf_json(rows_from_tree(rows))["r50"]["1n8g"]["speedup"] == speedup


@pytest.mark.parametrize(
    ("program", "amp", "words"),
    [
        ("ngc-tensorflow-convnets", True, ["amp-fp16", "fp32"]),
        ("ngc-pytorch-convnets", False, ["pytorch", "tensorflow"]),
        ("megatron-lm", False, ["pytorch_samples", "tensorflow_images"]),
    ],
)
def test_logs_of_one_name_with_different_precisions_frameworks_or_units_are_separate_groups(
    tmp_path: Path, program: str, amp: bool, words: list[str]
) -> None:
    plain = ("ngc-tensorflow-convnets", False)
    for place, gpus, kinds in (("1n1g", 1, [plain, (program, amp)]), ("1n8g", 8, [(program, amp)])):
        (tmp_path / place).mkdir()
        for repeat, (name, mixed) in enumerate(kinds, 1):
            run = SampleRun([0.5] * 130, gpus=gpus, batch_per_device=128, amp=mixed)
            text = f"Tesla V100-SXM2-32GB\n{synthetic_log(name, run)}"
            (tmp_path / place / f"m_b128_{repeat}.log").write_text(text)

    rows = read_tree(tmp_path)

    assert sorted({row.group.variant for row in rows}) == words
    (one, eight) = [row for row in rows if row.group == _row(rows, "1n8g").group]
    assert one.summary == summarise({"1n1g": [256.0]})["1n1g"]
    assert eight.summary is not None
    assert eight.summary.speedup == 8.0
    document = dlperf_json(rows_from_tree(rows))
    assert [result["1n1g"]["speedup"] for result in document.values()] == [1.0, 1.0]


@pytest.mark.parametrize("dead", [True, False])
def test_a_missing_or_dead_baseline_gives_no_speedup(tmp_path: Path, dead: bool) -> None:
    _write(tmp_path, "1n8g", "r50_b128_fp32_1.log", 0.5, 8)
    if dead:
        (tmp_path / "1n1g").mkdir()
        (tmp_path / "1n1g" / "r50_b128_fp32_1.log").write_text("CUDA out of memory\n")

    row = _row(read_tree(tmp_path), "1n8g")

    assert row.summary is not None
    assert row.summary.speedup is None
    assert "no-baseline" in {problem.code for problem in row.problems}


@pytest.mark.parametrize(
    ("place", "nodes", "gpus"), [("10n8g", 10, 80), ("16n16g", 16, 256), ("2n8g", 2, 16)]
)
def test_placements_with_two_digits_are_read(tmp_path: Path, place: str, nodes: int, gpus: int) -> None:
    _write(tmp_path, place, "r50_b128_fp32_1.log", 0.5, gpus)

    row = _row(read_tree(tmp_path), place)

    assert (row.nodes, row.gpus) == (nodes, gpus)
    assert row.speeds == ((1, 128 * gpus / 0.5),)
    assert not [problem for problem in row.problems if problem.code == "name-contradicts-log"]


def test_batches_and_precisions_in_one_folder_are_separate_groups(tmp_path: Path) -> None:
    _write(tmp_path, "1n1g", "r50_b128_fp32_1.log", 0.5, 1, batch=128)
    _write(tmp_path, "1n1g", "r50_b256_fp32_1.log", 0.5, 1, batch=256)
    _write(tmp_path, "1n1g", "r50_b128_fp16_1.log", 0.25, 1, batch=128)

    rows = read_tree(tmp_path)

    speeds = {(row.group.batch_per_device, row.group.variant): row.speeds for row in rows}
    assert speeds == {
        (128, "fp32"): ((1, 256.0),),
        (256, "fp32"): ((1, 512.0),),
        (128, "fp16"): ((1, 512.0),),
    }


def test_duplicate_repeat_numbers_are_a_problem_and_count_once(tmp_path: Path) -> None:
    _write(tmp_path, "1n1g", "r50_b128_fp32_1.log", 0.5, 1)
    _write(tmp_path, "1n1g", "r50_b128_fp32_01.log", 0.25, 1)

    row = _row(read_tree(tmp_path), "1n1g")

    assert len(row.speeds) == 1
    duplicate = next(problem for problem in row.problems if problem.code == "duplicate-repeat")
    assert duplicate.severity is Severity.DOUBT


def test_a_folder_without_runs_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1n1g"):
        read_tree(tmp_path)
