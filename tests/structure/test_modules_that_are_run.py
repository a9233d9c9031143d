"""A module that ``python -m`` runs is not imported again by what it imports.

It would be there twice, with classes, exceptions and enums that are not those of the other copy.
"""

import re
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "trainmark"
GUARD = re.compile(r'^if __name__ == "__main__":', re.MULTILINE)
IMPORT = re.compile(r"^ *from trainmark\.([\w.]+) import ", re.MULTILINE)
RUN = sorted(path for path in SOURCE.rglob("*.py") if GUARD.search(path.read_text("utf-8")))


@cache
def imported_by(path: Path) -> frozenset[Path]:
    """Return the modules that a module imports, also in its functions."""
    places = (SOURCE.joinpath(*name.split(".")) for name in IMPORT.findall(path.read_text("utf-8")))
    files = (place / "__init__.py" if place.is_dir() else place.with_suffix(".py") for place in places)
    return frozenset(file for file in files if file.is_file())


def test_the_modules_are_found() -> None:
    found = {str(path.relative_to(SOURCE)) for path in RUN}
    assert {"cli/main.py", "environment/__main__.py", "node/agent.py"} <= found


@pytest.mark.parametrize("path", RUN, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_that_is_run_is_not_imported_again(path: Path) -> None:
    reached: set[Path] = set()
    waiting = [path]
    while waiting:
        new = imported_by(waiting.pop()) - reached
        reached |= new
        waiting += new
    assert path not in reached
