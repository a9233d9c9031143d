"""What is stored in FP32 has the digits of FP32: what fits in 16 bits is a doubt, whatever its type is called."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainmark.worker.core.optimizers import Moments
from trainmark.worker.core.post_window import check_digits
from trainmark.worker.core.precision import Precision
from trainmark.worker.core.settings import AdamRecipe
from trainmark.worker.core.task import Verified
from trainmark.worker.core.update_checks import WitnessedStep

SIZE = 64
RANDOM = np.random.default_rng(0)


def values(size: int = SIZE) -> Any:
    return RANDOM.standard_normal(size).astype(np.float32)


def narrow(array: Any, bits: int = 16) -> Any:
    """Return the values with the last bits of FP32 cut off: 16 for BF16, 13 for FP16."""
    return (array.view(np.uint32) & np.uint32(2**32 - 2**bits)).view(np.float32)


def recipe(momentum: float = 0.9) -> AdamRecipe:
    return AdamRecipe(
        learning_rate=1e-3, momentum=momentum, weight_decay=0.0, schedule="constant", epochs=1, warmup_epochs=0,
        loss_scale=None, second_momentum=0.999, epsilon=1e-8, optimizer="adam", clip_norm=None, warmup_updates=0,
    )  # fmt: skip


def checked(
    first: Any = None,
    after: Any = None,
    gradient: Any = None,
    *,
    fp32: bool = True,
    compute: str = "float32",
    momentum: float = 0.9,
    scale: Any = None,
) -> Any:
    rank: Any = SimpleNamespace(
        expected=lambda: Precision(compute, "float32" if fp32 else "bfloat16"),
        task=SimpleNamespace(is_trainable=lambda name: "running" not in name),
    )
    settings: Any = SimpleNamespace(recipe=recipe(momentum))
    before, later = {"w": values()}, {"w": values() if after is None else after}
    moments = Moments(9, {"w": values() if first is None else first}, {"w": values() ** 2})
    own = SimpleNamespace(gradients={"w": values() if gradient is None else gradient})
    if scale is not None:
        own.gradients["scale"] = scale
    weights: Any = ({}, before, later)
    found = check_digits(WitnessedStep(rank, settings, 0, weights, (moments, None), own, None, moves=True))
    return found.data["narrow"], [code for code, _ in found.doubts]


def test_values_of_fp32_are_in_no_doubt() -> None:
    assert checked() == ([], [])


@pytest.mark.parametrize("bits", [13, 16])
@pytest.mark.parametrize(("what", "named"), [
    ("first", "first moment of w"), ("after", "weights of w"), ("gradient", "gradient of w"),
])  # fmt: skip
def test_values_of_16_bits_are_a_doubt(what: str, named: str, bits: int) -> None:
    assert checked(**{what: narrow(values(), bits)}) == ([named], ["stored-in-16-bits"])


def test_one_element_of_fp32_is_enough() -> None:
    array = narrow(values())
    array[5] = np.float32(1 / 3)
    assert checked(first=array) == ([], [])


def test_zeros_equal_elements_and_few_elements_are_no_evidence() -> None:
    assert checked(first=np.zeros(SIZE, np.float32)) == ([], [])
    assert checked(first=np.full(SIZE, 0.5, np.float32)) == ([], [])
    assert checked(first=narrow(values(15))) == ([], [])


def test_what_rounding_leaves_of_a_gradient_of_zero_is_no_evidence() -> None:
    """A scale before another batch norm has a gradient of terms that cancel but for their last bits."""
    assert checked(scale=narrow(values()) * np.float32(2**-25)) == ([], [])
    assert checked(scale=narrow(values()) * np.float32(2**-10))[0] == ["gradient of scale"]


def test_weights_that_did_not_move_are_no_evidence() -> None:
    """A norm's weights begin as ones."""
    rank: Any = SimpleNamespace(
        expected=lambda: Precision("float32"),
        task=SimpleNamespace(is_trainable=lambda _: True),
    )
    settings: Any = SimpleNamespace(recipe=recipe())
    still = {"w": narrow(values())}
    step = WitnessedStep(rank, settings, 0, (still, still, still), (None, None), None, None, moves=True)
    assert check_digits(step) == Verified({"narrow": []})


def test_sixteen_bits_are_right_where_they_were_requested() -> None:
    assert checked(first=narrow(values()), fp32=False) == (None, [])
    assert checked(gradient=narrow(values()), compute="bfloat16") == ([], [])


def test_a_beta_of_few_digits_makes_short_moments_of_short_gradients() -> None:
    assert checked(first=narrow(values()), momentum=0.875) == ([], [])
