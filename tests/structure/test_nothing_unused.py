"""Every function and class is named outside its definition, and every public name of a package outside the package."""

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


PUBLIC = ("trainmark", "trainmark.integrations")
"""The packages whose names are for users."""


def exported() -> dict[str, list[str]]:
    """Return the public names of each package, but of those that are found by their folder's name."""
    found = {}
    for path in SOURCE.rglob("__init__.py"):
        package = ".".join(path.parent.relative_to(SOURCE.parent).parts)
        if package in PUBLIC or package.startswith(("trainmark.tasks.", "trainmark.worker")):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found[package] = list(ast.literal_eval(node.value))
    return found


def taken(tree: ast.AST) -> set[tuple[str, str]]:
    """Return the names that a module imports from packages, and (without a package) those that it reads of objects."""
    imported = {
        (str(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return imported | {("", node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_no_package_exports_what_nobody_takes_from_it() -> None:
    users = [
        path for folder in ("src", "tests", "scripts", "benchmarks") for path in (ROOT / folder).rglob("*.py")
    ]
    found = set().union(*(taken(ast.parse(path.read_text(encoding="utf-8"))) for path in users))

    packages = exported()
    assert "trainmark.measure" in packages
    unused = [
        f"{package}: {name}"
        for package, names in sorted(packages.items())
        for name in names
        if not found & {(package, name), ("", name)}
    ]
    assert unused == []
