"""Reading a recipe out of what a program printed: names, words, lines; never an exception, never a guess."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from insight_ngc_log import SETTINGS, ngc_log

from corpora import CORPUS
from trainmark.errors import InputError
from trainmark.insight import run_from_log
from trainmark.insight.log_head import data_wait
from trainmark.insight.recipe import StatedRecipe, recipe_from
from trainmark.logs.events import Parameter, read_parameters
from trainmark.programs import dialects
from trainmark.schema.manifest import (
    AcceleratorFacts,
    CpuFacts,
    FrameworkVersions,
    GpuFacts,
    Manifest,
    MemoryFacts,
    Node,
    OsFacts,
    VirtualisationFacts,
)
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.tasks import all_axes, model_word

WHOLE = ngc_log()


def recipe(text: str) -> StatedRecipe:
    return recipe_from(read_parameters(text.splitlines()))


def test_a_parameter_line_gives_names_words_and_its_line() -> None:
    found = read_parameters(
        ["hello", "DLL 2023-08-04 05:47:49.926771 - PARAMETER data : /imagenet  workers : 5 "]
    )

    assert found == {"data": Parameter("data", "/imagenet", 2), "workers": Parameter("workers", "5", 2)}


def test_a_list_in_a_parameter_line_stays_one_word() -> None:
    found = read_parameters(
        ["[1,0]<stdout>:DLL 2023-07-31 09:09:06.9 - PARAMETER gpus : [0, 1, 2]  lr : 1.024"]
    )

    assert found["gpus"].value == "[0, 1, 2]"
    assert found["lr"].value == "1.024"


def test_the_json_stream_is_read_like_the_text() -> None:
    line = 'DLLL {"timestamp": "1", "type": "LOG", "step": "PARAMETER", "data": {"amp": true, "workers": 8}}'

    found = read_parameters([line])

    assert (found["amp"].value, found["workers"].value) == ("True", "8")


def test_a_namespace_is_read_without_being_evaluated() -> None:
    found = read_parameters(
        ["Namespace(amp=False, arch='transformer', betas=[0.9, 0.997], x=__import__('os'))"]
    )

    assert found["amp"].value == "False"
    assert found["arch"].value == "transformer"
    assert found["betas"].value == "[0.9, 0.997]"


def test_a_printed_dictionary_is_read_line_by_line() -> None:
    found = read_parameters(["{'alpha': 0.6,", " 'batch_size': 5120,", " 'device': 'gpu'}"])

    assert {name: found[name].value for name in found} == {
        "alpha": "0.6",
        "batch_size": "5120",
        "device": "gpu",
    }


def test_the_first_of_two_equal_names_counts() -> None:
    lines = [f"[2023/07/28 07:49:52] ppcls INFO:   num_workers : {workers}" for workers in (8, 4)]

    assert read_parameters(lines)["num_workers"].value == "8"


def test_a_yaml_block_is_read_only_at_its_top_level() -> None:
    block = [
        "---------------Config Information---------------",
        "batch_size: 4",
        "loss:",
        "  type: X",
        "-----",
    ]

    found = read_parameters([*block, "iters: 9"])

    assert {name: parameter.value for name, parameter in found.items()} == {"batch_size": "4"}


def test_the_ngc_pytorch_recipe_is_read_completely() -> None:
    found = recipe(ngc_log())

    assert found.program == "ngc-pytorch-convnets"
    assert {axis: reading.value for axis, reading in found.readings.items()} == {
        "layout": "nchw",
        RecipeAxis.WORKERS: 5,
        RecipeAxis.PREFETCH: 2,
        RecipeAxis.LABEL_SMOOTHING: 0.0,
        "mixup": 0.0,
        RecipeAxis.LR_SCHEDULE: "step",
        RecipeAxis.OPTIMIZER: "sgd",
        RecipeAxis.MOMENTUM: 0.9,
        RecipeAxis.WEIGHT_DECAY: 0.0001,
        RecipeAxis.CHECKPOINT_IN_RUN: True,
        RecipeAxis.LOADER: "dali-cpu",
        RecipeAxis.DATA: "imagenet",
        RecipeAxis.COMPILER: "none",
        RecipeAxis.LOSS_SCALING: "static",
        RecipeAxis.LOSS_SCALE: 256.0,
        RecipeAxis.ACCUMULATION_STEPS: 1,
    }


def test_fp32_has_no_loss_scale_although_one_is_printed() -> None:
    found = recipe(ngc_log(settings=SETTINGS | {"amp": "False"}))

    assert found.value(RecipeAxis.LOSS_SCALE) is None


def test_accumulation_follows_from_the_batch_of_the_optimizer() -> None:
    found = recipe(ngc_log(settings=SETTINGS | {"optimizer_batch_size": "2048"}))

    assert found.value(RecipeAxis.ACCUMULATION_STEPS) == 8


def test_synthetic_data_has_no_loader() -> None:
    found = recipe(ngc_log(settings=SETTINGS | {"data_backend": "synthetic"}))

    assert found.value(RecipeAxis.DATA) == "synthetic"
    assert found.value(RecipeAxis.LOADER) is None


def test_a_program_that_is_not_known_states_nothing() -> None:
    assert recipe("Epoch: [0][ 20/100] Time 0.1 (0.2)\n") == StatedRecipe()


def test_the_wait_for_data_is_the_difference_of_the_two_rates() -> None:
    assert data_wait(ngc_log(wait=0.03).splitlines()) == pytest.approx(0.03, abs=1e-3)


def test_too_few_steps_give_no_data_wait() -> None:
    assert data_wait(ngc_log(steps=20).splitlines()) is None


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("ResNet50", "resnet50"),
        ("resnet50", "resnet50"),
        ("ResNet50V1.5", "resnet50_v1.5"),
        ("resnetv15-50", "resnet50_v1.5"),
        ("resnet50_v1", "resnet50_v1"),
        ("MobileNetV1", "mobilenet_v1"),
        ("mobilenet1.0", "mobilenet_v1"),
        ("bert-base", "bert-base"),
    ],
)
def test_a_models_spellings_are_one_word(name: str, word: str) -> None:
    assert model_word(name) == word


def test_a_packed_log_is_explained_like_a_plain_one(tmp_path: Path) -> None:
    plain, packed = tmp_path / "run.txt", tmp_path / "run.txt.gz"
    plain.write_text(ngc_log())
    packed.write_bytes(gzip.compress(ngc_log().encode()))

    assert run_from_log(packed).recipe == run_from_log(plain).recipe


def test_a_damaged_archive_is_a_run_without_a_number(tmp_path: Path) -> None:
    log = tmp_path / "run.txt.gz"
    log.write_bytes(gzip.compress(ngc_log().encode())[:200])

    run = run_from_log(log)

    assert run.throughput is None
    assert run.doubts


@given(st.text(max_size=400))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    recipe(text)
    recipe(f"DLL 2023 - PARAMETER {text}")
    recipe(f"Namespace({text})")
    recipe(f"DLLL {{{text} PARAMETER")
    data_wait(text.splitlines())


@given(st.integers(min_value=0, max_value=5000))
def test_a_truncated_log_is_read_without_an_exception(end: int) -> None:
    found = recipe(WHOLE[:end])

    assert found.value("layout") in (None, "nchw", *("nchw"[:n] for n in range(1, 4)))


REAL: dict[str, tuple[str, dict[AxisName, AxisValue]]] = {
    "ResNet50V1.5/OtherReports/TensorFlow/V100_LOG/tf_gpu8_amp_bs256.txt": (
        "ngc-tensorflow-convnets",
        {
            RecipeAxis.COMPILER: "xla",
            "layout": "nhwc",
            RecipeAxis.LOADER: "native",
            RecipeAxis.LOSS_SCALE: 128,
        },
    ),
    "ResNet50V1.5/OtherReports/MxNet/V100_LOG/mxnet_gpu8_fp32_bs128.txt": (
        "ngc-mxnet-convnets",
        {RecipeAxis.LOADER: "dali-gpu", "layout": "nchw", "fused_batch_norm": False},
    ),
    "ResNet50V1.5/V100-LOG/PaddleClas_ResNet50_bs256_fp32_DP_N1C8_log": (
        "paddleclas",
        {RecipeAxis.WORKERS: 8, RecipeAxis.MOMENTUM: 0.9},
    ),
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real logs is not beside this checkout")
@pytest.mark.parametrize("path", REAL)
def test_real_logs_state_their_recipe(path: str) -> None:
    program, values = REAL[path]

    run = run_from_log(CORPUS / "logs" / path)

    assert run.recipe.program == program
    assert {axis: run.recipe.value(axis) for axis in values} == values
    assert run.recipe.value(Condition.DEVICES) == 8


def test_the_directory_of_a_run_is_read_by_its_events(tmp_path: Path) -> None:
    parameters = {
        "schema": "trainmark.events/1",
        "framework": "pytorch",
        "model": "resnet50_v1.5",
        "precision": "amp-fp16",
        "layout": "nhwc",
        "compiler": "none",
        "data": "synthetic",
        "loader": None,
        "batch_per_device": 256,
        "global_batch": 256,
        "world_size": 1,
        "image_size": 224,
        "framework_version": "2.13.0",
        "cudnn": 91900,
        "optimizer": {"name": "SGD", "momentum": 0.875, "label_smoothing": 0.1, "schedule": "cosine"},
    }
    steps = [
        {"step": [0, n], "data": {"phase": "measured", "step_time_s": 0.1, "loss": 6.9}} for n in range(30)
    ]
    end = {"step": [], "data": {"throughput": 2560.0, "window_s": 3.0, "samples": 7680}}
    events = [{"step": "PARAMETER", "data": parameters}, *steps, end]
    (tmp_path / "events.jsonl").write_text("".join(f"DLLL {json.dumps(event)}\n" for event in events))

    run = run_from_log(tmp_path)

    assert run.throughput == pytest.approx(2560.0)
    assert run.recipe.program == "trainmark"
    assert run.recipe.value("layout") == "nhwc"
    assert run.recipe.value(RecipeAxis.DATA) == "synthetic"
    assert run.recipe.value(RecipeAxis.LOADER) is None
    assert run.recipe.value(RecipeAxis.LR_SCHEDULE) == "cosine"
    assert run.recipe.value(RecipeAxis.OPTIMIZER) == "sgd"
    assert run.recipe.value(Condition.FRAMEWORK_VERSION) == "2.13.0"


def test_the_manifest_next_to_a_log_supplies_machine_and_software(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(ngc_log())
    gpu = GpuFacts(name="NVIDIA A100-SXM4-40GB", memory_bytes=42_949_672_960)
    node = Node(
        hostname="n", collected=datetime.now(UTC), os=OsFacts(name="Ubuntu 22.04"), cpu=CpuFacts(model="EPYC"),
        memory=MemoryFacts(), accelerators=AcceleratorFacts(driver="535.1", gpus=(gpu,)),
        virtualisation=VirtualisationFacts(), container=None, environment_lock=None, git=None, variables={},
        framework=FrameworkVersions(framework="pytorch", version="2.1.0", python="3.10", cudnn="8902"),
        trainmark="0",
    )  # fmt: skip
    (tmp_path / "manifest.json").write_text(Manifest(nodes=(node,)).model_dump_json())
    recipe = run_from_log(tmp_path / "train.log").recipe
    values = {
        axis: recipe.value(axis)
        for axis in (Condition.DEVICE, Condition.DEVICE_MEMORY_GB, Condition.DRIVER, Condition.OS)
    }
    assert values == {
        Condition.DEVICE: "A100",
        Condition.DRIVER: "535.1",
        Condition.OS: "Ubuntu 22.04",
        # By its name: the driver's count of bytes would make it 43.
        Condition.DEVICE_MEMORY_GB: 40,
    }
    assert recipe.value(Condition.FRAMEWORK_VERSION) == "2.1.0"
    assert recipe.readings[Condition.DEVICE].where == "manifest.json"
    assert run_from_log(tmp_path / "train.log", device="V100").recipe.value(Condition.DEVICE) == "V100"


@pytest.mark.parametrize(
    ("gpus", "device"),
    [
        ((), "EPYC"),
        ((GpuFacts(name="NVIDIA GeForce GTX Titan", memory_bytes=None),), "NVIDIA GeForce GTX Titan"),
    ],
)
def test_a_manifest_names_the_processor_and_any_gpu(
    gpus: tuple[GpuFacts, ...], device: str, tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_text("iter 0: loss 4.2, time 10.00ms, mfu -100.00%\n" * 3)
    node = Node(
        hostname="n", collected=datetime.now(UTC), os=OsFacts(), cpu=CpuFacts(model="EPYC"), memory=MemoryFacts(),
        accelerators=AcceleratorFacts(gpus=gpus), virtualisation=VirtualisationFacts(), container=None,
        environment_lock=None, git=None, variables={}, framework=None, trainmark="0",
    )  # fmt: skip
    (tmp_path / "manifest.json").write_text(Manifest(nodes=(node,)).model_dump_json())

    assert run_from_log(tmp_path / "train.log").recipe.value(Condition.DEVICE) == device


def test_a_damaged_manifest_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(ngc_log())
    (tmp_path / "manifest.json").write_text("{")
    assert run_from_log(tmp_path / "train.log").recipe.value(Condition.DRIVER) is None


def test_a_directory_without_events_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the directory of a run"):
        run_from_log(tmp_path)


def test_a_run_of_a_built_in_worker_is_recognised_for_every_task() -> None:
    words = {"schema": "trainmark.events/1", "compiler": "none", "batch_per_device": "32", "features": "8"}
    parameters = {name: Parameter(name, value, 1) for name, value in words.items()}

    found = recipe_from(parameters)

    assert (found.program, found.value("compiler")) == ("trainmark", "none")


def test_only_valid_values_of_a_tasks_axis_are_read() -> None:
    assert not recipe("Namespace(memory_format='nch', data_backend='pytorch', arch='resnet50')").value(
        "layout"
    )


def test_dialects_read_only_known_axes() -> None:
    for dialect in dialects().values():
        assert set(dialect.flags) <= set(all_axes())


def test_an_axis_of_a_task_has_the_name_by_which_recipes_are_published() -> None:
    from trainmark.tasks import all_axes, recipe_axis

    assert (recipe_axis("predictions"), recipe_axis("accumulation")) == (
        "max_predictions_per_seq",
        "accumulation_steps",
    )
    assert "predictions" not in all_axes()
