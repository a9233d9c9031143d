"""Results at rest: the JSON document, and the database of every run."""

from typing import TYPE_CHECKING

from trainmark.imports import attach
from trainmark.store.document import parse_results, read_results
from trainmark.store.sources import require_database

if TYPE_CHECKING:
    from trainmark.store.database import (
        Added,
        CampaignSummary,
        Store,
        StoredCampaign,
        StoredRuns,
        database_url,
        document_of,
        existing_store,
        identity,
        reading_store,
        sqlite_url,
    )
    from trainmark.store.listing import (
        axis_values,
        campaign_starts,
        count_cases,
        last_run,
        list_results,
        read_case,
        runs_after,
    )
    from trainmark.store.rebuilt import rebuilt_suite

__all__ = [
    "Added",
    "CampaignSummary",
    "Store",
    "StoredCampaign",
    "StoredRuns",
    "axis_values",
    "campaign_starts",
    "count_cases",
    "database_url",
    "document_of",
    "existing_store",
    "identity",
    "last_run",
    "list_results",
    "parse_results",
    "read_case",
    "read_results",
    "reading_store",
    "rebuilt_suite",
    "require_database",
    "runs_after",
    "sqlite_url",
]

__getattr__ = attach(
    __name__,
    {
        ".database": (
            "Added",
            "CampaignSummary",
            "Store",
            "StoredCampaign",
            "StoredRuns",
            "database_url",
            "document_of",
            "existing_store",
            "identity",
            "reading_store",
            "sqlite_url",
        ),
        ".listing": (
            "axis_values",
            "campaign_starts",
            "count_cases",
            "last_run",
            "list_results",
            "read_case",
            "runs_after",
        ),
        ".rebuilt": ("rebuilt_suite",),
    },
)
