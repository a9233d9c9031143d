"""The samples of a run: repeated, left out or shared ones, and labels that are all the same, are doubts."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainmark.worker.core.queues import SampleCounter
from trainmark.worker.core.sample_survey import survey_samples
from trainmark.worker.tasks.causal_lm.task import count_sequences
from trainmark.worker.tasks.image_classification.images import read_images
from trainmark.worker.tasks.image_classification.task import list_images

BATCH = 8
Numbers = Sequence[int]


class Rank:
    """One rank that reads samples of a data set by number; a sample is its number and its label."""

    def __init__(
        self,
        batches: Sequence[Numbers],
        there: int = 512,
        epoch: int | None = None,
        label: Any = lambda number: number % 3,
        others: Sequence[Sequence[Numbers]] = (),
        records: bool = True,
        listed: bool = True,
    ) -> None:
        self._batches, self._label, self._others = iter(batches), label, others
        self.epoch_samples = there if epoch is None else epoch
        produced = SampleCounter()
        for batch in batches if records else ():
            produced.add(len(batch), batch)
        self.feed = SimpleNamespace(next=self.read, produced=produced)
        self.ranks = SimpleNamespace(place=SimpleNamespace(world_size=1 + len(others), rank=0))
        self.task = SimpleNamespace(
            labels=lambda _settings, batch: (batch[1], 0.5),
            count_samples=lambda _settings: there,
            list_samples=lambda _settings: list(range(there)) if listed else None,
        )
        self.batch = self.read()

    def read(self) -> Any:
        numbers = np.array(next(self._batches))
        return numbers, np.array([self._label(int(number)) for number in numbers])

    def read_batch(self) -> Any:
        return self.batch

    def gather(self, own: Sequence[int]) -> Any:
        from trainmark.worker.core.sample_survey import _row_digests

        labelled = [
            [(np.array(batch), np.array([self._label(n) for n in batch])) for batch in rank]
            for rank in self._others
        ]
        digests = [[d for batch in rank for d in _row_digests(batch, BATCH)] for rank in labelled]
        return [list(own), *(rank[: len(own)] for rank in digests)]

    def survey(self, synthetic: bool = False) -> Any:
        settings = SimpleNamespace(synthetic=synthetic, batch_per_device=BATCH)
        trained_on, self.batch = self.batch, self.batch if synthetic else self.feed.next()
        found = survey_samples(self, settings, [trained_on])  # type: ignore[arg-type]
        return found.data["samples"], found.doubts, found.not_checked

    def codes(self, synthetic: bool = False) -> list[str]:
        return [code for code, _ in self.survey(synthetic)[1]]


def shuffled(samples: int = 512, batches: int = 60, seed: int = 0) -> list[list[int]]:
    random, row = np.random.default_rng(seed), list[int]()
    while len(row) < batches * BATCH:
        row += random.permutation(samples).tolist()
    return [row[start : start + BATCH] for start in range(0, batches * BATCH, BATCH)]


def test_a_shuffled_data_set_is_in_no_doubt_however_small() -> None:
    for samples in (12, 24, 100, 512, 100_000):
        report, doubts, not_checked = Rank(shuffled(samples), there=samples).survey()
        assert doubts == [], samples
        assert not_checked == []
        assert report["read"] == 480
        assert report["read_distinct"] <= samples


def test_batches_in_turn_are_a_doubt() -> None:
    two = shuffled()[:2] * 30
    assert Rank(two, records=False).codes() == ["batches-repeat"]


def test_a_part_of_the_data_set_is_a_doubt() -> None:
    few = [[number % 64 for number in batch] for batch in shuffled()]
    report, doubts, _ = Rank(few).survey()
    assert doubts == [
        (
            "samples-repeat",
            "The loader read 480 samples, and only 64 different ones; the data set has 512.",
        )
    ]
    assert report["read_distinct"] == 64


def test_a_shorter_epoch_than_the_data_set_is_a_doubt() -> None:
    _, doubts, _ = Rank(shuffled(64), epoch=64).survey()
    assert doubts[0] == ("samples-left-out", "An epoch has 64 samples, but the data set has 512.")


def test_labels_that_are_all_the_same_are_a_doubt() -> None:
    assert Rank(shuffled(), label=lambda _number: 0).codes() == ["labels-all-equal"]
    assert Rank(shuffled(), label=lambda number: int(number < 400)).codes() == []


def test_ranks_that_read_the_same_are_a_doubt_on_read_and_on_synthetic_data() -> None:
    batches, apart = shuffled(), [[number + 256 for number in batch] for batch in shuffled(256)]
    assert Rank(batches, others=[batches]).codes() == ["ranks-share-samples"]
    assert Rank(batches, others=[batches]).codes(synthetic=True) == ["ranks-share-samples"]
    assert Rank(shuffled(256), others=[apart]).codes() == []
    # In a small data set a rank gets in one epoch what another had in the one before.
    row = [number for batch in shuffled(24, 120) for number in batch]
    ranks = [[row[start + o : start + o + BATCH] for start in range(0, 480, 16)] for o in (0, 8)]
    assert Rank(ranks[0], there=24, others=[ranks[1]]).codes() == []


def test_a_loader_that_records_no_numbers_is_not_checked_and_never_clean() -> None:
    report, doubts, not_checked = Rank(shuffled(), records=False).survey()
    assert doubts == []
    assert report["read_distinct"] is None
    assert not_checked == ["numbers of the samples"]


def test_a_data_set_is_counted_without_the_loaders_code(tmp_path: Path) -> None:
    for name in ("a/1.jpg", "a/2.JPEG", "b/3.jpg", "b/notes.txt", ".hidden/4.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "list.txt").write_text("a/1.jpg 0\nb/3.jpg 1\n\n", encoding="utf-8")
    assert len(list_images(str(tmp_path)) or ()) == 3
    assert len(list_images(str(tmp_path / "list.txt")) or ()) == 2
    assert list_images(str(tmp_path / "a")) is None
    (tmp_path / "train.bin").write_bytes(bytes(2 * 101))
    assert count_sequences(str(tmp_path), 10) == 10
    (tmp_path / "dataset.json").write_text('{"type": "uint32"}', encoding="utf-8")
    assert count_sequences(str(tmp_path / "train.bin"), 10) == 4
    assert count_sequences(str(tmp_path / "none"), 10) is None


def test_numbers_of_large_batches_are_recorded_in_part_and_all_samples_counted() -> None:
    produced = SampleCounter()
    produced.add(100, range(100))
    produced.add()
    assert produced.count() == 101
    assert produced.numbers() == list(range(64))


def test_batches_that_are_half_copies_are_in_doubt_on_read_and_on_synthetic_data() -> None:
    halves = [[*batch[: BATCH // 2], *batch[: BATCH // 2]] for batch in shuffled()]
    report, doubts, _ = Rank(halves, records=False).survey()
    assert (report["copies"], [code for code, _ in doubts]) == (0.5, ["batch-has-copies"])
    assert Rank(halves, records=False).codes(synthetic=True) == ["batch-has-copies"]
    assert Rank(shuffled()).survey()[0]["copies"] == 0
    # In a data set of less than four batches a batch may span epochs.
    assert Rank(shuffled(24), there=24).survey()[0]["copies"] is None


def test_samples_that_are_drawn_with_replacement_are_no_copies() -> None:
    for seed in range(20):
        drawn = np.random.default_rng(seed).integers(4 * BATCH, size=(60, BATCH)).tolist()
        assert "batch-has-copies" not in Rank(drawn, there=4 * BATCH, records=False).codes()


@pytest.mark.parametrize("rows", [BATCH, BATCH + 1])
def test_arrays_without_a_row_for_each_sample_are_not_compared(rows: int) -> None:
    rank = Rank(shuffled())
    rank.batch = rank.batch if rows == BATCH else (np.zeros(rows), rank.batch[1][:1])
    rank.feed.next = lambda: rank.batch
    report, _, not_checked = rank.survey()
    assert (report["compared"] is None) is (rows != BATCH)
    assert ("samples" in not_checked) is (rows != BATCH)


def test_an_order_that_is_not_shuffled_is_in_doubt() -> None:
    in_turn = [range(start, start + BATCH) for start in range(0, 160, BATCH)]
    report, doubts, _ = Rank(in_turn).survey()
    assert "samples-not-shuffled" in [code for code, _ in doubts]
    assert report["in_order"] == 1.0
    report, doubts, _ = Rank(shuffled()).survey()
    assert "samples-not-shuffled" not in [code for code, _ in doubts]
    assert report["in_order"] < 0.1
    report, doubts, _ = Rank(in_turn, listed=False).survey()
    assert "samples-not-shuffled" not in [code for code, _ in doubts]
    assert report["in_order"] is None


def test_loader_processes_that_take_turns_do_not_hide_the_order() -> None:
    half = BATCH // 2
    starts = range(0, 160, BATCH)
    swapped = [[*range(start + half, start + BATCH), *range(start, start + half)] for start in starts]
    report, doubts, _ = Rank(swapped).survey()
    assert "samples-not-shuffled" in [code for code, _ in doubts]
    assert report["in_order"] > 0.5


def test_the_list_of_a_data_set_is_that_of_the_loader(tmp_path: Path) -> None:
    for name in ("b/2.jpg", "b/10.JPEG", "a/x.jpg", "a/notes.txt", ".hidden/y.jpg"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(b"")
    lines = "data/b/2.jpg 1\n\ndata/a/with space.jpg 0\n"
    (tmp_path / "list.txt").write_text(lines, encoding="utf-8")
    for source in (tmp_path / "data", tmp_path / "list.txt"):
        assert list_images(str(source)) == read_images(str(source), 2).paths
    assert list_images(str(tmp_path / "missing")) is None
