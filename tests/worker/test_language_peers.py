"""``benchmarks/peers_lm.py``: who contends on which work, and that each parameter has its counterpart in the peers."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworks import framework_python, needs_framework

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def peers() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("peers_lm")
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize(
    ("model", "counterparts"),
    [
        # The query's, the key's and the value's weights and biases are one each in the worker: 12 blocks.
        ("gpt2_124m", {"transformer.h.11.attn.c_attn.weight", "transformer.ln_f.weight"}),
        ("bert_base", {"bert.encoder.layer.0.attention.self.key.bias", "cls.seq_relationship.weight"}),
    ],
)
def test_every_parameter_has_its_own_counterparts(peers: Any, model: str, counterparts: set[str]) -> None:
    names = [name for own in peers.described(model).shapes() for name in peers.names_in_peer(model, own)]
    assert len(names) == len(set(names))
    assert counterparts <= set(names)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopA_NTN", "matmul"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", "matmul"),
        ("triton_tem_fused_addmm_3", "matmul"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob", "attention"),
        ("triton_poi_fused__scaled_dot_product_cudnn_attention_transpose_4", "rest"),
        ("triton_red_fused__log_softmax_nll_loss_forward_7", "loss"),
        ("loss_and_gradient", "loss"),
        ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", "optimizer"),
        ("triton_per_fused_add_native_layer_norm_9", "rest"),
    ],
)
def test_kernels_are_sorted_by_the_work_in_their_name(peers: Any, kernel: str, kind: str) -> None:
    assert importlib.import_module("peer_profile").kind_of(kernel) == kind


def test_energy_is_power_times_time_over_the_work(peers: Any) -> None:
    contest = importlib.import_module("contest")
    blocks = [contest.Block(2.0, {"power_w": 700.0}), contest.Block(4.0, {"power_w": 650.0})]
    assert contest._energy_mj(blocks, work=1_000_000) == 2.0
    assert contest._energy_mj([*blocks, contest.Block(2.0, {})], work=1_000_000) is None


@pytest.mark.training
@needs_framework("pytorch")
@pytest.mark.xdist_group("worker-pytorch")
def test_a_contestant_that_prepares_for_too_long_is_left_out() -> None:
    words = ["--device=cpu", "--model=gpt2_tiny", "--precision=fp32", "--batch=2", "--length=16", "--steps=1"]
    ran = subprocess.run(
        [framework_python("pytorch"), BENCHMARKS / "peers_lm.py", *words, "--rounds=1",
         "--prepare-minutes=0.001", "--only", "trainmark-none"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "trainmark-none: left out, it ended with exit code -9" in ran.stdout
    assert ran.returncode == 1


@pytest.mark.training
@needs_framework("pytorch")
@pytest.mark.xdist_group("worker-pytorch")
def test_a_contest_tells_rates_in_both_units(tmp_path: Path) -> None:
    told = tmp_path / "peers.json"
    words = ["--device=cpu", "--model=gpt2_tiny", "--precision=fp32", "--batch=2", "--length=16", "--steps=1"]
    ran = subprocess.run(
        [framework_python("pytorch"), BENCHMARKS / "peers_lm.py", *words, "--rounds=2", f"--json={told}",
         "--only", "trainmark-none", "trainmark-graph"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "trainmark-graph: left out, it needs cuda" in ran.stdout
    result = json.loads(told.read_text())
    (row,) = result["rows"]
    assert (result["model"], result["length"], result["rounds"], row["ratio"]) == ("gpt2_tiny", 16, 2, 1)
    assert row["tokens_per_s"] == pytest.approx(16 * row["sequences_per_s"])
