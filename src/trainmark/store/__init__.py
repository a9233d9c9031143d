"""Results at rest: the JSON document, and the database of every run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainmark.store.document import read_results, write_results
from trainmark.words.results import SCHEMA, CaseResult, Results, RunResult

if TYPE_CHECKING:
    from trainmark.store.database import Store, StoredCampaign, sqlite_url

__all__ = [
    "SCHEMA",
    "CaseResult",
    "Results",
    "RunResult",
    "Store",
    "StoredCampaign",
    "read_results",
    "sqlite_url",
    "write_results",
]


def __getattr__(name: str) -> Any:
    """Load the database's module when it is first asked for: SQLAlchemy is heavy."""
    if name in ("Store", "StoredCampaign", "sqlite_url"):
        return getattr(import_module("trainmark.store.database"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
