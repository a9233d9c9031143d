"""Starts workers, not of pictures, in copies of preloaded processes, and has their steps looked into."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_process import LONG_S, START, Ran, ended, rank_variables

from preloading import compiled_before, preloaded
from trainmark.environment import find_entry
from trainmark.equivalence import worker_flags, write_inputs
from trainmark.placement import free_ports
from trainmark.words.certificate import Check, Party, Subject

MUTATED = Path(__file__).parents[1] / "programs" / "mutated_language.py"

Told = dict[str, Any]
Observe = Callable[..., Told]


def start(
    framework: str,
    folder: Path,
    flags: dict[str, Any],
    mistake: str = "",
    ranks: int = 1,
    mutated: Path = MUTATED,
) -> list[Ran]:
    """Run the worker in copies of a process that has imported the framework, one a rank; ``mutated`` has mistakes."""
    events, port = folder / "events.jsonl", free_ports(8)
    words = [
        *([str(mutated), mistake] if mistake else [str(START)]),
        *(f"--framework={framework}", "--device=cpu", "--threads=1", f"--events={events}"),
        *(f"--{name}={value}" for name, value in flags.items()),
    ]
    variables = {**find_entry(framework).env_vars, **compiled_before(), "HOME": str(folder)}
    places = [rank_variables(rank, ranks, port) if ranks > 1 else {} for rank in range(ranks)]
    started = [preloaded(framework).start(words, {**variables, **place}, folder) for place in places]
    files = [events, *(events.with_name(f"{events.name}.rank{rank}") for rank in range(1, ranks))]
    return [ended(process, file, LONG_S) for process, file in zip(started, files, strict=True)]


def observer(model: str, folders: pytest.TempPathFactory, mutated: Path = MUTATED) -> Observe:
    """Return a function that has a worker do the three steps, each once; it returns what rank 0 told."""
    kept: dict[tuple[object, ...], Told] = {}

    def told(
        framework: str, mistake: str = "", compiler: str = "none", ranks: int = 1, **changed: Any
    ) -> Told:
        key = (framework, mistake, compiler, ranks, *changed.items())
        if key not in kept:
            folder = folders.mktemp("equal")
            write_inputs(model, folder / "inputs.npz")
            words = worker_flags(model, folder / "inputs.npz", compiler)
            flags = dict(word.removeprefix("--").split("=", 1) for word in words)
            # The schedule counts samples: with as many more of them the rates of the steps stay as they are.
            (epoch,) = (name for name in flags if name.startswith("epoch-"))
            flags[epoch] = str(int(flags[epoch]) * ranks)
            flags |= {name.replace("_", "-"): value for name, value in changed.items()}
            ran = start(framework, folder, flags, mistake, ranks, mutated)
            assert [one.code for one in ran] == [0] * ranks, ran[0].stderr + ran[-1].stderr
            kept[key] = ran[0].last["equivalence"]
        return kept[key]

    return told


def failing(checks: tuple[Check, ...] | Party) -> dict[Subject, str]:
    """Return the subjects that do not hold, and what is said of each."""
    found = checks.checks if isinstance(checks, Party) else checks
    return {check.subject: f"{check.where} {check.remark}" for check in found if not check.holds}
