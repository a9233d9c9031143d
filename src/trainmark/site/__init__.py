"""Pages of many results that others can look at: the same for a folder of files and for a server.

Names are loaded at first use.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.site.campaigns import Campaign, DirectorySource, StoreSource, open_source
    from trainmark.site.writing import write_site

__all__ = [
    "Campaign",
    "DirectorySource",
    "StoreSource",
    "open_source",
    "write_site",
]

__getattr__ = attach(
    __name__,
    {
        ".campaigns": ("Campaign", "DirectorySource", "StoreSource", "open_source"),
        ".writing": ("write_site",),
    },
)
