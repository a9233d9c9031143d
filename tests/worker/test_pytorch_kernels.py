"""The PyTorch worker's own kernels, computed by Triton's interpreter: what they compute is shown without a GPU."""

import os
import subprocess
from pathlib import Path

import pytest

from frameworks import framework_python, needs_framework

pytestmark = [pytest.mark.training, needs_framework("pytorch"), pytest.mark.xdist_group("worker-pytorch")]

PROGRAMS = Path(__file__).parents[1] / "programs"

# Triton 3.6's interpreter takes a 1-element array for a number, which later numpy refuses.
PINS = ("triton==3.6.0", "numpy==2.2.6")


@pytest.mark.rare
@pytest.mark.parametrize(
    ("program", "expected"),
    [("pytorch_kernels", "78 of 78 right"), ("pytorch_cross_entropy", "9 of 9 right")],
)
def test_the_kernels_compute_what_pytorch_does(program: str, expected: str, tmp_path: Path) -> None:
    python = framework_python("pytorch")
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path, *PINS],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"Triton cannot be had here: {installed.stderr.strip().splitlines()[-1]}")

    ran = subprocess.run(
        [python, PROGRAMS / f"{program}.py"],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert expected in ran.stdout.splitlines()[-1]


STAGES = """
import sys
sys.path.insert(0, sys.argv[1])
from worker.core.outcomes import RunError
from worker.pytorch_fast.compilers import chosen
print(*sorted(chosen({})))
print(*sorted(chosen({"TRAINMARK_FUSED_WITHOUT": "quarter, update"})))
try:
    chosen({"TRAINMARK_FUSED_WITHOUT": "quarter,warp"})
except RunError as error:
    print(error)
"""


def test_stages_can_be_left_out_by_their_names_alone() -> None:
    source = Path(__file__).parents[2] / "src" / "trainmark"

    ran = subprocess.run(
        [framework_python("pytorch"), "-c", STAGES, source], capture_output=True, text=True, check=True
    )

    all_of_them, some, refused = ran.stdout.splitlines()
    assert all_of_them == "folded quarter update"
    assert some == "folded"
    assert refused.startswith("invalid: TRAINMARK_FUSED_WITHOUT: there is no stage warp; there are folded")
