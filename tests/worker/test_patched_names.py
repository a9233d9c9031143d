"""A planted mistake replaces a name that the worker has: one that is gone would leave the worker without a mistake."""

import ast
from collections.abc import Iterator
from pathlib import Path

WORKER = Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"
PATCHING = (
    Path(__file__).resolve().parents[1] / "programs",
    Path(__file__).resolve().parents[2] / "benchmarks",
)
PREFIX = "trainmark_worker."


def names_in(module: str) -> set[str]:
    """Return the names that a module of the worker defines or imports."""
    path = WORKER.joinpath(*module.removeprefix(PREFIX).split("."))
    text = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    names: set[str] = set()
    for node in ast.parse(text.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names


def module_of(node: ast.AST) -> str | None:
    """Return the worker's module that ``importlib.import_module`` is called with, if it is a constant."""
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
        return None
    given = str(node.args[0].value)
    return given if ast.unparse(node.func).endswith("import_module") and given.startswith(PREFIX) else None


def imported(node: ast.AST) -> dict[str, str]:
    """Return the worker's modules that are imported within a node, by the names of the variables."""
    found: dict[str, str] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assign | ast.AnnAssign) and inner.value is not None:
            target = inner.targets[0] if isinstance(inner, ast.Assign) else inner.target
            module = module_of(inner.value)
            if module is not None:
                found[ast.unparse(target)] = module
    return found


def patched(source: str) -> Iterator[tuple[str, str]]:
    """Yield the modules and the names in them that a program replaces."""
    tree = ast.parse(source)
    everywhere = imported(
        ast.Module([node for node in tree.body if not isinstance(node, ast.FunctionDef)], [])
    )
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        modules = {**everywhere, **imported(function)}
        for node in ast.walk(function):
            for target in node.targets if isinstance(node, ast.Assign) else ():
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) in modules:
                    yield modules[ast.unparse(target.value)], target.attr
            # ``dataclasses.replace`` has one argument by position.
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "replace" and len(node.args) == 3:
                owner, name, _ = map(ast.unparse, node.args)
                module, _, owned = owner.partition(".")
                if module in modules:
                    yield modules[module], owned or ast.literal_eval(name)


def test_every_name_that_a_mistake_replaces_is_the_workers() -> None:
    sources = [
        path.read_text(encoding="utf-8") for folder in PATCHING for path in sorted(folder.rglob("*.py"))
    ]
    replaced = {pair for source in sources for pair in patched(source)}
    assert len(replaced) > 5
    assert sorted(f"{module}.{name}" for module, name in replaced if name not in names_in(module)) == []


def test_a_name_that_is_gone_is_found() -> None:
    source = (
        'def one():\n    training: Any = importlib.import_module("trainmark_worker.core.training")\n'
        "    training.gone = training.NONE = None\n"
        '    replace(training, "gone_too", None)\n    replace(training.Training, "step", None)\n'
    )
    assert [name for _, name in patched(source)] == ["gone", "NONE", "gone_too", "Training"]
    assert dict.fromkeys(name in names_in(module) for module, name in patched(source)) == {
        False: None,
        True: None,
    }
