"""The exchange formats: the database row of document 004 and the result of document 002, field by field."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.reference import Statistic, load_references
from trainmark.report.exchange import (
    FIELDS,
    SpeedRow,
    dlperf_json,
    list_rows,
    load_directions,
    load_missions,
    mission_for,
    paddle_row,
)
from trainmark.tasks import TASKS, published_name

ROW = SpeedRow(
    log="train.log",
    model="MobileNetV1",
    precision="fp32",
    batch_per_device=64,
    devices=8,
    nodes=1,
    speed=1580.1124,
    unit="images/s",
)


def printed_runs() -> list[SpeedRow]:
    """The 30 run speeds that document 002 prints."""
    return [
        SpeedRow(
            figure.id,
            "r50",
            "fp32",
            128,
            figure.devices,
            figure.nodes or 0,
            figure.value,
            figure.unit,
            figure.repeat or 1,
        )
        for figure in load_references()
        if figure.statistic is Statistic.SINGLE_RUN and figure.source.document_id == "002"
    ]


def row(speed: float | None, devices: int = 1, nodes: int = 1, repeat: int = 1, **other: object) -> SpeedRow:
    values: dict[str, object] = {
        "model": "r50",
        "precision": "fp32",
        "batch_per_device": 128,
        "unit": "images/s",
    }
    return SpeedRow(log="x", speed=speed, devices=devices, nodes=nodes, repeat=repeat, **(values | other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("alone", "eight_devices", "speedup"),
    [
        ({"V100"}, {"V100"}, 7.5),
        ({"V100"}, {"A100"}, None),
        ({"V100"}, {"V100", "A100"}, None),
        (set(), {"A100"}, 7.5),
    ],
)
def test_dlperf_has_no_speedup_between_different_hardware(
    alone: set[str], eight_devices: set[str], speedup: float | None
) -> None:
    rows = [
        row(100.0, hardware=frozenset(alone)),
        *(
            row(750.0, devices=8, repeat=n, hardware=frozenset({kind}))
            for n, kind in enumerate(sorted(eight_devices), 1)
        ),
    ]
    assert dlperf_json(rows)["r50"]["1n8g"]["speedup"] == speedup


def test_dlperf_has_no_speedup_of_runs_on_several_machines() -> None:
    rows = [row(100.0), row(750.0, devices=8), row(760.0, devices=8, repeat=2)]
    assert dlperf_json(rows)["r50"]["1n8g"]["speedup"] == 7.55
    mixed = [rows[0], *(replace(one, one_machine=False) for one in rows[1:])]
    assert dlperf_json(mixed)["r50"]["1n8g"]["speedup"] is None
    assert dlperf_json(mixed)["r50"]["1n8g"]["median_speed"] == 755.0


def test_the_printed_runs_give_the_printed_result_exactly() -> None:
    assert dlperf_json(printed_runs()) == {
        "r50": {
            "1n1g": {
                "average_speed": 362.41,
                "batch_size_per_device": 128,
                "median_speed": 362.44,
                "speedup": 1.0,
            },
            "1n4g": {
                "average_speed": 1391.34,
                "batch_size_per_device": 128,
                "median_speed": 1391.28,
                "speedup": 3.84,
            },
            "1n8g": {
                "average_speed": 2720.16,
                "batch_size_per_device": 128,
                "median_speed": 2721.98,
                "speedup": 7.51,
            },
            "2n8g": {
                "average_speed": 5085.58,
                "batch_size_per_device": 128,
                "median_speed": 5099.42,
                "speedup": 14.07,
            },
            "4n8g": {
                "average_speed": 9496.91,
                "batch_size_per_device": 128,
                "median_speed": 9514.64,
                "speedup": 26.25,
            },
        }
    }


def test_without_a_baseline_there_is_no_speedup() -> None:
    result = dlperf_json([row(100.0, devices=8)])

    assert result["r50"]["1n8g"]["speedup"] is None


def test_a_failed_baseline_is_not_used() -> None:
    result = dlperf_json([row(None), row(100.0, devices=8)])

    assert result["r50"]["1n1g"] == {
        "average_speed": None,
        "batch_size_per_device": 128,
        "median_speed": None,
        "speedup": None,
    }
    assert result["r50"]["1n8g"]["speedup"] is None


def test_an_oom_repeat_enters_neither_mean_nor_median() -> None:
    result = dlperf_json([row(100.0), row(None, repeat=2), row(104.0, repeat=3)])

    assert result["r50"]["1n1g"]["average_speed"] == 102.0
    assert result["r50"]["1n1g"]["median_speed"] == 102.0


def test_a_disturbed_baseline_gives_no_speedup() -> None:
    rows = [row(10.0, spoiled=True), row(200.0, devices=2)]
    assert [one["speedup"] for one in dlperf_json(rows)["r50"].values()] == [None, None]


def test_a_disturbed_run_has_no_database_row() -> None:
    listing = list_rows(
        [row(100.0, model="ResNet50"), row(10.0, model="ResNet50", repeat=2, spoiled=True)], None, ""
    )
    assert [found["FINAL_RESULT"] for found in listing.rows] == [100.0]
    assert listing.left_out == (
        "x: the run was disturbed by its machine, and a row has no field for a doubt",
    )


def test_ten_nodes_are_read_and_topologies_are_sorted_by_size() -> None:
    rows = [
        row(9.0, devices=80, nodes=10),
        row(1.0),
        row(8.0, devices=256, nodes=16),
        row(2.0, devices=16, nodes=2),
    ]

    assert list(dlperf_json(rows)["r50"]) == ["1n1g", "2n8g", "10n8g", "16n16g"]


def test_two_batches_are_separate_rows() -> None:
    result = dlperf_json([row(100.0), row(90.0, batch_per_device=64)])

    assert sorted(result) == ["r50_b128_fp32", "r50_b64_fp32"]


def test_two_precisions_are_separate_rows() -> None:
    assert sorted(dlperf_json([row(100.0), row(300.0, precision="amp")])) == ["r50_b128_amp", "r50_b128_fp32"]


def test_two_variants_are_separate_rows() -> None:
    result = dlperf_json(
        [row(100.0, variant=(("layout", "nchw"),)), row(190.0, variant=(("layout", "nhwc"),))]
    )

    assert sorted(result) == ["r50_b128_fp32_nchw", "r50_b128_fp32_nhwc"]


def test_two_runs_with_one_number_are_refused() -> None:
    with pytest.raises(InputError, match="r50 1n1g: 2 runs are number 1"):
        dlperf_json([row(100.0), row(101.0)])


@given(st.lists(st.floats(min_value=1.0, max_value=1e6), min_size=1, max_size=9))
def test_mean_and_median_are_within_the_range_of_the_runs(speeds: list[float]) -> None:
    result = dlperf_json([row(speed, repeat=n) for n, speed in enumerate(speeds, start=1)])["r50"]["1n1g"]

    for name in ("average_speed", "median_speed"):
        value = result[name]
        assert value is not None
        assert min(speeds) - 0.006 <= value <= max(speeds) + 0.006


def test_a_row_has_exactly_the_fields_of_the_template_in_its_order() -> None:
    assert list(paddle_row(ROW, mission_for("mobilenet_v1"))) == list(FIELDS)


def test_a_row_follows_the_naming_conventions() -> None:
    assert paddle_row(ROW, mission_for("mobilenet_v1")) == {
        "log_file": "clas_MobileNetV1_mp_bs64_fp32_8_speed",
        "model_name": "clas_MobileNetV1_bs64_fp32",
        "mission_name": "图像分类",
        "direction_id": 0,
        "run_mode": "mp",
        "index": 1,
        "gpu_num": 8,
        "FINAL_RESULT": 1580.112,
        "JOB_FAIL_FLAG": 0,
        "UNIT": "images/s",
    }


def test_a_row_of_a_recommendation_model_has_the_same_fields() -> None:
    measured = row(41750.5, model="wide_deep", batch_per_device=16384, unit="samples/s")

    assert paddle_row(measured, mission_for("wide_deep")) == {
        "log_file": "wide_deep_sp_bs16384_fp32_1_speed",
        "model_name": "wide_deep_bs16384_fp32",
        "mission_name": "推荐模型",
        "direction_id": 2,
        "run_mode": "sp",
        "index": 1,
        "gpu_num": 1,
        "FINAL_RESULT": 41750.5,
        "JOB_FAIL_FLAG": 0,
        "UNIT": "samples/s",
    }


SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
DIRECTIONS = {"image-classification": 0, "masked-lm": 1, "causal-lm": 1, "recommendation": 2}
"""The template's direction_id of each task: 0:CV|1:NLP|2:Rec."""


