"""Describe the environment that runs this script: read a query (JSON) from the argument, print JSON.

The query: ``{"imports": [module, ...], "versions": {name: "module.attribute.path"}}``. The answer is the last line of
standard output, after ``TRAINMARK ``, because frameworks may print lines while being imported.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module, metadata
from typing import Any


def look_up(path: str) -> str | None:
    """Return the value of ``module.attribute.path`` as text (functions are called), or None."""
    module, _, rest = path.partition(".")
    try:
        value: Any = import_module(module)
        for attribute in rest.split("."):
            value = getattr(value, attribute)
        if callable(value):
            value = value()
    except Exception:  # a framework may raise anything if it lacks the attribute
        return None
    if isinstance(value, (tuple, list)):
        return ".".join(str(part) for part in value)
    return None if value is None else str(value)


def import_failure(module: str) -> str | None:
    """Import ``module``; return None, or the import error in one line."""
    try:
        import_module(module)
    except (Exception, SystemExit) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return None


def main() -> None:
    """Answer the query in ``sys.argv[1]``."""
    query = json.loads(sys.argv[1])
    # List packages before importing anything: setuptools adds its vendored packages to sys.path.
    found = [
        (distribution.metadata["Name"], distribution.version) for distribution in metadata.distributions()
    ]
    failures = {module: import_failure(module) for module in query["imports"]}
    answer = {
        "python": platform.python_version(),
        "failures": {module: reason for module, reason in failures.items() if reason},
        "versions": {name: look_up(path) for name, path in query["versions"].items()},
        # Reversed: of duplicates, the first on sys.path is the one that is imported.
        "packages": {name: version for name, version in reversed(found) if name},
    }
    sys.stdout.write("\nTRAINMARK " + json.dumps(answer) + "\n")


main()
