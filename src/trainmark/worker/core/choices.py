"""Checks that a framework, a device or a launcher supports the requested settings; the table of gaps.

They raise ``RunError`` (unsupported) before the rendezvous of the ranks, so that no rank waits for one that has left.

``gaps.json`` in the worker's folder is one table of them, by framework and by task; ``any`` is all of them. An
extension has a table of its own. The cards of the built-in programs use the same tables, so a plan reports the same
reasons.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .folders import PACKAGE
from .outcomes import UNSUPPORTED, RunError
from .place import Place
from .precision import PRECISIONS, Precision
from .settings import Settings

GAPS, ANY = "gaps.json", "any"


def one_of(framework: str, axis: str, name: str, there: Iterable[str]) -> None:
    """Raise unless the framework's ``axis`` (loader, compiler, …) has ``name``."""
    names = list(there)
    if name not in names:
        raise RunError(UNSUPPORTED, f"{framework} has no {axis} {name!r}; it has {', '.join(names)}")


def find_precision(framework: str, name: str, supported: Iterable[str]) -> Precision:
    """Return a precision; raise unless the framework has it."""
    one_of(framework, "precision", name, supported)
    return PRECISIONS[name]


def require_version(framework: str, version: str, oldest: tuple[int, ...]) -> None:
    """Raise for a framework older than ``oldest``; suffixes of a version are ignored."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    if numbers is None or tuple(int(part) for part in numbers.group(0).split(".")) < oldest:
        wanted = ".".join(map(str, oldest))
        raise RunError(UNSUPPORTED, f"{framework} {wanted} or later is needed; this is {version}")


def own_gpu(
    framework: str, requested: str, observed: int, place: Place, environment: Mapping[str, str] = os.environ
) -> int | None:
    """Return this rank's GPU among the ``observed`` visible ones, or None for the CPU; raise if it has none."""
    if requested == "cpu" or (requested == "auto" and not observed):
        return None
    if not observed:
        raise RunError(UNSUPPORTED, f"cuda was requested, but {framework} finds no CUDA device here")
    if place.local_rank < observed:
        return place.local_rank
    # Some launchers make only its own GPU visible to each rank; without a sign of this, two ranks must not share one.
    if observed == 1 and "CUDA_VISIBLE_DEVICES" in environment:
        return 0
    reason = f"local rank {place.local_rank} has no GPU: {framework} finds {observed} on this node"
    raise RunError(UNSUPPORTED, reason)


def refuse_gaps(settings: Settings, place: Place, device: str) -> None:
    """Raise ``RunError`` with the reason of the first gap that matches the run; ``device`` is ``cpu`` or ``cuda``."""
    axes: dict[str, Any] = {
        **vars(settings.recipe),
        **vars(settings),
        "device": device,
        "nodes": place.world_size // place.local_world_size,
        "devices_per_node": place.local_world_size,
    }
    paths = [Path(root, GAPS) for root in sys.modules[PACKAGE].__path__]
    tables = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    for row, column in ((settings.framework, settings.task), (settings.framework, ANY), (ANY, ANY)):
        for gap in (gap for table in tables for gap in table.get(row, {}).get(column, ())):
            if all(_matches(axes.get(axis), wanted) for axis, wanted in gap["when"].items()):
                raise RunError(UNSUPPORTED, gap["reason"])


def _matches(value: Any, wanted: str) -> bool:
    """Return whether an axis has the value; ``!value`` means any other, and a missing axis matches none."""
    if value is None:
        return False
    return str(value) != wanted[1:] if wanted.startswith("!") else str(value) == wanted
