"""The manual: sections made from the program, navigation from the list of pages, and its build."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from manual_hooks import EXTERNAL, navigation, on_page_markdown, resolved
from manual_reference import DOCUMENTS, command_line, document, section
from trainmark.cli.main import VERBS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


def test_the_page_of_commands_has_the_help_of_every_verb() -> None:
    text = command_line()

    for verb in VERBS:
        assert f"\n## trainmark {verb}\n" in text
        assert f"Usage: trainmark {verb} " in text
    assert "### trainmark env create" in text
    assert "### trainmark store add" in text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_page_of_documents_has_every_field_and_its_links_lead_to_a_part(name: str) -> None:
    text = document(name)
    parts = set(re.findall(r"^### (\w+)$", text, re.MULTILINE))
    links = set(re.findall(r"\]\(#(\w+)\)", text))

    assert all(f"| `{field}` |" in text for field in DOCUMENTS[name].model_fields if field != "schema")
    assert links
    assert links <= {part.lower() for part in parts}


def test_every_section_that_a_page_requests_is_made() -> None:
    requested = [
        (page.name, name)
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"<!-- made: ([\w-]+) -->", page.read_text(encoding="utf-8"))
    ]

    assert len(requested) >= 6
    for _, name in requested:
        assert section(name)


def test_an_unknown_section_stops_the_build_and_names_those_that_exist() -> None:
    with pytest.raises(SystemExit, match="no section 'commands' of the manual; there are command-line, "):
        section("commands")


class Page:
    """A page as mkdocs passes it."""

    def __init__(self, source: str) -> None:
        self.file = self
        self.src_uri = source


def test_a_requested_section_replaces_its_placeholder_only() -> None:
    text = "before\n\n<!-- made: decisions -->\n\nempty\n\n<!-- end of decisions -->\nafter"

    filled = on_page_markdown(text, Page("adr/README.md"))

    assert filled.startswith("before\n\n- [1. ")
    assert filled.endswith("\nafter")
    assert "empty" not in filled


@pytest.mark.parametrize(
    ("source", "target", "page"),
    [
        ("how-to/report.md", "../../CONTRIBUTING.md", "../contributing.md"),
        ("README.md", "../CHANGELOG.md", "changelog.md"),
        ("how-to/releasing.md", "../adr/", "../adr/README.md"),
        ("how-to/report.md", "../explanation/concepts.md", "../explanation/concepts.md"),
    ],
)
def test_a_link_outside_docs_or_to_a_folder_leads_to_a_page(source: str, target: str, page: str) -> None:
    assert resolved(source, target) == page


def test_the_navigation_has_the_sections_of_the_list_of_pages_in_their_order() -> None:
    found = navigation((DOCS / "README.md").read_text(encoding="utf-8"))

    assert [name for part in found for name in part] == [
        "Tutorials", "How-to", "Reference", "Explanation", "Appendix",
    ]  # fmt: skip
    pages = [page for part in found for entries in part.values() for one in entries for page in one.values()]
    assert len(pages) == len(set(pages)) > 30
    assert all((DOCS / page).is_file() for page in pages)


@pytest.mark.parametrize(
    ("html", "external"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example.org/css">', True),
        ('<link href="https://fonts.example.org" rel="preconnect" crossorigin>', True),
        ("<img src=https://example.org/a.png>", True),
        ('<script src="../assets/a.js"></script>', False),
        ('<a href="https://arxiv.org/abs/1">a source</a>', False),
        ('<link rel="canonical" href="https://example.org/page">', False),
    ],
)
def test_what_a_page_would_load_from_another_server_is_found(html: str, external: bool) -> None:
    assert bool(EXTERNAL.search(html)) is external


@pytest.mark.process
@pytest.mark.skipif(not MKDOCS.exists(), reason="`make docs` has not installed mkdocs here")
def test_the_manual_is_built_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [MKDOCS, "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert built.returncode == 0, built.stderr
    assert "Usage: trainmark run " in (tmp_path / "reference" / "command-line.html").read_text(
        encoding="utf-8"
    )
    assert "Return the throughput of one training log" in (
        tmp_path / "reference" / "python-api.html"
    ).read_text(encoding="utf-8")
