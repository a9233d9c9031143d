"""The axes of large language models in PyTorch: FSDP2, activation checkpointing and FP8 train the same model."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from preloaded_worker import start

from frameworks import framework_python, needs_framework
from trainmark.schema.case import Device, case_of
from trainmark.workload import find_gap, load_workloads

PROGRAM = Path(__file__).parents[1] / "programs" / "scaled_products.py"
FLAGS = {"model": "llama_tiny", "batch-per-device": 4, "sequence-length": 64, "steps": 5, "warmup-steps": 2}


def losses(ran: Any) -> list[float]:
    return [step["loss"] for step in ran.steps]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return start("pytorch", tmp_path_factory.mktemp("plain"), FLAGS, ranks=2)[0]


@pytest.mark.training
@needs_framework("pytorch")
@pytest.mark.xdist_group("worker-pytorch")
@pytest.mark.parametrize(
    "more",
    [
        {"parallel": "fsdp2"},
        {"parallel": "fsdp2", "accumulation": 2, "activation-checkpointing": "full"},
        {"activation-checkpointing": "selective"},
    ],
    ids=["fsdp2", "fsdp2-accumulated-recomputed", "selective"],
)
def test_two_ranks_train_as_with_ddp(tmp_path: Path, plain: Any, more: dict[str, Any]) -> None:
    ran = start("pytorch", tmp_path, {**FLAGS, **more}, ranks=2)[0]

    assert ran.code == 0, ran.stderr
    assert losses(ran) == pytest.approx(losses(plain), rel=1e-5)
    assert (ran.last["outcome"], ran.last["suspect"]) == ("ok", [])
    assert ran.last["after_window"]["gradient_factor"] == pytest.approx(1, rel=0.01)
    assert ran.last["after_window"]["not_checked"] == []
    exchange = "fsdp2" if "parallel" in more else "ddp"
    assert ran.parameters["gradient_exchange"] == exchange


@pytest.mark.training
@needs_framework("pytorch")
@pytest.mark.xdist_group("worker-pytorch")
def test_a_lone_rank_may_use_fsdp2(tmp_path: Path) -> None:
    alone, sharded = (start("pytorch", tmp_path, {**FLAGS, "parallel": name})[0] for name in ("ddp", "fsdp2"))

    assert sharded.code == 0, sharded.stderr
    assert losses(sharded) == pytest.approx(losses(alone), rel=1e-5)


@pytest.mark.training
@needs_framework("pytorch")
@pytest.mark.xdist_group("worker-pytorch")
def test_products_in_fp8_are_emulated_here_and_near_those_in_bf16() -> None:
    """FP8's product is replaced by torch's on a CPU: this tests scales and gradients, and no GPU's kernel."""
    ran = subprocess.run([framework_python("pytorch"), PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])

    # Two operands of 3 bits behind the point, rounded: 3.7 % of random products.
    for name in ("output", "of_input", "of_weight"):
        assert 0.01 < found["by_rows"][name] < 0.05
    # One scale for rows of different sizes loses the small ones.
    assert found["small_row"]["by_rows"] < 0.05
    assert found["small_row"]["by_tensor"] > 0.5
    assert found["plain"] < 0.005
    assert found["zeros"] == 0
    assert found["operand"] == "torch.float8_e4m3fn"


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ({"precision": "fp8", "device": "cpu"}, "fp8 needs an NVIDIA GPU"),
        ({"parallel": "fsdp2", "compiler": "cuda-graph", "device": "cuda"}, "cannot be recorded as one CUDA graph"),
        ({"parallel": "fsdp2", "precision": "amp-fp16", "device": "cuda"}, "use amp-bf16"),
        ({"framework": "jax", "parallel": "fsdp2", "compiler": "xla"}, "has no FSDP2"),
        ({"framework": "jax", "activation_checkpointing": "full", "compiler": "xla"}, "no activation checkpointing"),
        ({"model": "bert_base", "precision": "fp8", "device": "cuda"}, "FP8 only for language models"),
    ],
)  # fmt: skip
def test_a_plan_names_what_cannot_run(axes: dict[str, str], reason: str) -> None:
    case = case_of(**{"model": "llama_tiny", "framework": "pytorch", "compiler": "none", **axes})
    gap = find_gap(case, load_workloads().find(case).card, Device(axes.get("device", "cpu"))) or ""
    assert reason in gap


def test_the_new_axes_stand_in_a_case_s_name_only_if_they_differ_from_the_default() -> None:
    common = {"model": "llama_tiny", "framework": "pytorch", "device": "cuda"}
    given = case_of(**common, parallel="fsdp2", activation_checkpointing="full", precision="fp8")
    assert {"fsdp2", "acfull", "fp8"} <= set(given.id.split("-"))
    assert not {"ddp", "acnone"} & set(case_of(**common).id.split("-"))
