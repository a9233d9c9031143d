#!/usr/bin/env python3
"""Write the golden observations of the built-in models; ``--check`` names those that are outdated (exit code 1).

    python scripts/golden_observations.py [MODEL ...] [--framework NAME ...]

Each model is trained for three steps in every framework (or the named ones) whose environment is ready, on a CPU. A
file is written only if all of them agree with PyTorch and with the description of the model, and if there are at least
two. ``emulate_rounding.py`` adds what the formats of low precisions imply; ``--rounding`` renews only that.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainmark.campaign.certifying import Question, observed_case
from trainmark.campaign.observation_run import Inputs, Observed, observe
from trainmark.campaign.run_environment import RunEnvironment
from trainmark.environment import EnvironmentState, entries, state_of
from trainmark.environment.locations import folder_of, python_of
from trainmark.equivalence import (
    Reference,
    compare,
    digest_inputs,
    equal_work_of,
    golden_document,
    golden_path,
    party,
    worker_flags,
    write_inputs,
)
from trainmark.equivalence.golden import FOLDER, Golden, golden_bytes, golden_text
from trainmark.files import default_home
from trainmark.node import LocalHost
from trainmark.placement import device_of
from trainmark.schema.case import Device, case_of
from trainmark.schema.observation import Observation
from trainmark.schema.suite import Limits, Suite
from trainmark.tasks import TASKS
from trainmark.workload import find_gap, load_workloads

EMULATION = Path(__file__).with_name("emulate_rounding.py")

FEW = 16
"""Arrays with fewer elements have distances from all formats."""

RULES = {
    **{model: [{}, {"optimizer": "lamb"}] for model in ("bert_base", "bert_tiny")},
    **{model: [{}, {"packing": "documents"}] for model in ("gpt2_tiny", "llama_tiny")},
}


def wanted() -> list[tuple[str, dict[str, str]]]:
    """Return the models that have a golden observation, with the rules of each of their observations."""
    models = [model for task in TASKS.values() if task.equal_work for model in task.models]
    return [(model, rules) for model in models for rules in RULES.get(model, [{}])]


def emulated_rounding(model: str, rules: dict[str, str], folder: Path) -> dict[str, Any]:
    """Return the distances that each format implies, emulated by PyTorch's worker; raise if it fails."""
    inputs, out = folder / "rounding.npz", folder / "rounding.json"
    write_inputs(model, inputs, rules=rules)
    python = python_of(folder_of(default_home({}), "pytorch"))
    flags = ("--framework=pytorch", "--device=cpu", f"--events={folder / 'rounding.jsonl'}")
    words = [str(python), str(EMULATION), str(out), *flags, *worker_flags(model, inputs, rules=rules)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": ""})
    task = equal_work_of(model, rules)
    sizes = {name: array.size for name, array in task.inputs(task.form(model), 0).items()}
    return pool_formats(json.loads(out.read_text(encoding="utf-8")), sizes)


def pool_formats(rounding: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """Return the distances of the two formats, each with what the other tells of it.

    Three steps tell little of rare events. A distance of few elements may be small by chance: that of the other format
    is as much larger as its last bit is. A value that turns at a ReLU does so the more often the larger that bit is, so
    that the distance goes by its root: if a value turned in the coarse format alone, the fine one has that part too.
    """
    coarse, fine = sorted(rounding, key=int)
    step = 2.0 ** (int(fine) - int(coarse))

    def pooled(subject: str, name: str) -> tuple[float, float]:
        ours, finer = rounding[coarse][subject][name], rounding[fine][subject][name]
        if subject == "loss" or sizes.get(name, FEW) < FEW:
            largest = max(ours, finer * step)
            return largest, largest / step
        turned = ours > 2 * step * finer
        return max(ours, finer * math.sqrt(step)), ours / math.sqrt(step) if turned else finer

    return {
        bits: {
            subject: {name: float(f"{pooled(subject, name)[index]:.2g}") for name in distances}
            for subject, distances in rounding[bits].items()
        }
        for index, bits in enumerate((coarse, fine))
    }


def renew_rounding(model: str, rules: dict[str, str]) -> bool:
    """Write the rounding of a golden observation anew; the observed steps stay."""
    with TemporaryDirectory(prefix="trainmark-golden-") as folder:
        rounding = emulated_rounding(model, rules, Path(folder))
    stored = Golden.model_validate_json(golden_bytes(model, rules))
    golden_path(model, rules).write_text(
        golden_text(stored.model_copy(update={"rounding": rounding})), encoding="utf-8"
    )
    sys.stderr.write(f"{golden_path(model, rules).name}: rounding\n")
    return True


def is_current(model: str, rules: dict[str, str]) -> bool:
    """Return whether the stored observation is one of today's inputs and recipe."""
    stored = golden_bytes(model, rules)
    return bool(stored) and Golden.model_validate_json(stored).inputs == digest_inputs(model, rules)


def observations(
    model: str, rules: dict[str, str], folder: Path, frameworks: list[str]
) -> dict[str, Observed[Observation]]:
    """Return the observed steps of every ready framework that trains the model; of the named ones only, if any."""
    home = default_home({})
    ready = [entry.framework for entry in entries() if state_of(entry, home) is EnvironmentState.READY]
    found: dict[str, Observed[Observation]] = {}
    for framework in (name for name in ready if not frameworks or name in frameworks):
        case = case_of(framework=framework, model=model, device=Device.CPU).varied(**rules)
        suite = Suite(name="golden", cases=(case,))
        run_env = RunEnvironment(suite, load_workloads(), (LocalHost(),), home)
        question = Question(model, (framework,), Device.CPU, tuple(case.fixed_axes.items()))
        case = observed_case(question, framework, run_env)
        if find_gap(case, run_env.workload(case).card, device_of(case, run_env.machine)) is not None:
            continue
        form = equal_work_of(model, rules).observation
        observed = observe(
            case, run_env, folder / framework, Inputs(folder / "inputs.npz"), Limits(timeout_s=1800), form
        )
        if isinstance(observed, str):
            sys.stderr.write(f"{model}: {framework}: {observed}\n")
        else:
            found[framework] = observed
    return found


def disagreements(found: dict[str, Observed[Observation]], rules: dict[str, str]) -> list[str]:
    """Return the failed checks of the frameworks against the description and PyTorch."""
    wrong = []
    for framework, observed in found.items():
        checks = [
            *party(observed.steps, {}, None, None, reference=Reference(rules)).checks,
            *compare(observed.steps, found["pytorch"].steps).checks,
        ]
        wrong += [f"{framework}: {check.subject.value} {check.where}" for check in checks if not check.holds]
    return wrong


def write(model: str, rules: dict[str, str], frameworks: list[str]) -> bool:
    """Observe a model and write its golden observation; return whether the frameworks agree."""
    with TemporaryDirectory(prefix="trainmark-golden-") as folder:
        found = observations(model, rules, Path(folder), frameworks)
        rounding = emulated_rounding(model, rules, Path(folder))
    problems = (
        disagreements(found, rules)
        if "pytorch" in found and len(found) > 1
        else ["fewer than two frameworks"]
    )
    if problems:
        sys.stderr.write(f"{model}: not written: {'; '.join(problems)}\n")
        return False
    agreed = {name: observed.version or "" for name, observed in found.items()}
    FOLDER.mkdir(exist_ok=True)
    golden_path(model, rules).write_text(
        golden_document(found["pytorch"].steps, agreed, rules, rounding), encoding="utf-8"
    )
    sys.stderr.write(f"{golden_path(model, rules).name}: {', '.join(agreed)}\n")
    return True


def main() -> int:
    """Write or check the golden observations; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="*")
    parser.add_argument("--framework", nargs="+", default=[])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rounding", action="store_true")
    given = parser.parse_args()
    chosen = [one for one in wanted() if not given.model or one[0] in given.model]
    if given.check:
        outdated = [golden_path(*one).name for one in chosen if not is_current(*one)]
        sys.stderr.writelines(
            f"{name} is outdated: run scripts/golden_observations.py\n" for name in outdated
        )
        return int(bool(outdated))
    if given.rounding:
        renewed = [renew_rounding(*one) for one in chosen]
        return int(not all(renewed))
    written = [write(model, rules, given.framework) for model, rules in chosen]
    return int(not all(written))


if __name__ == "__main__":
    sys.exit(main())
