"""Are these hosts fit to run a suite? What they are, held against each other and the suite, and measured."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.check.checking import CheckOrder, Patience, check_hosts
    from trainmark.check.outliers import compare
    from trainmark.check.rendering import as_text

__all__ = ["CheckOrder", "Patience", "as_text", "check_hosts", "compare"]

__getattr__ = attach(
    __name__,
    {
        ".checking": ("CheckOrder", "Patience", "check_hosts"),
        ".outliers": ("compare",),
        ".rendering": ("as_text",),
    },
)
