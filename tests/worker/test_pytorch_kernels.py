"""The PyTorch worker's own kernels, computed by Triton's interpreter: what they compute is shown without a GPU."""

import os
import subprocess
from pathlib import Path

import pytest

from frameworks import framework_python, needs_framework

pytestmark = [pytest.mark.training, needs_framework("pytorch"), pytest.mark.xdist_group("worker-pytorch")]

PROGRAM = Path(__file__).parents[1] / "programs" / "pytorch_kernels.py"

# Triton 3.6's interpreter takes a 1-element array for a number, which later numpy refuses.
PINS = ("triton==3.6.0", "numpy==2.2.6")


@pytest.mark.rare
def test_the_kernels_compute_what_pytorch_does(tmp_path: Path) -> None:
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
        [python, PROGRAM],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("max") == 36
