"""What tasks say of models and units, asked of all of them."""

import pytest

from trainmark.schema.case import UNKNOWN, case_of
from trainmark.tasks import TASKS, same_unit


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_case_that_names_no_model_has_its_tasks_first(task: str) -> None:
    assert case_of(task=task).model == next(iter(TASKS[task].models), UNKNOWN)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("images/s", "img/s", True),
        ("images/s", "samples/s", True),
        ("sequences/s", "samples/s", True),
        ("words/s", "tokens/s", True),
        ("images/s", "sequences/s", False),
        ("images/s", "tokens/s", False),
        ("rows/s", "row/s", True),
    ],
)
def test_a_samples_unit_goes_by_looser_words(one: str, other: str, same: bool) -> None:
    assert same_unit(one, other) is same is same_unit(other, one)
