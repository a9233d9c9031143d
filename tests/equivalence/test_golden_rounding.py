"""Steps in a low precision: their tolerances follow from the format, and are compared with the golden observation."""

import importlib
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trainmark.equivalence import (
    Reference,
    compare_golden,
    compare_rounded,
    follows_rounded,
    golden_of,
    golden_rounding,
    party,
)
from trainmark.equivalence.golden import FOLDER
from trainmark.equivalence.inputs import NO_RULES
from trainmark.equivalence.rounding import ALL, JOINT, SIGNIFICANT_BITS, WORST, Rounding
from trainmark.schema.certificate import Check, Pair, Subject
from trainmark.schema.observation import Observation, Sketch
from trainmark.schema.precision import Precision

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
golden_observations: Any = importlib.import_module("golden_observations")

MODEL = "gpt2_tiny"
BF16 = Precision.AMP_BF16
LUCKY = (("8", 0.001), ("11", 0.001))
OBSERVED: list[tuple[str, dict[str, str]]] = golden_observations.wanted()
"""Each model with the rules of each of its golden observations."""


def expected(
    model: str = MODEL, precision: Precision = BF16, rules: Mapping[str, str] = NO_RULES
) -> Rounding:
    rounding = golden_rounding(model, rules, precision)
    assert rounding is not None
    return rounding


def exact() -> Observation:
    golden = golden_of(MODEL)
    assert golden is not None
    return golden


def deviating(by: float, seed: int = 0) -> Observation:
    """Return the golden steps, whose first one deviates by ``by`` times what BF16 implies, at random."""
    golden, rounding, source = exact(), expected(), random.Random(seed)

    def noisy(sketch: Sketch, distance: float) -> Sketch:
        error = source.gauss(0, by * distance * sketch.norm)
        return Sketch(norm=sketch.norm, signed_sum=sketch.signed_sum + error)

    def all_noisy(sketches: Mapping[str, Sketch], distances: Mapping[str, float]) -> dict[str, Sketch]:
        return {name: noisy(sketch, distances[name]) for name, sketch in sketches.items()}

    first = golden.steps[0]
    changed = first.model_copy(
        update={
            "gradients": all_noisy(first.gradients, rounding.gradients),
            "updates": all_noisy(first.updates, rounding.updates),
            "logits": noisy(first.logits, rounding.logits),  # type: ignore[attr-defined]
        }
    )
    steps = (changed, *golden.steps[1:])
    return golden.model_copy(update={"framework": "pytorch", "steps": steps})


def compared(observation: Observation, precision: Precision = BF16) -> Pair:
    return compare_rounded(observation, exact(), expected(precision=precision), precision)


def wrong(observation: Observation) -> set[Subject]:
    return {check.subject for check in compared(observation).checks if not check.holds}


def test_a_model_without_a_golden_observation_has_no_rounding() -> None:
    assert golden_rounding("gpt2_unknown", {}, BF16) is None


@pytest.mark.parametrize(("model", "rules"), OBSERVED)
def test_every_golden_observation_has_the_rounding_of_both_formats(model: str, rules: dict[str, str]) -> None:
    bf16, fp16 = expected(model, rules=rules), expected(model, Precision.AMP_FP16, rules)
    # Eight times as fine; the root of that where a value turns at a ReLU.
    ratios = [bf16.gradients[name] / distance for name, distance in fp16.gradients.items()]
    assert min(ratios) > 2.5
    assert max(ratios) < 17
    assert 0 < fp16.logits < bf16.logits < 0.1
    assert 0 < fp16.loss < bf16.loss


def test_formats_have_the_significant_bits_of_their_definition() -> None:
    numpy = pytest.importorskip("numpy")
    for precision in (Precision.FP16, Precision.AMP_FP16):
        assert SIGNIFICANT_BITS[precision] == numpy.finfo(numpy.float16).nmant + 1
    assert SIGNIFICANT_BITS[Precision.BF16] == 8
    assert SIGNIFICANT_BITS[Precision.FP32] == numpy.finfo(numpy.float32).nmant + 1
    assert Precision.FP8 not in SIGNIFICANT_BITS


@pytest.mark.parametrize("seed", range(20))
def test_a_step_that_rounds_as_its_format_does_is_accepted(seed: int) -> None:
    assert wrong(deviating(1.0, seed)) == set()


@pytest.mark.parametrize("seed", range(20))
def test_a_step_that_rounds_three_times_as_much_is_refused(seed: int) -> None:
    assert Subject.ROUNDING in wrong(deviating(3.0, seed))


