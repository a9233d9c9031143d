"""Rooms whose names are loaded when they are first asked for."""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import trainmark

HOUSE = Path(trainmark.__file__).parent
CHECKOUT = Path(__file__).resolve().parents[2]
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


def test_every_name_that_is_taken_from_a_room_is_there() -> None:
    """A room that is lazy has any name for the type checker; verbs and benchmarks import inside their functions."""
    lost = [
        f"{path}: {taken.module}.{alias.name}"
        for folder in (HOUSE, CHECKOUT / "benchmarks", CHECKOUT / "scripts")
        for path in folder.rglob("*.py")
        # A worker imports its framework.
        if HOUSE / "worker" not in path.parents
        for taken in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(taken, ast.ImportFrom) and (taken.module or "").startswith("trainmark.")
        for alias in taken.names
        if not _has(str(taken.module), alias.name)
    ]
    assert lost == []


def _has(module: str, name: str) -> bool:
    return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
