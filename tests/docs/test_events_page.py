"""The examples of the page on events: run, read by the reader of a campaign, and timed by a clock outside."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainmark.cli.main import main
from trainmark.logs.events import read_events
from trainmark.measure import measure_events

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"
BATCH, STEPS, WARMUP = 32, 60, 10


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    return str(text)


def program(language: str, folder: Path) -> list[str]:
    """Write the example into ``folder``, compiled if need be, and return its command with ``events.jsonl``."""
    if language == "python":
        (folder / "train.py").write_text(block("python"), encoding="utf-8")
        return [sys.executable, str(folder / "train.py"), f"--events={folder}/events.jsonl"]
    (folder / "train.cpp").write_text(block("cpp"), encoding="utf-8")
    (command,) = re.findall(r"^`(g\+\+ .*?)`", PAGE.read_text(encoding="utf-8"), re.M)
    subprocess.run(command.split(), cwd=folder, check=True)
    return [str(folder / "train"), str(folder / "events.jsonl")]


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_an_example_gives_the_number_of_a_clock_outside(language: str, tmp_path: Path) -> None:
    arrivals = []
    with subprocess.Popen(program(language, tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in process.stdout:
            arrivals.append(time.monotonic())
    assert process.returncode == 0
    assert len(arrivals) == STEPS

    measured = measure_events(read_events(tmp_path / "events.jsonl"))

    outside = BATCH * (STEPS - WARMUP) / (arrivals[-1] - arrivals[WARMUP - 1])
    assert measured.throughput == pytest.approx(outside, rel=0.05)
    assert (measured.measured_steps, measured.warmup_steps) == (STEPS - WARMUP, WARMUP)


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_an_example_is_measured_by_the_card_of_the_page(language: str, tmp_path: Path) -> None:
    program(language, tmp_path)
    card: dict[str, Any] = yaml.safe_load(block("yaml"))
    if language == "cpp":
        (words,) = re.findall(
            r"`launcher: command` and `command: (\[.*?\])`", PAGE.read_text(encoding="utf-8")
        )
        card |= {"launcher": "command", "command": json.loads(words)}
    suite = {
        "name": "mine",
        "cards": ["card.yaml"],
        "environment": sys.executable,
        "protocol": {"name": "adaptive", "repeats": 1, "steps": STEPS, "warmup_steps": WARMUP},
        "cases": [{"workload": "mine"}],
    }
    for name, content in (("card", card), ("suite", suite)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")

    assert main(["run", str(tmp_path / "suite.yaml"), "--out", str(tmp_path / "out")]) == 0

    (case,) = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["cases"]
    found = case["runs"][0]["measurement"]
    assert found["samples"] == BATCH * (STEPS - WARMUP)
    assert found["throughput"] == pytest.approx(found["samples"] / found["window_s"])
