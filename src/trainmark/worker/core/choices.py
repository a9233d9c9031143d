"""Checks that a framework, a device or a launcher supports the requested settings.

They raise ``RunError`` (unsupported) before the rendezvous of the ranks, so that no rank waits for one that has left.
"""

import os
import re
from collections.abc import Iterable, Mapping

from .outcomes import UNSUPPORTED, RunError
from .place import Place


def one_of(framework: str, axis: str, name: str, there: Iterable[str]) -> None:
    """Raise unless the framework's ``axis`` (loader, compiler, …) has ``name``."""
    names = list(there)
    if name not in names:
        raise RunError(UNSUPPORTED, f"{framework} has no {axis} {name!r}; it has {', '.join(names)}")


def require_version(framework: str, version: str, oldest: tuple[int, ...]) -> None:
    """Raise for a framework older than ``oldest``; suffixes of a version are ignored."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    if numbers is None or tuple(int(part) for part in numbers.group(0).split(".")) < oldest:
        wanted = ".".join(map(str, oldest))
        raise RunError(UNSUPPORTED, f"{framework} {wanted} or later is needed; this is {version}")


def own_gpu(
    framework: str, asked: str, seen: int, place: Place, environment: Mapping[str, str] = os.environ
) -> int | None:
    """Return this rank's GPU among the ``seen`` visible ones, or None for the CPU; raise if there is no GPU for it.

    Some launchers make only its own GPU visible to each rank; without a sign of this, two ranks must not share one.
    """
    if asked == "cpu" or (asked == "auto" and not seen):
        return None
    if not seen:
        raise RunError(UNSUPPORTED, f"cuda was requested, but {framework} finds no CUDA device here")
    if place.local_rank < seen:
        return place.local_rank
    if seen == 1 and "CUDA_VISIBLE_DEVICES" in environment:
        return 0
    raise RunError(
        UNSUPPORTED, f"local rank {place.local_rank} has no GPU: {framework} finds {seen} on this node"
    )
