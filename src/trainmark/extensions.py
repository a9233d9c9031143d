"""Tasks, frameworks and programs in other folders, which an environment variable names.

``TRAINMARK_EXTENSIONS`` lists folders (separated as ``PATH`` is); in each, ``tasks/NAME``, ``frameworks/NAME``,
``worker`` (``backends/NAME``, ``models/NAME_TASK.py``, ``tasks/NAME``, ``gaps.json``, ``cards.yaml``), and the files in
``programs/cards``, ``programs/log_formats`` and ``programs/options`` are found in addition to trainmark's own.
Every package may import this module.
"""

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "TRAINMARK_EXTENSIONS"


def carried(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with absolute paths, for a process with another working directory; empty if it is unset."""
    roots = [word for word in environ.get(VARIABLE, "").split(os.pathsep) if word]
    return {VARIABLE: os.pathsep.join(str(Path(root).resolve()) for root in roots)} if roots else {}


def folders(room: str) -> tuple[Path, ...]:
    """Return the folders of this name (``tasks``, ``frameworks``, …) that extensions have."""
    roots = (Path(word) for word in os.environ.get(VARIABLE, "").split(os.pathsep) if word)
    return tuple(folder.resolve() for root in roots if (folder := root / room).is_dir())
