"""``benchmarks/mixed.py``: what the rounding of mixed precision explains, and what it does not."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("mixed", BENCHMARKS / "mixed.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mixed", module)
    spec.loader.exec_module(module)
    return module


SIZES = {("update", f"layer{i}.weight"): 64 * (i + 1) for i in range(20)}
SIZES |= {("batch-mean", f"layer{i}.running_mean"): 64 for i in range(20)}
SIZES |= {("batch-variance", f"layer{i}.running_var"): 64 for i in range(20)}
# A single number would be as near or far as chance wants it.
SIZES |= {("loss", "loss"): 64}


def true_step() -> dict[tuple[str, str], list[Any]]:
    draw = np.random.default_rng(1)
    return {key: [draw.normal(size=size) for _ in range(5)] for key, size in SIZES.items()}


def rounded(truth: dict[tuple[str, str], list[Any]], seed: int, part: float = 0.05) -> Any:
    """What a step in few bits makes of it: as far from the truth as ``part`` of it."""
    draw = np.random.default_rng(seed)
    return {
        key: [step + part * draw.normal(size=step.shape) for step in steps] for key, steps in truth.items()
    }


def test_a_step_that_rounds_as_much_as_the_plain_one_holds(mixed: Any) -> None:
    truth = true_step()

    findings = mixed.judged(truth, rounded(truth, 2), rounded(truth, 3))

    assert len(findings) == len(SIZES)
    assert [finding for finding in findings if not finding.holds] == []


def test_a_kernel_that_is_wrong_in_one_parameter_is_named(mixed: Any) -> None:
    truth = true_step()
    own = rounded(truth, 3)
    wrong = ("update", "layer7.weight")
    own[wrong] = [1.2 * step for step in own[wrong]]

    (finding,) = [finding for finding in mixed.judged(truth, rounded(truth, 2), own) if not finding.holds]

    assert finding[:2] == wrong
    assert finding.own == pytest.approx(0.2, rel=0.2)


def test_a_statistic_in_fewer_bits_than_the_plain_one_does_not_hold(mixed: Any) -> None:
    truth = true_step()
    own = rounded(truth, 3)
    own["batch-mean", "layer0.running_mean"] = rounded(truth, 4, part=0.1)[
        "batch-mean", "layer0.running_mean"
    ]

    wrong = [finding.name for finding in mixed.judged(truth, rounded(truth, 2), own) if not finding.holds]

    assert wrong == ["layer0.running_mean"]


def test_what_is_no_number_does_not_hold(mixed: Any) -> None:
    truth = true_step()
    own = rounded(truth, 3)
    own["update", "layer0.weight"][2][5] = float("nan")

    wrong = [finding.name for finding in mixed.judged(truth, rounded(truth, 2), own) if not finding.holds]

    assert wrong == ["layer0.weight"]


def test_where_rounding_hides_an_update_of_zero_nothing_is_said_to_hold(mixed: Any) -> None:
    truth = true_step()
    zero = {key: [np.zeros_like(step) for step in steps] for key, steps in truth.items()}

    findings = mixed.judged(truth, rounded(truth, 2, part=0.7), zero)

    assert all(finding.own <= finding.limit for finding in findings)
    assert not any(finding.holds for finding in findings)


def test_a_resnets_blocks_begin_damped_and_nothing_else_does(mixed: Any) -> None:
    names = (
        "stage1.block0.c.bn.weight",
        "stage1.block0.c.bn.bias",
        "stage1.block0.a.bn.weight",
        "dw3.bn.weight",
    )

    begun = mixed.damped({name: np.ones(2) for name in names})

    assert {name: float(value[0]) for name, value in begun.items()} == dict(
        zip(names, (mixed.DAMPED, 1.0, 1.0, 1.0), strict=True)
    )


def test_a_step_that_was_skipped_does_not_hold(mixed: Any) -> None:
    truth = true_step()
    own = rounded(truth, 3)
    for key, steps in own.items():
        if key[0] == "update":
            steps[3] = np.zeros_like(steps[3])

    wrong = {finding.kind for finding in mixed.judged(truth, rounded(truth, 2), own) if not finding.holds}

    assert wrong == {"update"}
