"""Imports on first use: the public names of packages, and libraries that may be missing.

No command waits for modules that it does not need; a missing library becomes one sentence with the extra that has it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from trainmark.errors import InputError


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


EXTRA_OF = {
    "alembic": "run",
    "fastapi": "serve",
    "google_crc32c": "data",
    "jinja2": "report",
    "junitparser": "junit",
    "mlflow": "mlflow",
    "mlperf_logging": "mllog",
    "narwhals": "frames",
    "pandas": "frames",
    "PIL": "data",
    "polars": "frames",
    "prometheus_client": "openmetrics",
    "psycopg": "postgresql",
    "pyarrow": "frames",
    "scipy": "run",
    "sqlalchemy": "run",
    "sse_starlette": "serve",
    "tensorboardX": "tensorboard",
    "uv": "packages",
    "uvicorn": "serve",
    "wandb": "wandb",
    "zstandard": "zstd",
}
"""The extra that installs each optional module."""

FOR_RUNS = ("sqlalchemy", "alembic", "scipy", "jinja2")
"""The modules that a campaign needs at its end, so their lack is found before it starts."""


class MissingExtraError(InputError):
    """A library of an extra is not installed; the message has the command that installs it."""


def missing_extra(purpose: str, *modules: str) -> MissingExtraError:
    """Return the error for optional modules that ``purpose`` needs and that are not installed."""
    extras = ",".join(sorted({EXTRA_OF[module] for module in modules}))
    verb = "is" if len(modules) == 1 else "are"
    return MissingExtraError(
        f"{purpose} needs {', '.join(modules)}, which {verb} not installed: pip install 'trainmark[{extras}]'"
    )


def require_for_runs() -> None:
    """Raise ``MissingExtraError`` if a module that a campaign needs is not installed."""
    missing = [module for module in FOR_RUNS if not _is_installed(module)]
    if missing:
        raise missing_extra("measuring", *missing)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def import_extra(module: str, purpose: str) -> ModuleType:
    """Return an optional module; raise ``MissingExtraError`` with ``purpose`` and its extra if it is not installed.

    ``purpose`` is the subject of the sentence, such as ``a pandas frame``.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or module).partition(".")[0] not in EXTRA_OF:
            raise
        raise missing_extra(purpose, (error.name or module).partition(".")[0]) from None