def test_one_wrong_array_is_refused_and_named() -> None:
    right = deviating(0.5)
    name = "block1.mlp.down.weight"
    sketch = right.steps[0].gradients[name]
    gradients = {**right.steps[0].gradients, name: Sketch(norm=sketch.norm / 2, signed_sum=sketch.signed_sum)}
    first = right.steps[0].model_copy(update={"gradients": gradients})
    pair = compared(right.model_copy(update={"steps": (first, *right.steps[1:])}))
    (check,) = [check for check in pair.checks if check.subject is Subject.GRADIENTS]
    assert not check.holds
    assert check.where == name
    assert check.tolerance == pytest.approx(WORST * expected().gradients[name])


def test_a_step_without_any_rounding_was_not_computed_in_the_format() -> None:
    (check,) = [check for check in compared(exact()).checks if check.subject is Subject.ROUNDING]
    assert check.holds
    assert check.tolerance == JOINT
    assert check.remark == "hardly any rounding: the products were not computed in bf16"


def test_the_step_of_bf16_is_refused_as_one_of_fp16() -> None:
    pair = compared(deviating(1.0), Precision.AMP_FP16)
    assert {Subject.ROUNDING, Subject.GRADIENTS} <= {
        check.subject for check in pair.checks if not check.holds
    }


def test_a_value_that_turned_in_the_coarse_format_alone_may_turn_in_the_fine_one() -> None:
    steps = {"8": {"gradients": {"many": 0.18}}, "11": {"gradients": {"many": 0.0012}}}
    pooled = golden_observations.pool_formats(steps, {"many": 100})
    assert pooled["8"]["gradients"]["many"] == 0.18
    assert pooled["11"]["gradients"]["many"] == pytest.approx(0.18 / 8**0.5, rel=0.05)


def test_updates_of_weights_in_16_bits_are_not_compared() -> None:
    found = follows_rounded(exact(), exact(), expected(), Precision.BF16, {}, "none")
    assert {check.subject for check in found.checks} == {Subject.PARAMETERS, Subject.LOSS}
    mixed = follows_rounded(exact(), exact(), expected(), BF16, {}, "none")
    assert {check.subject for check in mixed.checks} > {Subject.UPDATES, Subject.UPDATE_NORM}
    assert mixed.holds


def test_a_party_in_a_low_precision_has_no_solved_optimizer() -> None:
    found = party(exact(), {}, None, None, reference=Reference(precision=BF16, rounding=expected()))
    assert found.holds
    assert found.decaying is None
    assert Subject.LEARNING_RATE not in {check.subject for check in found.checks}


def test_the_loss_of_a_lucky_emulation_is_no_tight_tolerance() -> None:
    steps = {bits: {"loss": {ALL: loss}, "gradients": {"one": loss, "many": loss}} for bits, loss in LUCKY}
    pooled = golden_observations.pool_formats(steps, {"one": 1, "many": 100})
    assert pooled["8"]["loss"][ALL] == pooled["8"]["gradients"]["one"] == pytest.approx(0.008)
    # A value of many has turned at a ReLU in the fine format, and more often in the coarse one.
    assert pooled["8"]["gradients"]["many"] == pytest.approx(0.001 * 8**0.5, rel=0.05)
    assert pooled["11"]["loss"][ALL] == 0.001
    assert expected().loss == pytest.approx(8 * expected(precision=Precision.FP16).loss, rel=0.05)


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 500_000


def typical(one: Observation) -> Check:
    """Return the check of the median deviation of steps in FP32."""
    pair = compare_golden(one, exact(), expected(precision=Precision.FP32))
    (found,) = [check for check in pair.checks if check.subject is Subject.ROUNDING]
    return found


def test_half_of_the_arrays_in_fp32_deviate_by_no_more_than_sums_in_another_order() -> None:
    fp32, fp16 = expected(precision=Precision.FP32), expected(precision=Precision.FP16)
    assert fp32.logits == pytest.approx(fp16.logits / 2**13)
    assert typical(deviating(2**-16 * 8)).holds
    assert not typical(deviating(2**-16 * 400)).holds


def test_a_single_array_that_turned_at_a_relu_is_no_rounding() -> None:
    golden = exact()
    sketch = golden.steps[0].gradients["norm.weight"]
    changed = Sketch(norm=sketch.norm * 1.03, signed_sum=sketch.signed_sum)
    gradients = {**golden.steps[0].gradients, "norm.weight": changed}
    first = golden.steps[0].model_copy(update={"gradients": gradients})
    assert typical(golden.model_copy(update={"steps": (first, *golden.steps[1:])})).holds
