"""A suite's data sets of text: those that there is one form of are made, and nothing need convert to it."""

from pathlib import Path

import pytest

from trainmark.campaign.data_sets import DataSets
from trainmark.words.suite import Dataset


@pytest.mark.parametrize(
    ("task", "form", "make", "files"),
    [
        ("causal-lm", "tokens", {"tokens": 100, "vocabulary": 300}, 1),
        (
            "masked-lm",
            "masked-tfrecord",
            {"sequences": 4, "sequence_length": 16, "predictions": 2, "vocabulary": 300, "shards": 2},
            2,
        ),
    ],
)
def test_a_data_set_of_one_form_is_made(
    task: str, form: str, make: dict[str, int], files: int, tmp_path: Path
) -> None:
    sets = DataSets({"words": Dataset(task=task, make=make)}, tmp_path, 1)
    sets.prepare("words", form, lambda *_: None)
    folder = sets.given("words", form)
    assert len([*folder.glob("*.bin"), *folder.glob("*.tfrecord")]) >= files
