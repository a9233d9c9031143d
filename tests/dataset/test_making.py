"""What is promised of every kind of data set of few files that is made from a seed: tokens, hidden words, clicks."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from preloading import call_trainmark
from trainmark.dataset import clicks, kind_of, masked, tokens
from trainmark.dataset.clicks import make as clicks_make
from trainmark.dataset.tokens import make as tokens_make
from trainmark.errors import InputError
from trainmark.suite import load_suite

WORK = ".making"


@dataclass(frozen=True)
class Kind:
    """A kind: its room, how its sets are made, one of them, and how many samples are one piece of the making."""

    room: ModuleType
    make: Callable[..., Any]
    spec: Any
    chunked: ModuleType | None
    stop_at: int
    task: str
    model: str
    made_of: Mapping[str, int]
    command: tuple[str, ...]
    expected_facts: Mapping[str, Any]
    wrong: tuple[str, str]
    axes: Mapping[str, Any] = field(default_factory=dict)


KINDS = {
    "tokens": Kind(
        room=tokens,
        make=tokens.make_tokens,
        spec=tokens.TokenSpec(tokens=5000, validation=250, vocabulary=300, seed=3),
        chunked=tokens_make,
        stop_at=3000,
        task="causal-lm",
        model="gpt2_tiny",
        made_of={"tokens": 3000, "vocabulary": 512},
        command=("make-tokens", "--tokens", "4000", "--vocabulary", "512"),
        expected_facts={"tokens": 4000, "validation": 200, "type": "uint16"},
        wrong=("--tokens", "0"),
        axes={"sequence_length": 32},
    ),
    "masked": Kind(
        room=masked,
        make=masked.make_masked,
        spec=masked.MaskedSpec(
            sequences=50, sequence_length=32, predictions=5, vocabulary=512, short=50, shards=3, seed=3
        ),
        chunked=None,
        stop_at=30,
        task="masked-lm",
        model="bert_tiny",
        made_of={"sequences": 30, "sequence_length": 32, "predictions": 5, "vocabulary": 512},
        command=("make-masked", "--sequences", "40", "--sequence-length", "32", "--predictions", "5"),
        expected_facts={"sequences": 40},
        wrong=("--sequences", "0"),
        axes={"sequence_length": 32, "predictions": 5},
    ),
    "clicks": Kind(
        room=clicks,
        make=clicks.make_clicks,
        spec=clicks.ClickSpec(samples=500, vocabulary=1000, seed=3),
        chunked=clicks_make,
        stop_at=300,
        task="recommendation",
        model="wide_deep_tiny",
        made_of={"samples": 300, "vocabulary": 512},
        command=("make-clicks", "--samples", "400", "--vocabulary", "100"),
        expected_facts={"samples": 400, "form": "raw"},
        wrong=("--vocabulary", "25"),
        axes={"vocabulary": 512},
    ),
}

every_kind = pytest.mark.parametrize("name", KINDS)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "dataset.json"}


@every_kind
def test_equal_seeds_give_equal_files_and_others_do_not(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    seeded = {"one": kind.spec, "same": kind.spec, "other": kind.spec.model_copy(update={"seed": 4})}
    for folder, spec in seeded.items():
        kind.make(tmp_path / folder, spec)
    assert files(tmp_path / "one") == files(tmp_path / "same")
    assert files(tmp_path / "one")["SHA256SUMS"] != files(tmp_path / "other")["SHA256SUMS"]
    assert kind.room.verify(tmp_path / "one").problems == ()


@every_kind
def test_an_interrupted_creation_resumes_and_is_unusable_before(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, folder = KINDS[name], tmp_path / "set"
    if kind.chunked is not None:
        monkeypatch.setattr(kind.chunked, "CHUNK", kind.stop_at // 3)
    kind.make(tmp_path / "whole", kind.spec)

    def stop(done: int, _total: int) -> None:
        if done >= kind.stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kind.make(folder, kind.spec, stop)
    for look in (kind.room.describe, kind.room.verify):
        with pytest.raises(InputError, match="its creation was interrupted"):
            look(folder)
    assert kind.room.recognise(folder)
    with pytest.raises(InputError, match="another data set is being made here"):
        kind.room.state(folder, kind.spec.model_copy(update={"seed": 4}))
    assert kind.room.state(folder, kind.spec) is kind.room.DatasetState.UNFINISHED
    first = sorted((folder / WORK).glob("train*"))[0]
    inode = first.stat().st_ino
    kind.make(folder, kind.spec)
    assert (folder / first.name).stat().st_ino == inode, "what was there was made again"
    assert files(folder) == files(tmp_path / "whole")


@every_kind
def test_a_folder_with_anything_else_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        KINDS[name].make(tmp_path, KINDS[name].spec)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@every_kind
def test_the_commands_make_and_verify(name: str, tmp_path: Path) -> None:
    kind, folder = KINDS[name], tmp_path / "set"
    verb, *words = kind.command
    first, second = (
        json.loads(call_trainmark("data", verb, folder, *words, "--json").stdout) for _ in range(2)
    )
    assert (first["before"], second["before"]) == ("absent", "complete")
    assert {key: first[key] for key in kind.expected_facts} == kind.expected_facts
    assert call_trainmark("data", "verify", folder).returncode == 0
    with sorted(folder.glob("train*"))[0].open("ab") as file:
        file.write(b"x")
    spoiled = call_trainmark("data", "verify", folder, "--json")
    assert spoiled.returncode == 1
    problems = {json.loads(line).get("problem") for line in spoiled.stdout.splitlines()}
    assert problems & {"truncated", "corrupted"}
    refused = call_trainmark("data", verb, tmp_path / "none", *kind.wrong)
    assert refused.returncode == 2
    assert f"the options of 'data {verb}': {kind.wrong[0].strip('-')}:" in refused.stderr


@every_kind
def test_a_suite_creates_it(name: str, tmp_path: Path) -> None:
    kind, suite = KINDS[name], tmp_path / "suite.yaml"
    made_of = json.dumps(dict(kind.made_of))
    defaults = json.dumps({"model": kind.model, "data": "made", **kind.axes})
    suite.write_text(
        f"name: made\ndatasets:\n  made: {{task: {kind.task}, make: {made_of}}}\n"
        f"defaults: {defaults}\naxes: {{framework: [pytorch]}}\n"
    )
    requested = load_suite(suite).datasets["made"].make
    assert requested is not None
    assert {**requested, **kind.made_of} == requested
    kind_of(name).make(tmp_path / "made", dict(requested), "made", 1, lambda _done, _total: None)
    assert kind.room.verify(tmp_path / "made").problems == ()
