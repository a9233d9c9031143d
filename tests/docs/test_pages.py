"""The documentation: links lead somewhere, and what comes with trainmark is named where a reader looks for it."""

import re
from pathlib import Path

import pytest

from trainmark.environment import entries

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {words.strip().replace(" ", "-") for words in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for name, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors(target), f"{name}#{anchor}"


def test_every_suite_is_named_in_the_page_on_suites() -> None:
    text = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    suites = [path.stem for path in (ROOT / "suites").glob("*.yaml")]

    assert suites
    assert [name for name in suites if f"`{name}`" not in text] == []


def test_every_framework_has_its_rows() -> None:
    frameworks = [entry.framework for entry in entries()]

    assert frameworks
    for page in ("suites.md", "environments.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        rows = [line.lower() for line in text.splitlines() if line.startswith("|")]
        missing = [name for name in frameworks if not any(row.strip("| `").startswith(name) for row in rows)]
        assert missing == [], page
