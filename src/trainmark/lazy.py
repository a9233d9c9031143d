"""Rooms whose public names are loaded when they are first asked for, so that no verb waits for what it does not use."""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy(room: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a room: a name comes from where the room imports it ``if TYPE_CHECKING``."""

    @cache
    def homes() -> dict[str, str]:
        tree = ast.parse(Path(str(sys.modules[room].__file__)).read_text(encoding="utf-8"))
        blocks = (node for node in tree.body if isinstance(node, ast.If) and _is_for_types(node.test))
        imports = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
        return {alias.name: str(found.module) for found in imports for alias in found.names}

    def get(name: str) -> Any:
        # Python itself asks a package for many names with two underscores.
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(homes()[name]), name)

    return get


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
