"""Rooms whose names are loaded when they are first asked for."""

from importlib import import_module
from pathlib import Path

import pytest

import trainmark

HOUSE = Path(trainmark.__file__).parent
ROOMS = [
    ".".join(path.parent.relative_to(HOUSE).parts)
    for path in sorted(HOUSE.rglob("*/__init__.py"))
    if "lazy(__name__)" in path.read_text()
]


@pytest.mark.parametrize("room", ROOMS)
def test_no_public_name_is_that_of_a_file_of_its_room(room: str) -> None:
    # The file, once imported, would be found in the place of what it defines.
    package = import_module(f"trainmark.{room}")
    files = {path.stem for path in Path(str(package.__file__)).parent.iterdir()}
    assert files.isdisjoint(package.__all__)
    for name in package.__all__:
        getattr(package, name)
