"""Packed tokens: made from a seed, gone on with after an interruption, and what verification finds in them."""

from pathlib import Path

import numpy as np
import pytest

from trainmark.dataset import ProblemKind
from trainmark.dataset import tokens as packed
from trainmark.worker.core.feed import shard_batches
from trainmark.worker.core.outcomes import RunError
from trainmark.worker.core.place import place_from
from trainmark.worker.tasks.causal_lm.training import TokenFile

SPEC = packed.TokenSpec(tokens=5000, validation=250, vocabulary=300, seed=3)


def made(folder: Path, spec: packed.TokenSpec = SPEC) -> Path:
    packed.make_tokens(folder, spec)
    return folder


def found(folder: Path, vocabulary: int | None = None) -> list[tuple[str, ProblemKind]]:
    report = packed.verify(folder, vocabulary=vocabulary)
    return [(problem.path, problem.kind) for problem in report.problems]


def test_training_and_validation_have_the_requested_numbers_of_tokens(tmp_path: Path) -> None:
    made(tmp_path)
    sizes = {name: len(np.fromfile(tmp_path / name, "<u2")) for name in ("train.bin", "val.bin")}
    assert sizes == {"train.bin": 5000, "val.bin": 250}


def test_the_frequencies_of_tokens_fall_by_zipfs_law(tmp_path: Path) -> None:
    spec = packed.TokenSpec(tokens=200_000, vocabulary=1000, seed=0)
    counts = np.bincount(np.fromfile(made(tmp_path / "tokens", spec) / "train.bin", "<u2"), minlength=1000)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)
    assert counts[0] / counts[99] == pytest.approx(100, rel=0.3)


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    spec = packed.TokenSpec(tokens=1000, vocabulary=100_000)
    folder = made(tmp_path / "tokens", spec)
    assert (folder / "train.bin").stat().st_size == 4000
    assert packed.verify(folder).problems == ()


def test_verification_finds_damaged_files_and_tokens_out_of_range(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "tokens")
    train, validation = folder / "train.bin", folder / "val.bin"
    data = train.read_bytes()
    train.write_bytes(data[:-3])
    assert found(folder) == [("train.bin", ProblemKind.TRUNCATED)]
    train.write_bytes(data[:-2])
    assert ("train.bin", ProblemKind.TRUNCATED) in found(folder)
    train.write_bytes(b"")
    validation.unlink()
    assert found(folder) == [("train.bin", ProblemKind.TRUNCATED), ("val.bin", ProblemKind.MISSING)]
    train.write_bytes(data[:200] + (299).to_bytes(2, "little") + data[202:])
    assert found(folder)[0] == ("train.bin", ProblemKind.CORRUPTED)
    train.write_bytes(data[:200] + (300).to_bytes(2, "little") + data[202:])
    report = packed.verify(folder)
    detail = next(problem.detail for problem in report.problems if problem.kind is ProblemKind.BROKEN)
    assert detail == "token 100 is 300, outside of the vocabulary of 300"


def test_foreign_tokens_are_verified_within_stated_limits(tmp_path: Path) -> None:
    np.array([1, 2, 70], "<u2").tofile(tmp_path / "train.bin")
    report = packed.verify(tmp_path)
    assert (report.made, report.problems, len(report.limits)) == (False, (), 2)
    assert found(tmp_path, vocabulary=70) == [("train.bin", ProblemKind.BROKEN)]


# As the worker reads them.


def test_a_worker_reads_sequences_that_overlap_by_the_token_that_is_only_predicted(tmp_path: Path) -> None:
    np.arange(101, dtype="<u2").tofile(tmp_path / "train.bin")
    file = TokenFile(str(tmp_path), 512, 10)
    assert file.sequences == 10
    assert file.rows(np.array([3, 0])).tolist() == [list(range(30, 41)), list(range(11))]


def test_a_worker_reads_tokens_of_four_bytes(tmp_path: Path) -> None:
    folder = made(tmp_path / "tokens", packed.TokenSpec(tokens=1000, vocabulary=100_000, seed=3))
    file, tokens = TokenFile(str(folder), 100_000, 10), np.fromfile(folder / "train.bin", "<u4")
    assert (file.sequences, tokens.max() > 65_535) == (99, True)
    assert file.rows(np.array([7, 0])).tolist() == [tokens[70:81].tolist(), tokens[:11].tolist()]
    with pytest.raises(RunError, match="has a vocabulary of 100000, the model one of 65536"):
        TokenFile(str(folder), 65_536, 10)


@pytest.mark.parametrize("bytes_less", [1, 2, 4])
def test_a_worker_refuses_a_cut_file_of_four_byte_tokens(tmp_path: Path, bytes_less: int) -> None:
    train = made(tmp_path / "tokens", packed.TokenSpec(tokens=1000, vocabulary=100_000)) / "train.bin"
    train.write_bytes(train.read_bytes()[:-bytes_less])
    with pytest.raises(RunError, match=rf"is cut: it has {4000 - bytes_less} of 4000 bytes, 4 a token"):
        TokenFile(str(tmp_path / "tokens"), 100_000, 10)


def test_a_worker_names_a_four_byte_token_out_of_range(tmp_path: Path) -> None:
    folder = made(tmp_path / "tokens", packed.TokenSpec(tokens=1000, vocabulary=100_000))
    tokens = np.fromfile(folder / "train.bin", "<u4")
    tokens[25] = 2**31 + 5
    tokens.tofile(folder / "train.bin")
    with pytest.raises(RunError, match=r"token 25 of .*train.bin is 2147483653, outside of the model's voc"):
        TokenFile(str(folder), 100_000, 10).rows(np.array([0, 2]))


def test_the_ranks_use_each_sequence_once_an_epoch() -> None:
    places = [
        place_from({"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"})
        for rank in range(2)
    ]
    rows = [shard_batches(9, 3, place, seed=7) for place in places]
    used = [number for _ in range(3) for row in rows for number in next(row).tolist()]
    assert sorted(used[:9]) == list(range(9)) == sorted(used[9:])
    assert used[:9] != used[9:]


@pytest.mark.parametrize(
    ("tokens", "tail", "message"),
    [
        ([], b"", "is empty"),
        ([1, 2, 3, 4], b"", "has 4 tokens, too few for one sequence of 4"),
        ([1, 2, 3, 4, 5], b"x", "is cut: it has 11 bytes, 2 a token"),
    ],
)
def test_a_worker_refuses_files_that_are_empty_or_cut(
    tmp_path: Path, tokens: list[int], tail: bytes, message: str
) -> None:
    (tmp_path / "train.bin").write_bytes(np.array(tokens, "<u2").tobytes() + tail)
    with pytest.raises(RunError) as stopped:
        TokenFile(str(tmp_path), 512, 4)
    assert stopped.value.outcome == "failed"
    assert message in stopped.value.reason


def test_a_worker_checks_tokens_against_its_models_vocabulary(tmp_path: Path) -> None:
    folder = made(tmp_path / "tokens")
    with pytest.raises(RunError, match="has a vocabulary of 300, the model one of 299"):
        TokenFile(str(folder), 299, 4)
    np.array([1, 2, 3, 4, 5, 6, 700, 8, 9], "<u2").tofile(tmp_path / "train.bin")
    file = TokenFile(str(tmp_path), 512, 4)
    with pytest.raises(
        RunError, match=r"token 6 of .*train.bin is 700, outside of the model's vocabulary of 512"
    ):
        file.rows(np.array([0, 1]))
