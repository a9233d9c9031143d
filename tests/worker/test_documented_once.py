"""Every public method of the worker is documented where it is declared; a class that overrides it adds what differs."""

import ast
from collections.abc import Iterator
from pathlib import Path

WORKER = Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"


def classes_in(folder: Path) -> dict[str, list[ast.ClassDef]]:
    """Return the modules' own classes by name; several files have a class of one name, such as ``Group``."""
    found: dict[str, list[ast.ClassDef]] = {}
    for path in sorted(folder.rglob("*.py")):
        if "kernels" not in path.parts:
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(node)
    return found


def public_methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    yield from (
        inner for inner in node.body if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_")
    )


def ancestors(node: ast.ClassDef, classes: dict[str, list[ast.ClassDef]]) -> Iterator[ast.ClassDef]:
    for given in node.bases:
        base = given.value if isinstance(given, ast.Subscript) else given
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        for parent in classes.get(name, ()):
            if parent is not node:
                yield parent
                yield from ancestors(parent, classes)


def undocumented(classes: dict[str, list[ast.ClassDef]]) -> list[str]:
    return [
        f"{node.name}.{method.name}"
        for nodes in classes.values()
        for node in nodes
        if not node.name.startswith("_")
        for method in public_methods(node)
        if ast.get_docstring(method) is None
        and not any(
            ast.get_docstring(declared)
            for parent in ancestors(node, classes)
            for declared in public_methods(parent)
            if declared.name == method.name
        )
    ]


def test_public_methods_are_documented_where_they_are_declared() -> None:
    assert undocumented(classes_in(WORKER)) == []


def test_a_method_that_overrides_nothing_needs_a_docstring(tmp_path: Path) -> None:
    source = 'class Base:\n    def one(self):\n        """Do it."""\n\n\nclass Own(Base):\n    def one(self): ...\n'
    (tmp_path / "own.py").write_text(f"{source}    def other(self): ...\n")
    assert undocumented(classes_in(tmp_path)) == ["Own.other"]
