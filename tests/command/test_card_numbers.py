"""Numbers of a card that follow from a case: the work of a step, and words of the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from foreign_cards import planned, written
from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.workload import read_card

COUNTER = {"title": "counter", "unit": "tokens/s", "records": [r"step {step} loss {number}"]}
TOKENS: dict[str, Any] = {
    "log_format": COUNTER,
    "command": ["{source}/train_mlp.py", "--style=counter", "--steps=8000"],
    "options": {"block_size": {"type": "int", "flags": ["--block-size={value}"], "default": 64}},
    "work_per_step": "{option.block_size} * {global_batch}",
}


@pytest.mark.process
@pytest.mark.parametrize("block", [None, 32])
def test_the_work_of_a_step_follows_an_option(
    block: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {} if block is None else {"options": {"block_size": block}}
    suite = written(tmp_path, {"defaults": {"workload": "mlp", **options}}, **TOKENS)
    assert main(["run", str(suite), "--out", "out"]) in (0, 1)

    (case,) = json.loads((tmp_path / "out" / "results.json").read_text())["cases"]
    (run,) = case["runs"]
    (clock,) = (tmp_path / "out" / "runs").rglob("clock.json")
    ends, skipped = json.loads(clock.read_text()), run["measurement"]["warmup_steps"]
    rate = (len(ends) - skipped) / (ends[-1] - ends[skipped - 1])
    assert run["measurement"]["unit"] == "tokens/s"
    assert run["measurement"]["throughput"] == pytest.approx(rate * 32 * (block or 64), rel=0.05)
    assert case["id"] == ("mlp-python-b32" if block is None else "mlp-python-b32-block_size32")


def test_a_default_of_an_option_is_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (case,) = planned(written(tmp_path, **TOKENS), capsys)

    assert "--block-size=64" in case["commands"][0]["words"]


def test_a_word_may_be_an_expression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = {"command": [*TOKENS["command"], "--tokens={=block_size * batch}", "--rest={=seed + 0.5}"]}
    (case,) = planned(written(tmp_path, **(TOKENS | words)), capsys)

    assert {"--tokens=2048", "--rest=1.5"} <= set(case["commands"][0]["words"])


@pytest.mark.parametrize(
    ("suite", "card", "message"),
    [
        ({"options": {"block_size": "big"}}, {}, "the option block_size is 'big', which is not a valid int"),
        (
            {},
            {"options": {"block_size": {"type": "int"}}},
            "work_per_step: '{option.block_size} * {global_batch}' has no value: block_size has no number",
        ),
        (
            {},
            {"work_per_step": "block_size / 128"},
            "'block_size / 128' is 0.5; expected a whole number from 1",
        ),
        ({}, {"work_per_step": "1 / (block_size - 64)"}, "'1 / (block_size - 64)' divides by 0"),
    ],
)
def test_a_number_that_a_case_lacks_makes_it_unsupported(
    suite: dict[str, Any],
    card: dict[str, Any],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = written(tmp_path, {"defaults": {"workload": "mlp", **suite}}, **(TOKENS | card))
    (case,) = planned(path, capsys)

    assert message in case["cannot_run"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"work_per_step": "{blok_size} * 2"},
            r"work_per_step: 'blok_size' is not an axis.*did you mean 'block_size'",
        ),
        (
            {"work_per_step": "__import__('os')"},
            r"work_per_step: '__import__\('os'\)' is not names, numbers and",
        ),
        ({"command": ["{source}/x", "{=batch ** 9}"]}, r"command: 'batch \*\* 9' is not names, numbers and"),
        ({"options": {"x": {"type": "int", "default": "a"}}}, r"options\.x.*the default 'a' is no int"),
    ],
)
def test_an_expression_that_cannot_be_used_is_refused_with_its_line(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    written(tmp_path, **(TOKENS | change))

    with pytest.raises(InputError, match=r"card\.yaml:\d+: " + message):
        read_card(tmp_path / "card.yaml")


def test_every_missing_key_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("name: mlp\ndescription: a network\n")

    with pytest.raises(InputError) as caught:
        read_card(tmp_path / "card.yaml")
    missing = ("framework", "environment", "source", "launcher", "log_format", "command")
    assert all(key in str(caught.value) for key in missing)


@pytest.mark.parametrize("verb", ["plan", "check"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_format": "nanogtp"}, "no log format 'nanogtp'; did you mean 'nanogpt'"),
        ({"rule": "medain"}, "no rule 'medain'; did you mean 'median'"),
        (
            {"log_format": COUNTER | {"records": ["step {step} {speed}"]}},
            "no field 'speed'",
        ),
        (
            {"log_format": COUNTER | {"records": [r"step {step} (?P<per_sec>\d+)"]}},
            "no field 'per_sec'",
        ),
        ({"log_format": COUNTER | {"recrods": []}}, "unknown key 'recrods'; did you mean 'records'"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused_before_anything_runs(
    verb: str, change: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, str(written(tmp_path, **change))]) in (1, 2)

    printed = "".join(capsys.readouterr())
    assert message in printed
    assert "card.yaml:" in printed


@pytest.mark.process
def test_the_steps_a_second_of_an_interval_make_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = "print(f'step {n} {50 + n % 2}.0 it/s', flush=True)"
    # A step ends when it is due: where other load makes steps longer, the wall clock is the number.
    wait = "time.sleep(max(0, began + n / 50.5 - time.monotonic()))"
    program = f"import time\nbegan = time.monotonic()\nfor n in range(60):\n    {wait}\n    {line}\n"
    known = {"title": "own", "unit": "samples/s", "records": [r"step {step} {steps_per_s} it/s"]}
    suite = written(tmp_path, log_format=known, command=["{source}/own.py"])
    (tmp_path / "program" / "own.py").write_text(program)
    assert main(["run", str(suite), "--out", "out"]) in (0, 1)

    (case,) = json.loads((tmp_path / "out" / "results.json").read_text())["cases"]
    # The harmonic mean of 50 and 51 steps a second, of 32 samples each.
    assert case["runs"][0]["measurement"]["throughput"] == pytest.approx(32 * 50.5, rel=0.001)
