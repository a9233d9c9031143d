"""JAX's models in mixed precision: what many values add up to is added in FP32, as the other frameworks do it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from frameworks import framework_python, needs_framework

pytestmark = [
    pytest.mark.training,
    pytest.mark.rare,
    needs_framework("jax"),
    pytest.mark.xdist_group("worker-jax"),
]

PROGRAM = Path(__file__).parents[1] / "programs" / "mixed_gradients.py"


def test_the_gradients_in_16_bits_are_those_in_32() -> None:
    """A bias, or a row that all samples look up, gets so many small gradients that a sum in BF16 loses them."""
    ran = subprocess.run(
        [framework_python("jax"), PROGRAM],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    off = json.loads(ran.stdout)
    assert {name: part for name, part in {**off["bert"], **off["gpt"]}.items() if part > 0.02} == {}
    assert {name: part for name, part in off["llama"].items() if part > 0.02} == {}
    # The gradients of tables are small differences of rounded ones, in every framework.
    biases = {name: part for name, part in off["wide_deep"].items() if name.endswith("bias")}
    assert {name: part for name, part in biases.items() if part > 0.01} == {}
