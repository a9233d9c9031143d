"""The place of the manual's pages, which messages name as ``docs/PAGE.md``: a checkout's ``docs``, or the package."""

import re
from pathlib import Path

FOLDER = Path(__file__).with_name("manual")
"""The pages in the package; in a checkout a link to ``docs``."""

_PAGE = re.compile(r"\bdocs/((?:[a-z-]+/)+[a-z-]+\.md)")


def with_pages(text: str, folder: Path = FOLDER) -> str:
    """Return a text with the path of each page that it names, if the pages are in the installed package."""
    if folder.is_symlink() or not folder.is_dir():
        return text

    def page(found: re.Match[str]) -> str:
        path = folder / found[1]
        return str(path) if path.is_file() else found[0]

    return _PAGE.sub(page, text)
