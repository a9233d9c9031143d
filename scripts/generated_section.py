"""A section of a page of docs that a script writes from data, between two comments."""

import sys
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"


class GeneratedSection(NamedTuple):
    """The section between ``begin`` and ``end`` of the page ``docs/NAME``, which ``script`` writes."""

    name: str
    begin: str
    end: str
    script: str

    @property
    def path(self) -> Path:
        """The page."""
        return DOCS / self.name

    def page(self, text: str) -> str:
        """Return the page with ``text`` as its section."""
        before, _, rest = self.path.read_text(encoding="utf-8").partition(self.begin)
        _, _, after = rest.partition(self.end)
        return f"{before}{self.begin}\n\n{text}\n\n{self.end}{after}"

    def update(self, text: str) -> int:
        """Write the page, or with ``--check`` only compare it; return the exit code."""
        wanted = self.page(text)
        if wanted == self.path.read_text(encoding="utf-8"):
            return 0
        if "--check" in sys.argv[1:]:
            sys.stderr.write(
                f"{self.path.resolve().relative_to(DOCS.parent)} is outdated: run {self.script}\n"
            )
            return 1
        self.path.write_text(wanted, encoding="utf-8")
        return 0
