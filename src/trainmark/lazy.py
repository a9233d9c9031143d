"""Packages whose public names are imported on first use, so that no command waits for modules that it does not need."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def attach(package: str, exports: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the module-level ``__getattr__`` (PEP 562) of ``package``.

    ``exports`` has, for each module, the names that the package exports from it; a module that starts with ``.`` is
    relative to the package. The package imports the same names under ``TYPE_CHECKING`` for the type checker.
    """
    module_of = {name: module for module, names in exports.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(module_of[name], package), name)
        # The package then has the name, and does not ask again: a loop over many files uses it for each.
        setattr(sys.modules[package], name, found)
        return found

    return get
