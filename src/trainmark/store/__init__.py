"""Results at rest: the JSON document, and the database of every run."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach
from trainmark.store.document import read_results, write_results

if TYPE_CHECKING:
    from trainmark.store.database import (
        Added,
        CampaignSummary,
        Store,
        StoredCampaign,
        database_url,
        document_of,
        existing_store,
        identity,
        sqlite_url,
    )

__all__ = [
    "Added",
    "CampaignSummary",
    "Store",
    "StoredCampaign",
    "database_url",
    "document_of",
    "existing_store",
    "identity",
    "read_results",
    "sqlite_url",
    "write_results",
]

__getattr__ = attach(
    __name__,
    {
        ".database": (
            "Added",
            "CampaignSummary",
            "Store",
            "StoredCampaign",
            "database_url",
            "document_of",
            "existing_store",
            "identity",
            "sqlite_url",
        ),
    },
)
