"""Starts workers of text and clicks in copies of preloaded processes, and has their steps looked into."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from worker_process import START, Ran, ended_together, rank_variables

from preloading import compiled_before, preloaded
from trainmark.environment import find_entry
from trainmark.equivalence import Reference, compare, follows, party, worker_flags, write_inputs
from trainmark.equivalence.inputs import NO_RULES
from trainmark.placement import free_ports
from trainmark.schema.certificate import Check, Party, Subject
from trainmark.schema.observation import Followed, Observation
from trainmark.tasks.causal_lm.equal_work import LanguageObservation
from trainmark.tasks.masked_lm.equal_work import MaskedObservation
from trainmark.tasks.recommendation.equal_work import ClickObservation

MUTATED = Path(__file__).parents[1] / "programs" / "mutated_worker.py"
COMPILERS = {"pytorch": "none", "jax": "xla", "tensorflow": "graph", "paddle": "to_static"}
"""The frameworks that train text and clicks, each with its users' compiler on a CPU, as far as that is quick."""

OBSERVATIONS: dict[str, type[Observation]] = {
    "gpt2_tiny": LanguageObservation,
    "llama_tiny": LanguageObservation,
    "bert_tiny": MaskedObservation,
    "wide_deep_tiny": ClickObservation,
    "dlrm_tiny": ClickObservation,
}
"""The small model of each kind, and what is told of its steps."""


def start(
    framework: str, folder: Path, flags: dict[str, Any], mistake: str = "", ranks: int = 1
) -> list[Ran]:
    """Run the worker in copies of a process that has imported the framework, one a rank."""
    events, port = folder / "events.jsonl", free_ports(8)
    words = [
        *([str(MUTATED), mistake] if mistake else [str(START)]),
        *(f"--framework={framework}", "--device=cpu", "--threads=1", f"--events={events}"),
        *(f"--{name}={value}" for name, value in flags.items()),
    ]
    variables = {**find_entry(framework).env_vars, **compiled_before(), "HOME": str(folder)}
    places = [rank_variables(rank, ranks, port) if ranks > 1 else {} for rank in range(ranks)]
    started = [preloaded(framework).start(words, {**variables, **place}, folder) for place in places]
    files = [events, *(events.with_name(f"{events.name}.rank{rank}") for rank in range(1, ranks))]
    return ended_together(started, files)


def assert_loader_processes_change_nothing(framework: str, folder: Path, flags: dict[str, Any]) -> None:
    """Train the same with no loader process and with more than can be used; refuse other losses."""
    losses = []
    # No more than the batches that may be in flight, or, of Grain's, which each make a part, than a batch has samples.
    most = min(9, flags["batch-per-device"]) if framework == "jax" else 4
    for workers, started in ((0, 0), (9, most)):
        (ran,) = start(
            framework, folder, {**flags, "compiler": COMPILERS[framework], "loader-workers": workers}
        )
        assert ran.code == 0, ran.stderr
        assert ran.parameters["loader_workers"] == started
        losses.append([step["loss"] for step in ran.steps])
    assert losses[0] == losses[1]


class Observer:
    """Has workers do the three steps of a model, each once, and says what does not hold of them.

    ``rules`` are the values of the task's axes of that name, where they are not the usual ones.
    """

    def __init__(self, model: str, folders: pytest.TempPathFactory, **rules: str) -> None:
        self._model, self._folders, self._rules = model, folders, rules
        self._kept: dict[tuple[object, ...], dict[str, Any]] = {}
        self._inputs: Path | None = None

    def told(
        self, framework: str, mistake: str = "", compiler: str = "none", ranks: int = 1, **changed: Any
    ) -> dict[str, Any]:
        """Return what rank 0 told of the steps; ``changed`` are flags."""
        key = (framework, mistake, compiler, ranks, *changed.items())
        if key not in self._kept:
            folder = self._folders.mktemp("equal")
            flags = flags_of_steps(self._model, self._written(), compiler, self._rules)
            # The schedule counts samples: with as many more of them the rates of the steps stay as they are.
            (epoch,) = (name for name in flags if name.startswith("epoch-"))
            flags[epoch] = str(int(flags[epoch]) * ranks)
            flags |= {name.replace("_", "-"): value for name, value in changed.items()}
            ran = start(framework, folder, flags, mistake, ranks)
            assert [one.code for one in ran] == [0] * ranks, ran[0].stderr + ran[-1].stderr
            self._kept[key] = ran[0].last["equivalence"]
        return self._kept[key]

    def _written(self) -> Path:
        if self._inputs is None:
            self._inputs = self._folders.mktemp("inputs") / "inputs.npz"
            write_inputs(self._model, self._inputs, rules=self._rules)
        return self._inputs

    def seen(self, framework: str, mistake: str = "", **changed: Any) -> Observation:
        """Return a step that was looked into, without a compiler."""
        return OBSERVATIONS[self._model].model_validate(self.told(framework, mistake, **changed))

    def alone(self, framework: str, mistake: str = "", **changed: Any) -> dict[Subject, str]:
        """Return what does not hold of a framework's step by itself."""
        seen = self.seen(framework, mistake, **changed)
        return failing(party(seen, {}, None, None, reference=Reference(self._rules)))

    def between(self, first: str, second: str) -> dict[Subject, str]:
        """Return in what the steps of two frameworks differ."""
        return failing(compare(self.seen(first), self.seen(second)).checks)

    def following(
        self, framework: str, mistake: str = "", compiler: str = "none", ranks: int = 1, **changed: Any
    ) -> dict[Subject, str]:
        """Return in what a step that nobody looked into differs from PyTorch's that was looked into.

        What a step does to the weights can be held against another framework's.
        """
        told = Followed.model_validate(self.told(framework, mistake, compiler, ranks, **changed))
        return failing(follows(self.seen("pytorch"), told, {}, compiler).checks)


def looking_in(
    model: str, folder: Path, compiler: str, rules: Mapping[str, str] = NO_RULES
) -> dict[str, Any]:
    """Return the flags of a worker that does the three steps, their inputs being in ``folder``."""
    write_inputs(model, folder / "inputs.npz", rules=rules)
    return flags_of_steps(model, folder / "inputs.npz", compiler, rules)


def flags_of_steps(model: str, inputs: Path, compiler: str, rules: Mapping[str, str]) -> dict[str, Any]:
    """Return the flags of a worker that does the three steps on inputs that are written."""
    words = worker_flags(model, inputs, compiler, rules)
    return dict(word.removeprefix("--").split("=", 1) for word in words)


def own_losses(model: str, framework: str, folder: Path) -> list[float]:
    """Return the first loss of each of two ranks with dropout, before they are averaged."""
    flags = {**looking_in(model, folder, COMPILERS[framework]), "dropout": 0.5}
    ran = start(framework, folder, flags, "own-losses", ranks=2)
    assert [one.code for one in ran] == [0, 0], ran[0].stderr + ran[1].stderr
    return [float(re.findall(r"own losses \[([^,\]]+)", one.stdout)[0]) for one in ran]


def failing(checks: tuple[Check, ...] | Party) -> dict[Subject, str]:
    """Return the subjects that do not hold, and what is said of each."""
    found = checks.checks if isinstance(checks, Party) else checks
    return {check.subject: f"{check.where} {check.remark}" for check in found if not check.holds}
