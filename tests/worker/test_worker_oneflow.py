"""The OneFlow worker, with PyTorch standing in for what both call by the same names.

OneFlow itself has not run here. These tests show the models, the loss, the recipe, real images and the worker's own
flow; they say nothing of ``nn.Graph``, mixed precision, several ranks or CUDA.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from worker_process import SMALL, START, Ran, ended, make_images, rank_variables

from frameworks import in_pytorch
from preloading import preloaded
from trainmark.equivalence import compare, party, worker_flags, write_inputs
from trainmark.schema.case import Case, Device
from trainmark.tasks.image_classification.equal_work import ImageObservation
from trainmark.worker.tasks.image_classification.architectures import ARCHITECTURES
from trainmark.workload import find_gap, load_workloads

STAND_IN = Path(__file__).with_name("oneflow_stand_in.py")

OTHERS = sorted(ARCHITECTURES.keys() - {"mobilenet_v1"})

Flag = str | int | float | Path


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stand_in")
    shutil.copy(STAND_IN, folder / "oneflow.py")
    return folder


def train(
    folder: Path,
    stand_in: Path,
    flags: Mapping[str, Flag],
    framework: str = "oneflow",
    variables: Mapping[str, str] | None = None,
) -> Ran:
    """Run the worker as one process of PyTorch's Python; ``_`` in a flag's name stands for ``-``."""
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    given = {**SMALL, **{name.replace("_", "-"): str(value) for name, value in flags.items()}}
    words = [
        str(START),
        "--framework",
        framework,
        *(f"--{name}={given[name]}" for name in given),
        f"--events={events}",
    ]
    found_first = (
        f"import runpy, sys; sys.path.insert(0, {str(stand_in)!r})\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return ended(preloaded("pytorch").start(words, variables or {}, folder, found_first), events)


@in_pytorch
@pytest.mark.training
@pytest.mark.parametrize("model", [pytest.param("resnet50_v1.5", marks=pytest.mark.rare), "mobilenet_v1"])
def test_a_run_says_what_it_was_made_of_and_its_loss_falls(
    tmp_path: Path, stand_in: Path, model: str
) -> None:
    recipe = {"learning_rate": 0.002, "warmup_epochs": 0, "classes": 10}
    ran = train(tmp_path, stand_in, {"model": model, "steps": 8, "batch_per_device": 8, **recipe})
    assert ran.code == 0, ran.stderr
    assert ran.last["outcome"] == "ok"
    assert (ran.parameters["framework"], ran.parameters["framework_version"]) == (
        "oneflow",
        "1.0.0+pytorch.stands.in",
    )
    assert ran.parameters["actual"] == {
        "compute_dtype": "float32",
        "weight_dtype": "float32",
        "activation_layout": "nchw",
        "weight_layout": "nchw",
        "batch_per_device": 8,
        "tf32_matmul": False,
        "tf32_convolution": False,
        "parameters": ARCHITECTURES[model].parameters(10),
        "world_size": 1,
    }
    losses = [step["loss"] for step in ran.steps]
    assert len(losses) == 8
    assert losses[-1] < losses[0]


@in_pytorch
@pytest.mark.training
@pytest.mark.parametrize(
    "model", ["mobilenet_v1", *(pytest.param(name, marks=pytest.mark.rare) for name in OTHERS)]
)
def test_its_steps_are_those_of_the_description_and_of_the_pytorch_worker(
    tmp_path: Path, stand_in: Path, model: str
) -> None:
    write_inputs(model, tmp_path / "inputs.npz")
    flags = dict(word[2:].split("=", 1) for word in worker_flags(model, tmp_path / "inputs.npz"))
    seen = []
    for framework in ("oneflow", "pytorch"):
        ran = train(tmp_path, stand_in, {**flags, "device": "cpu"}, framework)
        assert ran.code == 0, ran.stderr
        seen.append(ImageObservation.model_validate(ran.last["equivalence"]))
    alone = party(seen[0], {"layout": "nchw"}, None, "cpu")
    beside = compare(*seen)
    assert [check for check in (*alone.checks, *beside.checks) if not check.holds] == []


@in_pytorch
@pytest.mark.training
def test_real_images_are_the_same_for_any_number_of_loader_processes_and_a_broken_one_is_named(
    tmp_path: Path, stand_in: Path
) -> None:
    images = make_images(tmp_path / "images")
    flags: dict[str, Flag] = {"data": images, "classes": 10, "steps": 4}
    runs = [train(tmp_path, stand_in, {**flags, "loader_workers": workers}) for workers in (0, 2)]
    for ran in runs:
        assert ran.code == 0, ran.stderr
    alone, together = ([step["loss"] for step in ran.steps] for ran in runs)
    np.testing.assert_allclose(alone, together, rtol=1e-6)
    assert runs[0].parameters["epoch_images"] == 12
    assert runs[0].parameters["decoder"]

    broken = images / "class0" / "image 0.jpg"
    broken.write_bytes(broken.read_bytes()[:500])
    ran = train(tmp_path, stand_in, {**flags, "loader_workers": 1, "steps": 14})
    assert (ran.code, ran.last["outcome"]) == (3, "failed")
    assert "image 0.jpg cannot be decoded" in ran.last["reason"]


@in_pytorch
@pytest.mark.training
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"precision": "amp-bf16"}, "OneFlow has no mixed precision on a CPU"),
        ({"precision": "tf32"}, "a CPU has no TF32"),
        ({"precision": "fp16"}, "it has fp32, tf32, amp-fp16, amp-bf16"),
        ({"layout": "nhwc"}, "has the layout nchw only"),
        ({"compiler": "xla"}, "it has none, graph"),
        ({"device": "cuda"}, "OneFlow finds no CUDA device here"),
        ({"collective": "horovod"}, "it has native"),
    ],
)
def test_what_it_lacks_is_unsupported_before_any_step(
    tmp_path: Path, stand_in: Path, flags: dict[str, str], reason: str
) -> None:
    ran = train(tmp_path, stand_in, flags)
    assert (ran.code, ran.last["outcome"]) == (3, "unsupported")
    assert reason in ran.last["reason"]
    assert ran.steps == []


@in_pytorch
@pytest.mark.training
def test_several_ranks_in_a_graph_are_refused_before_they_meet(tmp_path: Path, stand_in: Path) -> None:
    ran = train(tmp_path, stand_in, {"compiler": "graph"}, variables=rank_variables(0, 2, 1))
    assert (ran.code, ran.last["outcome"]) == (3, "unsupported")
    assert "use compiler none" in ran.last["reason"]


@in_pytorch
@pytest.mark.training
def test_without_memory_it_ends_as_oom(tmp_path: Path, stand_in: Path) -> None:
    ran = train(tmp_path, stand_in, {"batch_per_device": 64, "image_size": 224, "memory_limit": 600_000_000})
    assert (ran.code, ran.last["outcome"]) == (3, "oom"), json.dumps(ran.last)


@pytest.mark.parametrize(
    ("axes", "device", "gap"),
    [
        ({"precision": "amp-bf16"}, Device.CPU, "no mixed precision on a CPU"),
        ({"precision": "amp-fp16"}, Device.CUDA, "needs the compiler graph"),
        ({"precision": "amp-fp16", "compiler": "graph"}, Device.CUDA, None),
        ({"precision": "fp32"}, Device.CPU, None),
    ],
)
def test_its_card_names_the_gaps_before_anything_runs(
    axes: dict[str, str], device: Device, gap: str | None
) -> None:
    case = Case.model_validate(
        {
            "workload": "trainmark",
            "framework": "oneflow",
            "model": "mobilenet_v1",
            "batch_per_device": 4,
            **axes,
        }
    )
    found = find_gap(case, load_workloads().find(case).card, device)
    assert (found is None) == (gap is None), found
    assert gap is None or gap in str(found)
