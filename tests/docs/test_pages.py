"""The documentation: links lead somewhere, and what comes with trainmark is named where a reader looks for it."""

import re
import subprocess
from pathlib import Path

import pytest

from trainmark.environment import entries

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
DEFINITION = re.compile(r"^\[[^\]]+\]: (?!https?:)([^#\s]+)(?:#(\S+))?$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

PAGE_NAME = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")
PLACEHOLDER = re.compile(r"/[A-Z]+\.md$")
NOT_SEARCHED = ("CHANGELOG.md", "docs/reference/published-tables.md", "tests/report/test_report_command.py")
"""What was true at its time; other projects' pages; a file that the test writes."""
TABLES = "src/trainmark/reference/tables/"
TRANSLATED = [page for page in PAGES if ".zh" in page.name and page.name != "README.zh.md"]
TEXTS = {".py", ".yaml", ".md", ".toml", ".txt", ".json", ".j2"}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {words.strip().replace(" ", "-") for words in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, anchor in [*LINK.findall(text), *DEFINITION.findall(text)]:
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors(target), f"{name}#{anchor}"


def test_every_page_that_code_and_messages_name_exists() -> None:
    """A published table names the page of another project, which is left out."""
    listed = subprocess.run(
        ["git", "ls-files", "src", "scripts", "benchmarks", "suites", "tests", "docs", "*.md", "*.toml"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    lost = []
    named = 0
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if name in NOT_SEARCHED or name.startswith(TABLES) or path.suffix not in TEXTS or not path.is_file():
            continue
        for page in PAGE_NAME.findall(path.read_text(encoding="utf-8")):
            named += 1
            if not (ROOT / PLACEHOLDER.sub("", page)).exists():
                lost.append(f"{name}: {page}")
    assert named > 50
    assert lost == []


def test_every_page_is_in_the_list_of_pages() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / name).resolve() for name, _ in LINK.findall(index.read_text(encoding="utf-8"))}
    folders = ("tutorials", "how-to", "reference", "explanation", "appendix")
    pages = [page for folder in folders for page in (index.parent / folder).rglob("*.md")]

    assert len(pages) > 30
    assert [str(page) for page in pages if page not in linked and ".zh." not in page.name] == []


def shape(page: Path) -> dict[str, object]:
    """Return what a translation has in common with its original: headings, rows, items and the code of commands."""
    text = page.read_text(encoding="utf-8")
    outside = FENCED.sub("", text)
    return {
        "headings": re.findall(r"^(#+) ", outside, re.MULTILINE),
        "rows": len(re.findall(r"^\| (?!.*简体中文)", outside, re.MULTILINE)),
        "items": len(re.findall(r"^[-*] ", outside, re.MULTILINE)),
        "code": [block.splitlines()[0] for block in FENCED.findall(text)],
        "commands": re.findall(r"^ {4}(?:\S*/)?(?:trainmark|make) \S+", outside, re.MULTILINE),
    }


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.name)
def test_a_chinese_page_has_the_headings_rows_items_and_commands_of_the_english_one(page: Path) -> None:
    english = page.with_name(page.name.replace(".zh-CN.md", ".md").replace(".zh.md", ".md"))
    ours, original = shape(page), shape(english)
    assert ours == original


CODE = re.compile(r"`[^`\n]+`")
STAND_IN = re.compile(r"[A-Z]{2,}…?|[一-鿿]+…?")
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


def facts_of(line: str) -> tuple[list[str], list[str]]:
    """Return a line's pieces of code without placeholders, and the figures of its text."""
    code = sorted(STAND_IN.sub("", piece) for piece in CODE.findall(line))
    text = re.sub(r"\]\([^)]*\)", "", CODE.sub("", line))
    return code, sorted(FIGURE.findall(text))


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.name)
def test_a_chinese_page_has_the_code_and_the_figures_of_the_english_one_line_by_line(page: Path) -> None:
    english = page.with_name(page.name.replace(".zh-CN.md", ".md").replace(".zh.md", ".md"))
    ours, original = (each.read_text(encoding="utf-8").splitlines() for each in (page, english))

    assert len(ours) == len(original)
    differing = [
        (number, line)
        for number, (line, before) in enumerate(zip(ours, original, strict=True), start=1)
        if facts_of(line) != facts_of(before)
    ]
    assert differing == []


PROSE = re.compile(r"^(?!\||#|    |<|- |\* |!|\d+\. |```)", re.DOTALL)
GUIDES = [page for page in PAGES if page.parent.name in ("tutorials", "how-to", "explanation")]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_paragraph_has_one_idea(page: Path) -> None:
    """A line is a sentence; more than five of them hold more than one idea. Reference pages are looked up, not read."""
    blocks = re.split(r"\n\s*\n", FENCED.sub("", page.read_text(encoding="utf-8")))
    long = [block.strip("\n") for block in blocks if len(block.strip("\n").splitlines()) > 5]

    assert [block.splitlines()[0] for block in long if PROSE.match(block) and "\n   |" not in block] == []


MOST_OF_A_CELL = 260
"""Characters without the targets of links: two lines of a wide column."""
TARGET = re.compile(r"\]\([^)]*\)")


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "adr" not in page.parts and page.name != "report.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_cell_has_at_most_two_lines(page: Path) -> None:
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", TARGET.sub("]", row))]

    assert [cell[:60] for cell in cells if len(cell) > MOST_OF_A_CELL] == []


PRIVATE = re.compile(r"\b(spoil(?:ed|t|s)?|strays|drained|recorded step|told|whoever|begun)\b", re.IGNORECASE)
"""Words of this project's past: nobody else measures by them. Names of fields and codes are in backticks."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if not {"adr", "results"} & set(page.parts) and page.name != "CHANGELOG.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_has_no_private_words(page: Path) -> None:
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", FENCED.sub("", page.read_text(encoding="utf-8")))

    assert PRIVATE.findall(text) == []


def test_every_suite_is_named_in_the_page_on_suites() -> None:
    text = (ROOT / "docs" / "reference" / "suites.md").read_text(encoding="utf-8")
    suites = [path.stem for path in (ROOT / "suites").glob("*.yaml")]

    assert suites
    assert [name for name in suites if f"`{name}`" not in text] == []


def test_every_framework_has_its_rows() -> None:
    frameworks = [entry.framework for entry in entries()]

    assert frameworks
    for page in ("reference/suites.md", "reference/environments.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        rows = [line.lower() for line in text.splitlines() if line.startswith("|")]
        missing = [name for name in frameworks if not any(row.strip("| `").startswith(name) for row in rows)]
        assert missing == [], page
