"""A suite's data sets of text: those that there is one form of are made, and nothing need convert to it."""

from pathlib import Path

import numpy as np
import pytest

from trainmark.campaign.data_sets import DataSets
from trainmark.dataset import clicks
from trainmark.errors import InputError
from trainmark.schema.suite import Dataset


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


@pytest.mark.parametrize(
    ("task", "form"),
    [
        ("masked-lm", "hdf5"),
        ("masked-lm", "ofrecord"),
        ("causal-lm", "megatron"),
        ("recommendation", "ofrecord"),
        ("recommendation", "nvtabular"),
    ],
)
def test_a_form_that_only_other_programs_read_is_given_or_missing(
    task: str, form: str, tmp_path: Path
) -> None:
    folder = tmp_path / "theirs"
    given = DataSets({"words": Dataset(task=task, formats={form: str(folder)})}, tmp_path, 1)
    with pytest.raises(InputError, match="theirs: cannot be read"):
        given.prepare("words", form, lambda *_: None)
    folder.mkdir()
    with pytest.raises(InputError, match="theirs: is empty"):
        given.prepare("words", form, lambda *_: None)
    (folder / "training-0").touch()
    given.prepare("words", form, lambda *_: None)
    assert given.given("words", form) == folder

    missing = DataSets({"words": Dataset(task=task, path=str(tmp_path / "ours"))}, tmp_path, 1)
    with pytest.raises(InputError, match="cannot be converted to it"):
        missing.prepare("words", form, lambda *_: None)


def test_clicks_that_cannot_be_trained_on_are_not_converted_for_a_case(tmp_path: Path) -> None:
    folder = tmp_path / "clicks"
    clicks.make_clicks(folder, clicks.ClickSpec(samples=20, vocabulary=1000))
    samples = np.fromfile(folder / "train.bin", "<u4").reshape(-1, 40)
    samples[7, 0] = 7
    samples.tofile(folder / "train.bin")
    sets = DataSets({"clicks": Dataset(task="recommendation", path=str(folder))}, tmp_path / "home", 1)
    with pytest.raises(InputError, match=r"clicks/train.bin: sample 7 has label 7, not 0 or 1; repair the"):
        sets.prepare("clicks", "tfrecord", lambda *_: None)
    assert not [*(tmp_path / "home").rglob("*.tfrecord")]
