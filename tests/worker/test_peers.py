"""``benchmarks/peers.py``: a program that contends through its card, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from frameworks import framework_python, needs_framework

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers.py"

pytestmark = [pytest.mark.training, needs_framework("pytorch"), pytest.mark.xdist_group("worker-pytorch")]


def contest(tmp_path: Path, batch: int, model: str = "resnet50_v1.5") -> subprocess.CompletedProcess[str]:
    suite = tmp_path / "program.yaml"
    suite.write_text(
        f"""name: program
environment: {framework_python("pytorch")}
protocol: {{name: dlperf, steps: 2, warmup_steps: 1, repeats: 1}}
defaults: {{framework: pytorch, model: {model}, precision: fp32, device: cpu, image_size: 32}}
axes: {{batch_per_device: [{batch}]}}
""",
        encoding="utf-8",
    )
    words = ["--device=cpu", "--precision=fp32", "--batch=2", "--image-size=32", "--steps=1", "--rounds=1"]
    return subprocess.run(
        [framework_python("pytorch"), PEERS, *words, f"--suite={suite}", f"--trainmark={sys.executable}",
         f"--json={tmp_path / 'peers.json'}", "--only", "trainmark-none", "program"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.rare
def test_a_program_contends_through_its_card(tmp_path: Path) -> None:
    ran = contest(tmp_path, batch=2)

    assert ran.returncode == 0, ran.stderr
    assert "the parameters of its network are not told" in ran.stdout
    result = json.loads((tmp_path / "peers.json").read_text())
    rows = {row["name"]: row for row in result["rows"]}
    assert result["reference"] == "program"
    assert rows["program"]["images_per_s"] > 0
    assert rows["program"]["memory_bytes"] is None
    assert rows["program"]["told"]["measured_steps"] == 1
    assert rows["trainmark-none"]["memory_bytes"] > 0
    assert [len(row["blocks"]) for row in result["rows"]] == [1, 1]
    assert rows["trainmark-none"]["blocks"][0]["seconds"] == pytest.approx(
        2 / rows["trainmark-none"]["images_per_s"], rel=1e-3
    )


@pytest.mark.rare
def test_a_program_that_is_asked_for_other_work_is_left_out(tmp_path: Path) -> None:
    ran = contest(tmp_path, batch=4)

    assert "program: left out, ValueError" in ran.stdout
    assert "'batch_per_device': (4, 2)" in ran.stdout
    (row,) = json.loads((tmp_path / "peers.json").read_text())["rows"]
    assert row["name"] == "trainmark-none"


@pytest.mark.rare
@needs_framework("jax")
def test_the_step_that_a_user_of_flax_writes_trains_the_same_network(tmp_path: Path) -> None:
    ran = subprocess.run(
        [framework_python("jax"), PEERS, "--device=cpu", "--precision=amp-fp16", "--batch=2",
         "--image-size=32", "--steps=1", "--rounds=1", f"--json={tmp_path / 'peers.json'}", "--only", "flax"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    (row,) = json.loads((tmp_path / "peers.json").read_text())["rows"]
    assert (row["name"], set(row["versions"])) == ("flax", {"flax", "jax", "device"})
    assert row["images_per_s"] > 0
