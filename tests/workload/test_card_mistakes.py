"""Everything in a card that can be checked is checked before anything runs, and all mistakes are reported at once."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from foreign_cards import CARD, written
from trainmark.cli.main import main

INLINE: dict[str, Any] = {
    "title": "ours",
    "unit": "samples/s",
    "records": ["step {step} .*? {rate} samples/s"],
}

MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "name": ({"name": "../x"}, "name", "string should match pattern"),
    "description": ({"description": 3}, "description", "input should be a valid string"),
    "environment path": ({"environment": "/opt/python"}, "environment", "only a suite's key 'environment' and --env"),
    "framework": ({"framework": "two words"}, "framework", "string should match pattern"),
    "environment": (
        {"environment": "pytorhc"},
        "environment",
        "no environment 'pytorhc'; did you mean 'pytorch'?",
    ),
    "packages": ({"packages": ["two words"]}, "- two words", "'two words' is not a package requirement"),
    "packages left out": ({"packages": ["!torch==1"]}, "- '!torch==1'", "'!torch==1' is not a package requirement"),
    "packages in a container": (
        {"packages": ["einops"], "environment": "docker"},
        "packages",
        "are installed into an environment, and not into a container's image",
    ),
    "source kind": ({"source": {"kind": "svn"}}, "source", "input tag 'svn'"),
    "source folder": ({"source": {"kind": "folder", "path": "away"}}, "path", "source.path: no such folder: "),
    "source files": ({"source": {"kind": "files", "files": ["away.py"]}}, "files", "no such file: "),
    "source commit": (
        {"source": {"kind": "git", "url": "https://example.org/x", "commit": "main"}},
        "commit",
        "should be a whole commit",
    ),
    "task": ({"task": "image_clasification"}, "task", "'image_clasification' is not a task; did you mean"),
    "launcher": ({"launcher": "mpi"}, "launcher", "input should be 'process'"),
    "starter": ({"starter": "x.py"}, "launcher", "'process' does not use a 'starter'"),
    "log format": ({"log_format": "nanogtp"}, "log_format", "no log format 'nanogtp'; did you mean 'nanogpt'?"),
    "rule": ({"rule": "windou"}, "rule", "no rule 'windou'; did you mean 'window'?"),
    "rule of own events": ({"log_format": "trainmark", "rule": "mean"}, "rule", "has no effect"),
    "result": ({"result": {"file": "/x", "path": "a"}}, "file", "is not a path within the run's folder"),
    "result without a unit": ({"result": {"file": "x", "path": "a"}}, "", "the key 'unit' is missing"),
    "unit": ({"unit": "images"}, "unit", "'images' is not a unit of throughput, such as samples/s"),
    "parameters": ({"parameters": "124M"}, "parameters", "input should be a valid integer"),
    "layers": ({"layers": 0}, "layers", "input should be greater than 0"),
    "hidden_size": ({"hidden_size": "1k"}, "hidden_size", "input should be a valid integer"),
    "sequence_length": ({"sequence_length": 1.5}, "sequence_length", "input should be a valid integer"),
    "skip": ({"skip": -1}, "skip", "input should be greater than or equal to 0"),
    "stop_after": ({"stop_after": {}}, "stop_after", "needs 'steps', 'epochs' or 'seconds'"),
    "stop_after seconds": ({"stop_after": {"seconds": 0}}, "seconds", "input should be greater than 0"),
    "work_per_step": ({"work_per_step": "{batch} +"}, "work_per_step", "is not names, numbers and + - * / // ()"),
    "work_per_step name": (
        {"work_per_step": "{bach} * 2"},
        "work_per_step",
        "'bach' is not an axis, an option or a number; did you mean 'batch'?",
    ),
    "work_per_step number": ({"work_per_step": 0}, "work_per_step", "input should be greater than 0"),
    "unlogged_steps": ({"unlogged_steps": -1}, "unlogged_steps", "input should be greater than or equal to 0"),
    "image": ({"image": {"reference": "Ubuntu 20"}}, "reference", "string should match pattern"),
    "working_directory": ({"working_directory": "away"}, "working_directory", "no such folder: "),
    "prepare": (
        {"prepare": [{"description": "x", "words": ["{dta}"]}]},
        "words",
        "{dta} is not a placeholder; did you mean 'data'?",
    ),
    "prepare when": (
        {"prepare": [{"description": "x", "words": ["x"], "when": {"loder": "x"}}]},
        "loder",
        "is not an axis; did you mean 'loader'?",
    ),
    "expects": ({"expects": ["../x"]}, "- ../x", "is not a path within the run's folder"),
    "data_files": ({"data_files": [{"path": "x", "sha256": "abc"}]}, "sha256", "string should match pattern"),
    "stand_ins": ({"stand_ins": [{"path": "x"}]}, "- path", "give either a 'generator' or a 'command'"),
    "stand_ins generator": (
        {"stand_ins": [{"path": "x", "generator": "tokns"}]},
        "generator",
        "input should be 'tokens', 'text' or 'images'",
    ),
    "command": ({"command": []}, "command", "has no words"),
    "command placeholder": (
        {"command": ["{sorce}/x.py"]},
        "command",
        "{sorce} is not a placeholder; did you mean 'source'?",
    ),
    "command expression": (
        {"command": ["x", "--n={=bach * 2}"]},
        "command",
        "'bach' is not an axis, an option or a number; did you mean 'batch'?",
    ),
    "axes": ({"axes": {"precison": {}}}, "precison", "is not an axis; did you mean 'precision'?"),
    "axis value": ({"axes": {"precision": {"values": {"fp23": []}}}}, "fp23", "no case has precision 'fp23'"),
    "axis values and flags": (
        {"axes": {"precision": {"values": {"fp32": []}, "flags": ["--p={value}"]}}},
        "precision",
        "has 'values' and 'flags'",
    ),
    "axis counts": ({"axes": {"devices_per_node": {"counts": "global"}}}, "counts", "has no effect"),
    "fixed": ({"fixed": {"lay_out": "nchw"}}, "lay_out", "is not an axis; did you mean 'layout'?"),
    "fixed device": ({"fixed": {"device": "gpu"}}, "device", "no case has device 'gpu'"),
    "contradictory device": (
        {"fixed": {"device": "cuda"}, "axes": {"device": {"only": ["cpu"]}}},
        "device",
        "is one of the card's 'axes' too",
    ),
    "combinations": (
        {"combinations": [{"when": {"loder": "x"}, "words": []}]},
        "loder",
        "is not an axis; did you mean 'loader'?",
    ),
    "gaps": ({"gaps": [{"when": {"precision": "fp23"}, "reason": "x"}]}, "precision", "no case has precision 'fp23'"),
    "options": (
        {"options": {"lr": {"type": "float", "flags": ["--lr={value}"], "default": "x"}}},
        "lr",
        "the default 'x' is no float",
    ),
    "option type": ({"options": {"lr": {"type": "real"}}}, "type", "input should be 'int', 'float', 'bool' or 'text'"),
    "option without effect": ({"options": {"lr": {"type": "float"}}}, "lr", "has no effect"),
    "option flags": (
        {"options": {"lr": ["--lr={vlue}"]}},
        "lr",
        "{vlue} is not a placeholder; did you mean 'value'?",
    ),
    "scaling": ({"scaling": {"learning_rate": 0, "batch": 256}}, "learning_rate", "input should be greater than 0"),
    "data_formats": (
        {"task": "image-classification", "data_formats": {"dali": "tfrecrod"}},
        "dali",
        "'tfrecrod' is not a form of data; did you mean 'tfrecord'?",
    ),
    "environment_variables": ({"environment_variables": {"A=B": "c"}}, "A=B", "string should match pattern"),
    "unknown key": ({"log_fromat": "x"}, "log_fromat", "extra inputs are not permitted; did you mean 'log_format'?"),
    "inline pattern": (
        {"log_format": INLINE | {"records": ["step {step} {rate} samples/s", "step {step} ({rate}"]}},
        "- step {step} ({rate}",
        "log_format: records[1]: ",
    ),
    "inline field": (
        {"log_format": INLINE | {"records": ["step {stp} {rate} samples/s"]}},
        "- step {stp} {rate} samples/s",
        "no field 'stp'; did you mean 'step'?",
    ),
    "inline key": (
        {"log_format": INLINE | {"recrods": []}},
        "recrods",
        "unknown key 'recrods'; did you mean 'records'?",
    ),
    "inline fact": (
        {"log_format": INLINE | {"facts": {"model": "model = (\\w+)", "batch": "batch ("}}},
        "batch:",
        "no fact 'batch'",
    ),
    "inline fact pattern": (
        {"log_format": INLINE | {"facts": {"global_batch": "batch ("}}},
        "global_batch",
        "is not a regular expression",
    ),
    "inline choice": ({"log_format": INLINE | {"rate_of": "rank"}}, "rate_of", "expected all or node or device"),
    "inline without a title": (
        {"log_format": {"unit": "samples/s", "records": ["{rate}"]}},
        "log_format",
        "'title' is missing",
    ),
}  # fmt: skip
"""A mistake for each key of a card: the change, the word on the line that is named, and the message."""


def line_of(path: Path, word: str) -> int:
    """Return the line of the last occurrence of a key, or of an item, in a file; 1 for an empty word."""
    if not word:
        return 1
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [number for number, text in enumerate(lines, 1) if text.strip().startswith((word, f"- {word}:"))]
    return starts[-1]


def messages(verb: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(verb) == 2
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_plan_names_file_line_and_key_of_a_mistake(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, word, message = MISTAKES[mistake]
    suite = written(tmp_path, **change)

    printed = messages(["plan", str(suite)], capsys)

    card = tmp_path / "card.yaml"
    assert len(printed) == 1, printed
    assert printed[0].startswith(f"trainmark plan: {card}:{line_of(card, word)}: "), printed
    assert message in printed[0]


def test_every_key_of_a_card_is_in_the_table() -> None:
    from trainmark.workload import Card

    tested = {key for change, _, _ in MISTAKES.values() for key in change}

    assert set(Card.model_fields) - tested == set()


@pytest.mark.parametrize("verb", ["plan", "check", "card check"])
def test_all_mistakes_of_a_card_are_reported_at_once(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, Any] = {
        "framework": "two words",
        "environment": "pytorhc",
        "log_format": INLINE
        | {"records": ["step {stp}"], "facts": {"batch": "x"}, "recrods": [], "rate_of": "rank"},
        "rule": "windou",
        "unit": "images",
        "skip": -1,
        "working_directory": "away",
        "work_per_step": "{bach} * 2",
        "command": ["{sorce}/x.py"],
        "axes": {"precison": {}},
        "fixed": {"device": "gpu"},
        "expects": ["../x"],
        "colour": "red",
    }
    suite = written(tmp_path, **changes)
    path = tmp_path / "card.yaml"
    words = ["card", "check", str(path)] if verb == "card check" else [verb, str(suite)]

    printed = "\n".join(messages(words, capsys))

    for key in (
        "framework",
        "environment",
        "rule",
        "unit",
        "skip",
        "working_directory",
        "work_per_step",
        "command",
    ):
        assert f"{path}:{line_of(path, f'{key}:')}: {key}: " in printed, key
    for part in (
        "axes.precison: ",
        "fixed.device: ",
        "expects[0]: ",
        "colour: ",
        "records[0]: ",
        "'recrods'",
    ):
        assert part in printed, part
    assert "rate_of is 'rank'" in printed
    assert "facts: no fact 'batch'" in printed


def test_the_mistakes_of_two_cards_are_reported_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = written(tmp_path, {"cards": ["card.yaml", "other.yaml"]}, unit="images")
    other = CARD | {"name": "other", "skip": -1}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(other, sort_keys=False))

    printed = messages(["plan", str(suite)], capsys)

    assert [re.findall(r"(\w+\.yaml):\d+: ", line)[0] for line in printed] == ["card.yaml", "other.yaml"]
