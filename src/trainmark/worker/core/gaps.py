"""The gaps of the workers: unsupported combinations of their axes, with the reason.

``gaps.json`` in the worker's folder is one table of them, by framework and by task; ``any`` is all of them. An
extension has a table of its own. The cards of the built-in programs use the same tables, so a plan reports the same
reasons.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .folders import PACKAGE
from .outcomes import UNSUPPORTED, RunError
from .place import Place
from .settings import Settings

GAPS = "gaps.json"
ANY = "any"


def refuse_gaps(settings: Settings, place: Place, device: str) -> None:
    """Raise ``RunError`` with the reason of the first gap that matches the run; ``device`` is ``cpu`` or ``cuda``."""
    axes: dict[str, Any] = {
        **vars(settings.recipe),
        **vars(settings),
        "device": device,
        "nodes": place.world_size // place.local_world_size,
        "devices_per_node": place.local_world_size,
    }
    for gap in _gaps(settings.framework, settings.task):
        if all(_matches(axes.get(axis), wanted) for axis, wanted in gap["when"].items()):
            raise RunError(UNSUPPORTED, gap["reason"])


def _gaps(framework: str, task: str) -> Iterator[Mapping[str, Any]]:
    paths = [Path(root, GAPS) for root in sys.modules[PACKAGE].__path__]
    tables = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    for row, column in ((framework, task), (framework, ANY), (ANY, ANY)):
        for table in tables:
            yield from table.get(row, {}).get(column, ())


def _matches(value: Any, wanted: str) -> bool:
    """Return whether an axis has the value; ``!value`` means any other, and a missing axis matches none."""
    if value is None:
        return False
    return str(value) != wanted[1:] if wanted.startswith("!") else str(value) == wanted
