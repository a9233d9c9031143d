"""Live pages: a server of a site's pages, of running suites, and of results that are handed in.

Names are loaded at first use.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.web.app import make_app
    from trainmark.web.ingest import Ingest, read_token
    from trainmark.web.policy import LOOPBACK
    from trainmark.web.running import start_server

__all__ = ["LOOPBACK", "Ingest", "make_app", "read_token", "start_server"]

__getattr__ = attach(
    __name__,
    {
        ".app": ("make_app",),
        ".ingest": ("Ingest", "read_token"),
        ".policy": ("LOOPBACK",),
        ".running": ("start_server",),
    },
)
