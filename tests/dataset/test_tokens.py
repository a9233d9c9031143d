"""Packed tokens: made from a seed, gone on with after an interruption, and what verification finds in them."""

import json
from pathlib import Path

import numpy as np
import pytest

from preloading import call_trainmark
from trainmark.dataset import ProblemKind, kind_of
from trainmark.dataset import tokens as packed
from trainmark.dataset.tokens import make
from trainmark.errors import InputError
from trainmark.suite import load_suite
from trainmark.worker.core.outcomes import RunError
from trainmark.worker.core.place import place_from
from trainmark.worker.tasks.causal_lm.tokens import TokenFile, dealt

SPEC = packed.TokenSpec(tokens=5000, validation=250, vocabulary=300, seed=3)


def made(folder: Path, spec: packed.TokenSpec = SPEC) -> Path:
    packed.make_tokens(folder, spec)
    return folder


def found(folder: Path, vocabulary: int | None = None) -> list[tuple[str, ProblemKind]]:
    report = packed.verify(folder, vocabulary=vocabulary)
    return [(problem.path, problem.kind) for problem in report.problems]


def test_equal_seeds_give_equal_tokens_and_others_do_not(tmp_path: Path) -> None:
    one, other = made(tmp_path / "one"), made(tmp_path / "other")
    third = made(tmp_path / "third", SPEC.model_copy(update={"seed": 4}))
    assert (one / "train.bin").read_bytes() == (other / "train.bin").read_bytes()
    assert (one / "train.bin").read_bytes() != (third / "train.bin").read_bytes()
    tokens = np.fromfile(one / "train.bin", "<u2")
    assert (len(tokens), len(np.fromfile(one / "val.bin", "<u2"))) == (5000, 250)
    assert packed.verify(one).problems == ()


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


def test_what_was_interrupted_goes_on_and_is_no_data_set_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "CHUNK", 1000)
    whole = made(tmp_path / "whole")
    written: list[int] = []

    def stop(done: int, _total: int) -> None:
        written.append(done)
        if done >= 3000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        packed.make_tokens(tmp_path / "tokens", SPEC, stop)
    for look in (packed.describe, packed.verify):
        with pytest.raises(InputError, match="its making was interrupted"):
            look(tmp_path / "tokens")
    with pytest.raises(InputError, match="another data set is being made here"):
        packed.state(tmp_path / "tokens", SPEC.model_copy(update={"seed": 4}))
    assert packed.state(tmp_path / "tokens", SPEC) is packed.State.UNFINISHED
    done: list[int] = []
    packed.make_tokens(tmp_path / "tokens", SPEC, lambda count, _: done.append(count))
    assert done[0] == 3000
    assert (tmp_path / "tokens" / "train.bin").read_bytes() == (whole / "train.bin").read_bytes()
    assert sorted(path.name for path in (tmp_path / "tokens").iterdir()) == sorted(
        path.name for path in whole.iterdir()
    )


def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_verification_finds_files_that_are_missing_cut_empty_or_changed_and_tokens_outside(
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


def test_tokens_of_others_are_verified_as_far_as_can_be_known(tmp_path: Path) -> None:
    np.array([1, 2, 70], "<u2").tofile(tmp_path / "train.bin")
    report = packed.verify(tmp_path)
    assert (report.made, report.problems, len(report.limits)) == (False, (), 2)
    assert found(tmp_path, vocabulary=70) == [("train.bin", ProblemKind.BROKEN)]


def test_the_commands_make_and_verify(tmp_path: Path) -> None:
    words = ("data", "make-tokens", tmp_path / "t", "--tokens", "4000", "--vocabulary", "512", "--json")
    first, second = (json.loads(call_trainmark(*words).stdout) for _ in range(2))
    assert (first["before"], second["before"]) == ("absent", "complete")
    assert (first["tokens"], first["validation"], first["type"]) == (4000, 200, "uint16")
    assert call_trainmark("data", "verify", tmp_path / "t").returncode == 0
    with (tmp_path / "t" / "train.bin").open("ab") as file:
        file.write(b"x")
    spoiled = call_trainmark("data", "verify", tmp_path / "t", "--json")
    assert spoiled.returncode == 1
    assert json.loads(spoiled.stdout.splitlines()[0])["problem"] == "truncated"
    refused = call_trainmark("data", "make-tokens", tmp_path / "n", "--tokens", "0")
    assert refused.returncode == 2
    assert "the options of 'data make-tokens': tokens:" in refused.stderr


def test_a_suite_has_tokens_made(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: text\ndatasets:\n  words: {task: causal-lm, make: {tokens: 3000, vocabulary: 512}}\n"
        "defaults: {model: gpt2_tiny, data: words, sequence_length: 32}\naxes: {framework: [pytorch]}\n"
    )
    made_of = load_suite(suite).datasets["words"].make
    assert made_of == {"tokens": 3000, "vocabulary": 512, "seed": 0}
    kind_of("tokens").make(tmp_path / "words", dict(made_of), "words", 1, lambda _done, _total: None)
    assert packed.verify(tmp_path / "words").problems == ()


# As the worker reads them.


def test_a_worker_reads_sequences_that_overlap_by_the_token_that_is_only_predicted(tmp_path: Path) -> None:
    np.arange(101, dtype="<u2").tofile(tmp_path / "train.bin")
    file = TokenFile(str(tmp_path), 512, 10)
    assert file.sequences == 10
    assert file.rows(np.array([3, 0])).tolist() == [list(range(30, 41)), list(range(11))]


def test_all_ranks_together_use_each_sequence_once_an_epoch() -> None:
    places = [
        place_from({"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"})
        for rank in range(2)
    ]
    rows = [dealt(9, 3, place, seed=7) for place in places]
    used = [number for _ in range(3) for row in rows for number in next(row).tolist()]
    assert sorted(used[:9]) == list(range(9)) == sorted(used[9:])
    assert used[:9] != used[9:]


@pytest.mark.parametrize(
    ("tokens", "tail", "said"),
    [
        ([], b"", "has 0 tokens, too few for one sequence of 4"),
        ([1, 2, 3, 4], b"", "has 4 tokens, too few for one sequence of 4"),
        ([1, 2, 3, 4, 5], b"x", "is cut: it has 11 bytes, 2 a token"),
    ],
)
def test_a_worker_refuses_files_that_are_empty_or_cut(
    tmp_path: Path, tokens: list[int], tail: bytes, said: str
) -> None:
    (tmp_path / "train.bin").write_bytes(np.array(tokens, "<u2").tobytes() + tail)
    with pytest.raises(RunError) as stopped:
        TokenFile(str(tmp_path), 512, 4)
    assert stopped.value.outcome == "failed"
    assert said in stopped.value.reason


def test_a_worker_holds_tokens_against_its_models_vocabulary(tmp_path: Path) -> None:
    folder = made(tmp_path / "tokens")
    with pytest.raises(RunError, match="has a vocabulary of 300, the model one of 299"):
        TokenFile(str(folder), 299, 4)
    np.array([1, 2, 3, 4, 5, 6, 700, 8, 9], "<u2").tofile(tmp_path / "train.bin")
    file = TokenFile(str(tmp_path), 512, 4)
    with pytest.raises(
        RunError, match=r"token 6 of .*train.bin is 700, outside of the model's vocabulary of 512"
    ):
        file.rows(np.array([0, 1]))