def template() -> dict[str, type]:
    """Return the fields of the template's row in their order, and what each of its values is."""
    (document,) = SEEDS.glob("004_*.txt")
    _, _, text = document.read_text(encoding="utf-8").partition("待入库数据json文件")
    pairs = re.findall(r'^"(\w+)": (".*?"|[\d.]+), ?|^"(UNIT)": (".*?")', text, re.MULTILINE)
    found = {(one or other): json.loads(value or unit) for one, value, other, unit in pairs}
    return {name: type(value) for name, value in found.items()}


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the seed documents are not eight_devices this checkout")
@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_rows_of_every_direction_match_the_templates(task: str, devices: int) -> None:
    fields = template()
    for model in TASKS[task].models:
        measured = row(1234.5, model=published_name(model), unit=TASKS[task].unit, devices=devices)
        written = json.loads(json.dumps(paddle_row(measured, mission_for(measured.model))))

        assert {name: type(value) for name, value in written.items()} == fields
        assert list(written) == list(fields)
        assert written["direction_id"] == DIRECTIONS[task]
        assert written["run_mode"] == ("sp" if devices == 1 else "mp")
        assert written["UNIT"] == {0: "images/s", 2: "samples/s"}.get(
            written["direction_id"], TASKS[task].unit
        )
        assert written["model_name"].endswith("_bs128_fp32")


