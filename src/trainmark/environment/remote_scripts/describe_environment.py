"""Says, from inside an environment, what it holds: reads a question (JSON) as its argument, prints JSON.

The question: ``{"imports": [module, ...], "versions": {name: "module.attribute.path"}}``. The answer is the
last line of standard output, after ``TRAINMARK ``: frameworks print what they like while being imported.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module, metadata
from typing import Any


def look_up(path: str) -> str | None:
    """Return what stands at ``module.attribute.path`` as text (a function is called), or None."""
    module, _, rest = path.partition(".")
    try:
        value: Any = import_module(module)
        for attribute in rest.split("."):
            value = getattr(value, attribute)
        if callable(value):
            value = value()
    except Exception:  # a framework may raise anything where it lacks the thing asked for
        return None
    if isinstance(value, (tuple, list)):
        return ".".join(str(part) for part in value)
    return None if value is None else str(value)


def failure(module: str) -> str | None:
    """Import ``module``; return None, or the reason why that is not possible, in one line."""
    try:
        import_module(module)
    except (Exception, SystemExit) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return None


def main() -> None:
    """Answer the question in ``sys.argv[1]``."""
    question = json.loads(sys.argv[1])
    # Before anything is imported: setuptools puts packages of its own on sys.path.
    found = [
        (distribution.metadata["Name"], distribution.version) for distribution in metadata.distributions()
    ]
    failures = {module: failure(module) for module in question["imports"]}
    answer = {
        "python": platform.python_version(),
        "failures": {module: reason for module, reason in failures.items() if reason},
        "versions": {name: look_up(path) for name, path in question["versions"].items()},
        # The first one found is the one that is imported.
        "packages": {name: version for name, version in reversed(found) if name},
    }
    sys.stdout.write("\nTRAINMARK " + json.dumps(answer) + "\n")


main()
