"""Steps at a rate of 0 on one batch have other losses if, and only if, something is dropped at random."""

from types import SimpleNamespace
from typing import Any

import pytest

from trainmark.worker.core.recipe_checks import check_dropout
from trainmark.worker.core.task import Verified
from trainmark.worker.core.training import DROPOUT_STEPS, WITNESS_STEPS

STEPS = 10


class Rank:
    """A training whose losses are given."""

    def __init__(self, losses: list[float]) -> None:
        self._after = losses
        self.batch: Any = "one"
        self.trained: list[tuple[int, Any]] = []

    def train(self, index: int) -> None:
        self.trained.append((index, self.batch))
        self.batch = "another"

    def synchronize(self) -> None:
        pass

    def losses(self) -> list[float]:
        return [7.0] * (STEPS + WITNESS_STEPS) + self._after


def checked(losses: list[float], dropout: float = 0.1) -> tuple[Rank, Verified]:
    rank, settings = Rank(losses), SimpleNamespace(dropout=dropout, steps=STEPS)
    return rank, check_dropout(rank, settings)  # type: ignore[arg-type]


def test_losses_that_differ_are_in_no_doubt_and_all_steps_have_one_batch() -> None:
    rank, found = checked([6.2, 6.21, 6.19, 6.2])
    assert found == Verified({"dropout_losses": [6.2, 6.21, 6.19, 6.2]})
    first = STEPS + WITNESS_STEPS
    assert rank.trained == [(index, "one") for index in range(first, first + DROPOUT_STEPS)]


@pytest.mark.parametrize("last", [6.2, 6.2 * (1 + 2**-23)])
def test_equal_losses_are_a_doubt_also_if_a_sum_is_rounded_in_another_order(last: float) -> None:
    _, found = checked([6.2, 6.2, 6.2, last])
    assert found.doubts == [
        (
            "dropout-not-random",
            "4 steps on one batch and with the same weights have the same loss, 6.2: nothing is dropped, or always the "
            "same, but a dropout of 0.1 was requested.",
        )
    ]


@pytest.mark.parametrize("loss", [0.0, float("nan"), float("inf")])
def test_a_loss_that_shows_nothing_is_not_checked_and_never_clean(loss: float) -> None:
    _, found = checked([loss] * 4)
    assert (found.doubts, found.not_checked) == ([], ["dropout"])


def test_a_recipe_without_dropout_has_no_such_steps() -> None:
    rank, found = checked([], dropout=0.0)
    assert (rank.trained, found) == ([], Verified())
