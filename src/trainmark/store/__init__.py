"""Results at rest: the JSON document, and the database of every run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainmark.store.document import read_results, write_results

if TYPE_CHECKING:
    from trainmark.store.database import (
        Added,
        CampaignSummary,
        Store,
        StoredCampaign,
        database_url,
        existing_store,
        sqlite_url,
    )

__all__ = [
    "Added",
    "CampaignSummary",
    "Store",
    "StoredCampaign",
    "database_url",
    "existing_store",
    "read_results",
    "sqlite_url",
    "write_results",
]


def __getattr__(name: str) -> Any:
    """Load the database's module when it is first asked for: SQLAlchemy is heavy."""
    if name in __all__:
        return getattr(import_module("trainmark.store.database"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
