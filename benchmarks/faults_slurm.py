"""Slurm ends a job that measures a suite on two hosts: what is left of it, and whether it goes on where it was."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from faults_trial import OK, Kind, Lane, judged, standing, suite, wait_for, wait_for_nothing

from trainmark.schema.results import Results

PROGRAMS_THERE = Path("/opt/programs")
LONG_M = 10
"""Minutes that a job may take which is to come to its end."""


def slurm_ends(how: str) -> Callable[[Lane, Kind], dict[str, Any]]:
    """Return how a job is ended: ``cancelled`` or ``out-of-time``, and submitted again, or ``requeued``.

    It is the script of ``plan --as sbatch``, submitted on the lane's first host; the hosts share no disk.
    """

    def ended(lane: Lane, kind: Kind) -> dict[str, Any]:
        before, folder = standing(lane), f"/root/{how}"
        first, python = lane.hosts[0], "/opt/trainmark/bin/python"

        def there(line: str, check: bool = True) -> str:
            return lane.cluster.run(first, "sh", "-c", f"cd {folder} && {line}", check=check).stdout.strip()

        lane.cluster.run(first, "mkdir", "-p", folder)
        options = [f"--nodelist={','.join(lane.hosts)}"]
        hosts = yaml.safe_dump(
            {"job": {"out": f"{folder}/out", "python": python, "slurm": {"options": options}}}
        )
        made = suite(lane, kind).read_text()
        card = yaml.safe_load((lane.folder / "card.yaml").read_text())
        card = yaml.safe_dump({**card, "source": {"kind": "folder", "path": str(PROGRAMS_THERE)}})
        for name, text in (("suite", made), ("card", card), ("hosts", hosts)):
            lane.cluster.run(first, "sh", "-c", f'printf %s "$1" > {folder}/{name}.yaml', "sh", text)
        there(f"{python} -m trainmark.cli.main plan suite.yaml --hosts hosts.yaml --as sbatch > job")

        def submitted(minutes: int) -> str:
            return there(f"sbatch --parsable --time={minutes} job")

        number = submitted(1 if how == "out-of-time" else LONG_M)
        began = time.time()
        try:
            wait_for(lambda: lane.ranks(lane.bad))
            struck = began + 60 if how == "out-of-time" else time.time()
            old = set(lane.ranks(lane.bad))
            if how == "cancelled":
                lane.cluster.run("control", "scancel", number)
            elif how == "requeued":
                lane.cluster.run("control", "scontrol", "requeue", number)
            wait_for(lambda: not old & set(lane.ranks(lane.bad)))
            # What Slurm queues again it may have started again by now.
            again = how == "requeued"
            left = [] if again else wait_for_nothing(lane, before, but=(folder.lstrip("/"),))
            seconds = max(0.0, time.time() - struck)
            if not again:
                number = submitted(LONG_M)
            wait_for(
                lambda: not lane.cluster.run("control", "squeue", "-h", f"-j{number}", check=False).stdout
            )
            results = Results.model_validate_json(there("cat out/results.json"))
        finally:
            lane.cluster.run("control", "scancel", number, check=False)
            left_at_end = wait_for_nothing(lane, before, but=(folder.lstrip("/"),))
            lane.cluster.run(first, "rm", "-r", folder)
        wrong, other = results.cases
        found = {"seconds": seconds, "other_measured": other.outcome is OK, "left": [*left, *left_at_end]}
        return {**judged(lane, kind, wrong), **found}

    return ended
