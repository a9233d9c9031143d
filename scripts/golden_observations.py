#!/usr/bin/env python3
"""Write the golden observations of the built-in models; ``--check`` names those that are outdated (exit code 1).

    python scripts/golden_observations.py [MODEL ...] [--framework NAME ...]

Each model is trained for three steps in every framework (or the named ones) whose environment is ready, on a CPU. A
file is written only if all of them agree with PyTorch and with the description of the model, and if there are at least
two.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from trainmark.campaign.certifying import Question, observed_case
from trainmark.campaign.observation_run import Observed, observe
from trainmark.campaign.run_environment import RunEnvironment
from trainmark.environment import EnvironmentState, entries, state_of
from trainmark.equivalence import (
    compare,
    digest_inputs,
    equal_work_of,
    golden_document,
    golden_path,
    party,
)
from trainmark.equivalence.golden import FOLDER, Golden, golden_bytes
from trainmark.home import default_home
from trainmark.node import LocalHost
from trainmark.placement import device_of
from trainmark.schema.case import Device
from trainmark.schema.observation import Observation
from trainmark.schema.suite import Limits, Suite
from trainmark.tasks import TASKS, case_of, fixed_axes_of
from trainmark.workload import find_gap, load_workloads

TOO_LARGE = ("llama3.2_1b",)
"""Models whose observation needs some 50 GB of memory."""

RULES = {model: [{}, {"optimizer": "lamb"}] for model in ("bert_base", "bert_tiny")}


def wanted() -> list[tuple[str, dict[str, str]]]:
    """Return the models that have a golden observation, with the rules of each of their observations."""
    models = [model for task in TASKS.values() if task.equal_work for model in task.models]
    return [(model, rules) for model in models if model not in TOO_LARGE for rules in RULES.get(model, [{}])]


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
        question = Question(model, (framework,), Device.CPU, tuple(fixed_axes_of(case).items()))
        case = observed_case(question, framework, run_env)
        if find_gap(case, run_env.workload(case).card, device_of(case, run_env.machine)) is not None:
            continue
        form = equal_work_of(model, rules).observation
        observed = observe(
            case, run_env, folder / framework, folder / "inputs.npz", Limits(timeout_s=1800), form
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
            *party(observed.steps, {}, None, None, rules=rules).checks,
            *compare(observed.steps, found["pytorch"].steps).checks,
        ]
        wrong += [f"{framework}: {check.subject.value} {check.where}" for check in checks if not check.holds]
    return wrong


def write(model: str, rules: dict[str, str], frameworks: list[str]) -> bool:
    """Observe a model and write its golden observation; return whether the frameworks agree."""
    with TemporaryDirectory(prefix="trainmark-golden-") as folder:
        found = observations(model, rules, Path(folder), frameworks)
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
        golden_document(found["pytorch"].steps, agreed, rules), encoding="utf-8"
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
    given = parser.parse_args()
    chosen = [one for one in wanted() if not given.model or one[0] in given.model]
    if given.check:
        outdated = [golden_path(*one).name for one in chosen if not is_current(*one)]
        sys.stderr.writelines(
            f"{name} is outdated: run scripts/golden_observations.py\n" for name in outdated
        )
        return int(bool(outdated))
    written = [write(model, rules, given.framework) for model, rules in chosen]
    return int(not all(written))


if __name__ == "__main__":
    sys.exit(main())
