"""Starts the workers as real processes with the Python of a framework's environment.

``train`` and ``beside`` run in copies of a process that has imported the framework already (``preloading.py``); with
``anew=True``, and by ``start_rank``, a worker starts as a user's does.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from frameworks import framework_python
from preloading import Copy, compiled_before, preloaded
from trainmark.placement import free_ports

WORKER = Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"
START = WORKER / "start.py"

LONG_S = 300
"""Seconds after which a process that has not ended is held to hang, also on a machine that does other work."""

SMALL = {
    "model": "mobilenet_tiny",
    "batch-per-device": "2",
    "image-size": "32",
    "steps": "6",
    "warmup-steps": "2",
    "threads": "1",
}

BESIDE = f"""
import sys; sys.path.insert(0, {str(WORKER)!r}); import start, json, os
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import Place, place_from
from trainmark_worker.core.window import measure
ALONE = place_from({{}})
def settings(*more):
    return parse([*FLAGS, *more], 1)
def refused(work):
    try:
        work()
    except RunError as error:
        return [error.outcome, error.reason]
"""
"""What pieces of Python that run beside a worker begin with; ``FLAGS`` is what ``SMALL`` says."""

Process = subprocess.Popen[str] | Copy


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

    @property
    def doubts(self) -> list[str]:
        """The doubts of its work; in a window of a few steps a loader may be late by a batch."""
        return [entry["code"] for entry in self.last["suspect"] if not entry["code"].startswith("queue-")]


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
    flags: Mapping[str, Any],
    events: Path,
    variables: Mapping[str, str] | None = None,
    framework: str = "pytorch",
    anew: bool = False,
    program: tuple[str, ...] = (str(START),),
) -> Process:
    """Start one rank in a process group of its own; ``_`` in a flag's name stands for ``-``.

    ``program`` is the worker's start, or another script with its own words before the flags.
    """
    words = command({name.replace("_", "-"): str(flags[name]) for name in flags}, events, framework)
    words[1:2] = program
    if not anew:
        return preloaded(framework).start(words[1:], variables or {}, Path.cwd())
    return subprocess.Popen(
        words,
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def start_ranks(
    flags: Mapping[str, Any], events: Path, framework: str = "pytorch", anew: bool = False
) -> list[Process]:
    """Start two ranks by the bare variables of a launcher; what is compiled for them is kept for others."""
    port = free_ports(8)
    # Threads that spin while they wait take the cores from the ranks that they wait for.
    shared = {**compiled_before(), "OMP_WAIT_POLICY": "passive"}
    places = [{**shared, **rank_variables(rank, 2, port)} for rank in range(2)]
    return [start_rank(flags, events, place, framework, anew) for place in places]


def end_group(process: Process) -> None:
    """Kill a process with all that it has started, and take its end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def wait_for_steps(process: Process, count: int = 1) -> None:
    """Read what a rank prints until it has told ``count`` times that it is in the middle of training."""
    assert process.stdout is not None
    for line in process.stdout:
        count -= line.startswith("step ")
        if count == 0:
            return
    _, stderr = process.communicate(timeout=LONG_S)
    raise AssertionError(f"it ended before it trained: {stderr}")


def train(
    tmp_path: Path,
    framework: str = "pytorch",
    variables: Mapping[str, str] | None = None,
    anew: bool = False,
    **flags: Any,
) -> Ran:
    """Run the worker as one process with the flags given; ``_`` in a name stands for ``-``."""
    events = tmp_path / "events.jsonl"
    events.unlink(missing_ok=True)
    return ended(start_rank(flags, events, variables, framework, anew), events)


def ended(process: Process, events: Path, within_s: float = LONG_S) -> Ran:
    """Wait for a worker and read what it wrote; after the time out nothing of its process group is left."""
    with process:
        try:
            stdout, stderr = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            end_group(process)
            raise AssertionError(f"not over after {within_s:g} s") from None
    assert process.returncode is not None
    return Ran(process.returncode, stdout, stderr, read_events(events))


def ended_together(
    processes: Sequence[Process], files: Sequence[Path], within_s: float = LONG_S
) -> list[Ran]:
    """Wait for the ranks of a run; where one is not over after a long time, say what those before it have said."""
    ran: list[Ran] = []
    for process, file in zip(processes, files, strict=True):
        try:
            ran.append(ended(process, file, within_s))
        except AssertionError as error:
            for left in processes[len(ran) + 1 :]:
                end_group(left)
            told = "".join(
                f"\nrank {rank}: exit code {one.code}\n{one.stderr}" for rank, one in enumerate(ran)
            )
            raise AssertionError(f"rank {len(ran)} was {error}{told}") from None
    return ran


def train_together(tmp_path: Path, framework: str = "pytorch", anew: bool = False, **flags: Any) -> list[Ran]:
    """Run two ranks; the events are rank 0's, or those of the other rank's own file."""
    events = tmp_path / "events.jsonl"
    files = [events, events.with_name(f"{events.name}.rank1")]
    for file in files:
        file.unlink(missing_ok=True)
    processes = start_ranks(flags, events, framework, anew)
    return ended_together(processes, files)


def start_beside(framework: str, code: str, *words: str, variables: Mapping[str, str] | None = None) -> Copy:
    """Start a piece of Python beside a framework, with the worker loaded and what ``BESIDE`` defines."""
    # As many steps as a piece of Python likes to take.
    small = {name: value for name, value in SMALL.items() if not name.endswith("steps")}
    flags = [f"--framework={framework}", *(f"--{name}={small[name]}" for name in small)]
    opening = (
        "from trainmark_worker.core.folders import import_trainer\n"
        f"open_training = import_trainer({framework!r}, 'image-classification').open_training"
    )
    whole = f"FLAGS = {flags!r}\n{BESIDE}\n{opening}\n{code}"
    return preloaded(framework).start(["-c", *words], variables or {}, Path.cwd(), whole)


def answer_of(process: Copy) -> Any:
    """Return the JSON that a piece of Python printed last."""
    with process:
        stdout, stderr = process.communicate(timeout=LONG_S)
    assert process.returncode == 0, stderr
    return json.loads(stdout.splitlines()[-1])


def beside(framework: str, code: str, *words: str, variables: Mapping[str, str] | None = None) -> Any:
    """Run a piece of Python beside a framework; return the JSON that it prints last."""
    return answer_of(start_beside(framework, code, *words, variables=variables))


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
