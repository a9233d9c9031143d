"""Sequences with hidden words: made from a seed, gone on with, verified, and read as the workers read them."""

import math
from pathlib import Path

import numpy as np
import pytest

from trainmark.dataset import ProblemKind, kind_of, masked
from trainmark.dataset.example import decode_lists, encode_lists
from trainmark.dataset.tfrecord import frame, read_records
from trainmark.errors import InputError
from trainmark.worker.core.arguments import parse
from trainmark.worker.core.outcomes import RunError
from trainmark.worker.tasks.masked_lm.task import MaskedSettings
from trainmark.worker.tasks.masked_lm.training import RecordFiles
from trainmark.worker.tasks.masked_lm.training import parse as parse_quickly

SPEC = masked.MaskedSpec(
    sequences=50, sequence_length=32, predictions=5, vocabulary=512, short=50, shards=3, seed=3
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    masked.make_masked(tmp_path / "set", SPEC)
    return tmp_path / "set"


def found(folder: Path, vocabulary: int | None = None) -> list[tuple[str, ProblemKind, str]]:
    report = masked.verify(folder, vocabulary=vocabulary)
    return [(problem.path, problem.kind, problem.detail) for problem in report.problems]


def settings(*more: str) -> MaskedSettings:
    words = ["--framework=pytorch", "--model=bert_tiny", "--batch-per-device=4", "--sequence-length=32"]
    parsed = parse([*words, "--predictions=5", *more], 1)
    assert isinstance(parsed, MaskedSettings)
    return parsed


def rewrite(path: Path, number: int, **changed: list[int]) -> None:
    """Change features of one record, whose framing stays right."""
    with path.open("rb") as file:
        records = [record.data for record in read_records(file, path.stat().st_size)]
    records[number] = encode_lists({**decode_lists(records[number]), **changed})
    path.write_bytes(b"".join(map(frame, records)))


def test_a_created_set_is_valid_and_equal_specs_give_equal_files(folder: Path, tmp_path: Path) -> None:
    report = masked.verify(folder)
    assert (report.files, report.records, report.problems) == (3, 50, ())
    masked.make_masked(tmp_path / "other", SPEC)
    for name in SPEC.files:
        assert (folder / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_record_has_the_features_of_the_published_pre_processing(folder: Path) -> None:
    path = folder / "train-00001-of-00003.tfrecord"
    with path.open("rb") as file:
        first = next(read_records(file, path.stat().st_size)).data
    features = decode_lists(first)
    sizes = {name: len(values) for name, values in features.items()}
    assert sizes == {
        **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), 32),
        **dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"), 5),
        "next_sentence_labels": 1,
    }
    length, hidden = int(sum(features["input_mask"])), int(sum(features["masked_lm_weights"]))
    assert hidden == min(5, max(1, round(length * 0.15)))
    assert features["input_ids"][0] == 101
    assert {name: values.tolist() for name, values in parse_quickly(first).items()} == features


def test_large_and_negative_integers_round_trip() -> None:
    values: dict[str, list[int] | list[float]] = {"a": [0, 127, 128, 300, 2**40], "b": [0.5, -1.0]}
    parsed = parse_quickly(encode_lists(values))
    assert {name: found.tolist() for name, found in parsed.items()} == values
    assert decode_lists(encode_lists({"a": [-1, 5]}))["a"] == [-1, 5]


def test_the_worker_reads_a_created_set(folder: Path) -> None:
    files = RecordFiles(str(folder), settings(f"--data={folder}"))
    assert files.sequences == 50
    tokens, segments, lengths, places, words, weights, follows = files.rows(range(50))
    assert (tokens.shape, segments.shape, lengths.shape) == ((50, 32), (50, 32), (50,))
    assert (places.shape, words.shape, weights.dtype, follows.shape) == ((50, 5), (50, 5), np.float32, (50,))
    assert {32} < set(lengths.tolist())
    assert not tokens[np.arange(32) >= lengths[:, None]].any()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"input_ids": [600] * 32}, "a token outside of the {}vocabulary of 512"),
        ({"input_mask": [1, 0] * 16}, "has padding between its tokens"),
        ({"input_ids": [1] * 31}, "has 31"),
        ({"masked_lm_positions": [40] * 5}, "hides words of padding"),
    ],
    ids=["token", "mask", "length", "place"],
)
def test_an_invalid_record_is_found_by_verification_and_worker(
    folder: Path, changed: dict[str, list[int]], message: str
) -> None:
    name = "train-00001-of-00003.tfrecord"
    rewrite(folder / name, 2, **changed)
    problems = found(folder)
    assert (name, ProblemKind.BROKEN) in [problem[:2] for problem in problems]
    assert any(message.format("") in detail and detail.startswith("record 2 ") for _, _, detail in problems)
    with pytest.raises(RunError) as raised:
        RecordFiles(str(folder), settings(f"--data={folder}")).rows(range(50))
    assert f"record 2 of {folder / name} " in raised.value.reason
    assert message.format("model's ") in raised.value.reason


def test_damage_is_found(folder: Path) -> None:
    names = list(SPEC.files)
    data = bytearray((folder / names[0]).read_bytes())
    data[100] ^= 1
    (folder / names[0]).write_bytes(data)
    (folder / names[1]).write_bytes((folder / names[1]).read_bytes()[:-5])
    (folder / names[2]).unlink()
    kinds = {(path, kind) for path, kind, _ in found(folder)}
    assert kinds == {
        (names[0], ProblemKind.BROKEN),
        (names[0], ProblemKind.CORRUPTED),
        (names[1], ProblemKind.TRUNCATED),
        (names[1], ProblemKind.CORRUPTED),
        (names[2], ProblemKind.MISSING),
    }
    with pytest.raises(RunError, match="is cut in the record"):
        RecordFiles(str(folder), settings(f"--data={folder}"))


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no \*\.tfrecord"):
        RecordFiles(str(tmp_path), settings(f"--data={tmp_path}"))
    with pytest.raises(InputError, match="'trainmark data make-masked"):
        masked.describe(tmp_path / "nothing")


def test_it_is_the_kind_of_the_task(tmp_path: Path) -> None:
    kind = kind_of("masked")
    kind.make(tmp_path / "set", SPEC.model_dump(), "datasets", 1, lambda *_: None)
    kind.check_folder(tmp_path / "set", kind.base_form)
    assert not kind.is_convertible("tfrecord")
    with pytest.raises(InputError, match="is not a key"):
        kind.make(tmp_path / "set", {"sequences": 4, "shard": 2}, "datasets", 1, lambda *_: None)
    assert math.isclose(sum(SPEC.files.values()), 50)
