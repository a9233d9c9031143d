"""A foreign card and a suite of the tests, written into a folder."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainmark.cli.main import main

PROGRAM = Path(__file__).parent / "command" / "train_mlp.py"

CARD: dict[str, Any] = {
    "name": "mlp",
    "description": "a small network",
    "framework": "python",
    "environment": "system",
    "source": {"kind": "folder", "path": "program"},
    "launcher": "process",
    "log_format": "nanogpt",
    "command": ["{source}/train_mlp.py", "--style=nanogpt", "--steps=60"],
    "axes": {"batch_per_device": {"flags": ["--batch-size={value}"]}},
}
SUITE: dict[str, Any] = {
    "name": "mlp",
    "cards": ["card.yaml"],
    "environment": sys.executable,
    "protocol": {"name": "adaptive", "repeats": 1},
    "defaults": {"workload": "mlp"},
    "axes": {"batch_per_device": [32]},
}


def written(folder: Path, suite: dict[str, Any] | None = None, **card: Any) -> Path:
    (folder / "program").mkdir(exist_ok=True)
    (folder / "program" / "train_mlp.py").write_bytes(PROGRAM.read_bytes())
    (folder / "card.yaml").write_text(yaml.safe_dump(CARD | card, sort_keys=False))
    (folder / "suite.yaml").write_text(yaml.safe_dump(SUITE | (suite or {}), sort_keys=False))
    return folder / "suite.yaml"


def planned(path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["plan", "--json", str(path)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
