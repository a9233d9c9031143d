"""The Slurm allocation of an agent, for commands that are srun themselves."""

import os
from collections.abc import Sequence
from pathlib import Path

ALLOCATION = "TRAINMARK_SLURM_JOB_ID"
"""The variable in which an agent keeps the number of its allocation, so that only srun finds it."""

_LONGEST_PREFIX = 8
"""The words of a command in which srun is searched: ``env NAME=VALUE … srun``."""


def keep_allocation(number: str | None) -> None:
    """Keep the number of the allocation for later commands; None: there is no allocation."""
    if number is not None:
        os.environ[ALLOCATION] = number


def allocation_variables(words: Sequence[str]) -> dict[str, str]:
    """Return the variables by which an srun becomes a step of the allocation, next to the agent; empty for others."""
    number = os.environ.get(ALLOCATION)
    if number is None or "srun" not in (Path(word).name for word in words[:_LONGEST_PREFIX]):
        return {}
    return {"SLURM_JOB_ID": number, "SLURM_OVERLAP": "1"}