NLP_REC = Path(__file__).parents[2] / "docs" / "results" / "nlp-rec"


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the seed documents are not eight_devices this checkout")
def test_the_rows_of_the_stored_result_match_the_templates(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = "framework=jax,data=synthetic"
    assert main(["report", str(NLP_REC), "--to", "paddle-json", "--only", chosen]) == 0
    rows = json.loads(capsys.readouterr().out)

    found = {(one["mission_name"], one["direction_id"], one["UNIT"], one["run_mode"]) for one in rows}
    assert found == {
        (mission, direction, unit, mode)
        for mission, direction, unit in (
            ("语义表示", 1, "sequences/s"),
            ("语言模型", 1, "tokens/s"),
            ("推荐模型", 2, "samples/s"),
        )
        for mode in ("sp", "mp")
    }
    assert all({name: type(value) for name, value in one.items()} == template() for one in rows)


def test_one_device_is_a_single_run() -> None:
    single = paddle_row(row(197.514, model="MobileNetV1", batch_per_device=64), mission_for("mobilenet_v1"))

    assert (single["run_mode"], single["gpu_num"]) == ("sp", 1)
    assert single["log_file"] == "clas_MobileNetV1_sp_bs64_fp32_1_speed"
    assert single["FINAL_RESULT"] == 197.514


def test_a_failed_run_has_the_flag_and_no_number() -> None:
    failed = paddle_row(row(None), mission_for("resnet50_v1.5"))

    assert failed["JOB_FAIL_FLAG"] == 1
    assert failed["FINAL_RESULT"] is None
    assert '"FINAL_RESULT": null' in json.dumps(failed)


def test_later_repeats_have_their_own_log_name() -> None:
    assert (
        paddle_row(row(1.0, repeat=3), mission_for("resnet50"))["log_file"]
        == "clas_r50_sp_bs128_fp32_1_speed_r3"
    )


def test_runs_of_two_frameworks_with_one_name_are_refused_unless_named() -> None:
    runs = [row(1.0, variant=(("framework", name), ("data", "photos"))) for name in ("pytorch", "jax")]

    with pytest.raises(
        InputError,
        match=r"2 runs would have the name 'clas_r50_sp_bs128_fp32_1_speed': "
        r"a row has no field for framework .pytorch, jax.; x",
    ):
        list_rows(runs, None, "x")


def test_equal_devices_on_more_nodes_are_refused_because_a_row_has_no_place_for_nodes() -> None:
    with pytest.raises(InputError, match=r"no field for nodes \(1, 2\)"):
        list_rows([row(1.0, devices=8), row(1.0, devices=8, nodes=2)], None, "x")


def test_two_runs_that_differ_in_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="they do not differ on any axis"):
        list_rows([row(1.0), row(2.0)], None, "x")


def test_a_model_without_a_mission_is_left_out_with_a_message() -> None:
    listing = list_rows([row(1.0), row(2.0, model="my-own")], None, "x")

    assert [found["model_name"] for found in listing.rows] == ["clas_r50_bs128_fp32"]
    assert listing.left_out == ("x: no mission is known for the model 'my-own' (set --mission or --model)",)


def test_a_named_mission_includes_every_model() -> None:
    listing = list_rows([row(2.0, model="my-own")], "image classification", "x")

    assert ([found["mission_name"] for found in listing.rows], listing.left_out) == (["图像分类"], ())


def test_directions_match_the_template() -> None:
    assert load_directions() == {0: "CV", 1: "NLP", 2: "Rec"}
    assert {mission.direction for mission in load_missions()} == {0, 1, 2}


@pytest.mark.parametrize(
    ("model", "mission", "direction"),
    [
        ("ResNet50V1.5", "图像分类", 0),
        ("bert-base", "语义表示", 1),
        ("transformer_big", "机器翻译", 1),
        ("deeplabv3p", "图像分割", 0),
        ("CtrDnn", "推荐模型", 2),
    ],
)
def test_a_model_finds_its_mission(model: str, mission: str, direction: int) -> None:
    found = mission_for(model)

    assert (found.name, found.direction) == (mission, direction)


def test_a_mission_can_be_named_in_either_language() -> None:
    assert mission_for("anything", "图像分类") == mission_for("anything", "image classification")


def test_an_unknown_mission_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        InputError, match=r"no mission 'image clasification'; did you mean 'image classification'\?"
    ):
        mission_for("resnet50", "image clasification")
    with pytest.raises(InputError, match="no mission is known for the model 'my-own'"):
        mission_for("my-own")
