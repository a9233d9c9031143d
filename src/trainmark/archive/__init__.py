"""One file of a result directory to hand over, verified and analysed again on arrival.

Names are loaded at first use, because the command line imports this package for each verb.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.archive.packing import extract_archive, write_archive
    from trainmark.archive.verification import verify_archive

__all__ = ["extract_archive", "verify_archive", "write_archive"]

__getattr__ = attach(
    __name__,
    {".packing": ("extract_archive", "write_archive"), ".verification": ("verify_archive",)},
)
