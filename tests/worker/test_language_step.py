"""PyTorch's language step: what it does for a GPU changes nothing, and a large model is looked into by rows."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frameworks import framework_python, needs_framework

pytestmark = [pytest.mark.training, needs_framework("pytorch"), pytest.mark.xdist_group("worker-pytorch")]

PROGRAM = Path(__file__).parents[1] / "programs" / "pytorch_language.py"


@pytest.fixture(scope="module")
def told() -> Any:
    ran = subprocess.run([framework_python("pytorch"), PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_words_that_are_added_for_the_product_change_nothing(told: Any) -> None:
    first, second = told["classifier"]["losses"]
    assert second == pytest.approx(first, rel=1e-6)
    assert told["classifier"]["gradients"] < 1e-5
    assert told["classifier"]["logits"] == 512


def test_lamb_counts_its_steps_where_a_graph_can_record_them(told: Any) -> None:
    assert told["lamb"]["steps"] == [4, 4]
    assert told["lamb"]["weights"] < 1e-6


def test_a_large_model_is_looked_into_by_rows(told: Any) -> None:
    looked = told["rows"]["after_window"]
    assert 0 < looked["sampled_share"] < 0.1
    assert told["rows"]["suspect"] == []
    # The norm by which gradients are clipped is that of all of them.
    assert looked["clip_factor"] < 1
    assert (looked["gradient_factor"], looked["learning_rate"]) == (
        pytest.approx(1, abs=0.01),
        pytest.approx(looked["learning_rate_asked"], rel=0.01),
    )


def test_the_verification_of_a_very_large_model_recomputes_its_blocks(told: Any) -> None:
    """Once for the gradients and once for the types of the loss, and again where blocks are recomputed."""
    assert told["recomputed"]["calls"] == [2, 3]
    assert told["recomputed"]["gradients"] < 1e-6


def test_the_first_choice_of_attention_is_only_a_choice(told: Any) -> None:
    first, second = told["attention"]
    assert second == pytest.approx(first, rel=1e-6)


def test_the_large_models_have_the_parameters_that_are_published(told: Any) -> None:
    assert told["sizes"] == {
        "bert_base": 110_106_428,
        "gpt2_124m": 124_373_760,
        "llama3.2_1b": 1_235_814_400,
        "llama3.2_3b": 3_212_749_824,
        "wide_deep": 83_805_581,
        "dlrm": 299_641_729,
    }
