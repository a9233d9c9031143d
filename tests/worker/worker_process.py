"""Starts the workers as real processes, each with the Python of its framework's environment."""

import contextlib
import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from frameworks import framework_python, needs_framework
from trainmark.placement import free_ports

WORKER = Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"
START = WORKER / "start.py"

PYTORCH = framework_python("pytorch")
needs_pytorch = needs_framework("pytorch")

SMALL = {
    "model": "mobilenet_v1",
    "batch-per-device": "2",
    "image-size": "32",
    "steps": "6",
    "warmup-steps": "2",
    "threads": "1",
}


@dataclass(frozen=True)
class Ran:
    """How a worker process ended, and what it wrote."""

    code: int
    stdout: str
    stderr: str
    events: list[dict[str, Any]]

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(next(event["data"] for event in self.events if event["step"] == "PARAMETER"))

    @property
    def steps(self) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events if isinstance(event["step"], list) and event["step"]]

    @property
    def last(self) -> dict[str, Any]:
        assert self.events[-1]["step"] == []
        return dict(self.events[-1]["data"])


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read lines ``DLLL {json}``; NaN and Infinity are no JSON."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    assert all(line.startswith("DLLL ") for line in lines)
    return [json.loads(line.removeprefix("DLLL "), parse_constant=refuse) for line in lines]


def command(flags: dict[str, str], events: Path, framework: str = "pytorch") -> list[str]:
    """Return the command of one rank."""
    given = {**SMALL, **flags, "events": str(events)}
    words = [f"--{name}={given[name]}" for name in given]
    return [framework_python(framework), str(START), "--framework", framework, *words]


def rank_variables(rank: int, world_size: int, port: int) -> dict[str, str]:
    """Return what torchrun would set."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def start_rank(
    flags: dict[str, str], events: Path, variables: dict[str, str], framework: str = "pytorch"
) -> "subprocess.Popen[str]":
    """Start one rank in a process group of its own."""
    return subprocess.Popen(
        command(flags, events, framework),
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def train(
    tmp_path: Path,
    framework: Any = "pytorch",
    variables: Any = None,
    **flags: str | int | float | Path,
) -> Ran:
    """Run the worker as one process with the flags given; `_` in a name stands for `-`."""
    events = tmp_path / "events.jsonl"
    events.unlink(missing_ok=True)
    given = {name.replace("_", "-"): str(value) for name, value in flags.items()}
    process = start_rank(given, events, variables or {}, framework)
    return ended(process, events)


def ended(process: "subprocess.Popen[str]", events: Path, within_s: float = 300) -> Ran:
    """Wait for a worker and read what it wrote; after the time out nothing of its process group is left."""
    with process:
        try:
            stdout, stderr = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            state = f"exit code {process.poll()}; it said: {error.stderr!r}"
            raise AssertionError(f"not over after {within_s:g} s ({state})") from None
    return Ran(process.returncode, stdout, stderr, read_events(events))


def train_together(
    tmp_path: Path,
    framework: Any = "pytorch",
    variables: Any = None,
    **flags: str | int | float | Path,
) -> list[Ran]:
    """Run two ranks by their bare variables; the events are rank 0's, or those of the other rank's own file."""
    events = tmp_path / "events.jsonl"
    given = {name.replace("_", "-"): str(value) for name, value in flags.items()}
    port = free_ports(8)
    own_variables = [{**rank_variables(rank, 2, port), **(variables or {})} for rank in range(2)]
    processes = [start_rank(given, events, own, framework) for own in own_variables]
    files = [events, events.with_name(f"{events.name}.rank1")]
    return [ended(process, own) for process, own in zip(processes, files, strict=True)]


def in_pytorch(code: str) -> Any:
    """Run a piece of Python beside PyTorch, with the worker loaded; return the JSON that it prints last."""
    loaded = f"import sys; sys.path.insert(0, {str(WORKER)!r}); import start, json, torch\n"
    done = subprocess.run(
        [PYTORCH, "-c", loaded + code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def make_images(root: Path, count: int = 12) -> Path:
    """Write ``count`` JPEGs in two class folders and a list file beside them; return the folder."""
    noise = np.random.default_rng(0)
    lines = []
    for index in range(count):
        name = f"class{index % 2}/image {index}.jpg"
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = noise.integers(0, 255, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((120 + index, 90)).save(root / name)
        lines.append(f"{name} {index % 2}\n")
    (root / "list.txt").write_text("".join(lines), encoding="utf-8")
    return root
