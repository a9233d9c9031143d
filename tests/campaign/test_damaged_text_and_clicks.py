"""Tokens and clicks that cannot be trained on cost their own case, with the reason; the case beside is measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from fakes import Bench
from frameworks import framework_python, needs_framework
from trainmark.dataset import clicks, tokens
from trainmark.schema.outcome import Outcome

pytestmark = [pytest.mark.training, needs_framework("pytorch")]

WORDS: dict[str, Any] = {"model": "gpt2_tiny", "sequence_length": 32, "batch_per_device": 2}
CLICKS: dict[str, Any] = {"model": "wide_deep_tiny", "vocabulary": 1000, "batch_per_device": 8}
COMMON: dict[str, Any] = {"workload": "trainmark", "framework": "pytorch", "device": "cpu"}


def words_in(folder: Path) -> Path:
    tokens.make_tokens(folder, tokens.TokenSpec(tokens=2000, vocabulary=512))
    return folder


def cut(folder: Path) -> None:
    train = words_in(folder) / "train.bin"
    train.write_bytes(train.read_bytes()[:-1])


def empty(folder: Path) -> None:
    """Leave a file that somebody else made, or was about to."""
    folder.mkdir()
    (folder / "train.bin").touch()


def without_a_column(folder: Path) -> None:
    clicks.make_clicks(folder, clicks.ClickSpec(samples=100, vocabulary=1000))
    manifest = json.loads((folder / "dataset.json").read_text())
    manifest["columns"].remove("C14")
    (folder / "dataset.json").write_text(json.dumps(manifest))


def test_each_costs_its_own_case_and_the_good_one_is_measured(bench: Bench) -> None:
    words_in(bench.folder / "good")
    cut(bench.folder / "cut")
    empty(bench.folder / "empty")
    without_a_column(bench.folder / "lacking")
    cases = [WORDS | {"data": name} for name in ("cut", "empty")]
    cases += [CLICKS | {"data": name} for name in ("lacking", "words-for-clicks")]
    bench.write(
        *(COMMON | case for case in [*cases, WORDS | {"data": "good"}]),
        environment=framework_python("pytorch"),
        equivalence=False,
        protocol={"name": "adaptive", "steps": 4, "warmup_steps": 2, "repeats": 1},
        datasets={
            **{name: {"task": "causal-lm", "path": name} for name in ("good", "cut", "empty")},
            "lacking": {"task": "recommendation", "path": "lacking"},
            "words-for-clicks": {"task": "recommendation", "path": "good"},
        },
    )
    results = bench.run()
    *bad, good = results.cases
    assert good.outcome is Outcome.OK, good.reason
    assert good.runs[0].measurement is not None
    assert [case.outcome for case in bad] == [Outcome.FAILED] * 4
    home = bench.folder
    assert [case.reason for case in bad] == [
        f"data set 'cut': {home}/cut/train.bin: has 3999 of 4000 bytes; "
        f"'trainmark data verify {home}/cut' lists the problems",
        f"{home}/empty/train.bin is empty",
        f"{home}/lacking/train.bin has no column C14",
        f"data set 'words-for-clicks': {home}/good: holds tokens, not clicks; nothing converts them",
    ]
