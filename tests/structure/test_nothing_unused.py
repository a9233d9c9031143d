"""Every function and class at the top of a module is named somewhere else than in its definition."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "trainmark"
CALLED_BY_OTHERS = re.compile(r"__\w+__|upgrade|downgrade")
"""What Python calls by its name, and Alembic."""


def defined(tree: ast.Module) -> list[str]:
    """Return the names of a module's functions and classes; a decorator may hand a function on to others."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [one for one in tree.body if isinstance(one, kinds)]
    return [one.name for one in found if isinstance(one, ast.ClassDef) or not one.decorator_list]


def names(tree: ast.AST) -> set[str]:
    """Return the names that a module uses: variables, attributes, imports, and words in its texts."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(r"\w+", node.value))
    return found


def test_nothing_is_defined_that_nobody_names() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    used = Counter(name for tree in trees.values() for name in names(tree))
    scripts = (ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "scripts").glob("*.py"))
    used.update(name for tree in scripts for name in names(tree))

    unused = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in sorted(trees.items())
        for name in defined(tree)
        if not used[name] and not CALLED_BY_OTHERS.fullmatch(name)
    ]
    assert unused == []
