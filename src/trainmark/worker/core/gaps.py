"""The gaps of a framework's worker: unsupported combinations of its axes, with the reason.

They are in files ``gaps.json``: for all workers in this folder, for a framework in its folder, for one task in the
task's folder below that. The card of a built-in program uses the same files, so a plan reports the same reasons.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping

from .folders import PACKAGE
from .outcomes import UNSUPPORTED, RunError
from .place import Place
from .settings import Settings

GAPS = "gaps.json"


def refuse_gaps(settings: Settings, place: Place, device: str) -> None:
    """Raise ``RunError`` with the reason of the first gap that matches the run; ``device`` is ``cpu`` or ``cuda``."""
    axes: Dict[str, Any] = {
        **vars(settings.recipe),
        **vars(settings),
        "device": device,
        "nodes": place.world_size // place.local_world_size,
        "devices_per_node": place.local_world_size,
    }
    for gap in _gaps(settings.framework, settings.task.replace("-", "_")):
        if all(_holds(axes.get(axis), wanted) for axis, wanted in gap["when"].items()):
            raise RunError(UNSUPPORTED, gap["reason"])


def _gaps(framework: str, task: str) -> Iterator[Mapping[str, Any]]:
    roots = [Path(root) for root in sys.modules[PACKAGE].__path__]
    for folder in (Path(framework, task), Path(framework), Path("core")):
        for path in (root / folder / GAPS for root in roots):
            if path.is_file():
                yield from json.loads(path.read_text(encoding="utf-8"))


def _holds(value: Any, wanted: str) -> bool:
    """Return whether an axis has the value; ``!value`` means any other, and a missing axis matches none."""
    if value is None:
        return False
    return str(value) != wanted[1:] if wanted.startswith("!") else str(value) == wanted
