"""Packages whose names are imported on first use."""

import ast
from importlib import import_module
from importlib.util import find_spec, resolve_name
from pathlib import Path

import pytest

import trainmark

PACKAGE = Path(trainmark.__file__).parent
CHECKOUT = Path(__file__).resolve().parents[2]
LAZY = [
    ".".join(path.parent.relative_to(PACKAGE.parent).parts)
    for path in sorted(PACKAGE.rglob("*/__init__.py"))
    if "attach(" in path.read_text()
]

OF_LIBRARIES = ("trainmark.integrations",)
"""Packages whose modules each import a library that is no dependency; their own tests have it."""


@pytest.mark.parametrize("package", LAZY)
def test_the_table_and_the_imports_for_types_agree(package: str) -> None:
    tree = ast.parse(Path(str(import_module(package).__file__)).read_text(encoding="utf-8"))
    (table,) = (
        ast.literal_eval(node.value.args[1])
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id == "attach"
    )
    typed = {
        (alias.name, node.module)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {(name, resolve_name(module, package)) for module in table for name in table[module]} == typed


@pytest.mark.parametrize("package", LAZY)
def test_no_public_name_is_a_module_of_its_package(package: str) -> None:
    # Once such a module is imported, Python finds it in place of the name that it defines.
    lazy = import_module(package)
    modules = {path.stem for path in Path(str(lazy.__file__)).parent.iterdir()}
    assert modules.isdisjoint(lazy.__all__)
    if package not in OF_LIBRARIES:
        for name in lazy.__all__:
            getattr(lazy, name)


def test_every_imported_name_exists() -> None:
    """The type checker accepts any name of a lazy package; commands and benchmarks import inside their functions."""
    missing = [
        f"{path}: {node.module}.{alias.name}"
        for folder in (PACKAGE, CHECKOUT / "benchmarks", CHECKOUT / "scripts")
        for path in folder.rglob("*.py")
        # A worker imports its framework, and a callback its library.
        if not {PACKAGE / "worker", PACKAGE / "integrations"} & set(path.parents)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trainmark.")
        for alias in node.names
        if not _has(str(node.module), alias.name)
    ]
    assert missing == []


def _has(module: str, name: str) -> bool:
    return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
