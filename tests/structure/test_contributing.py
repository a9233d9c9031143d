"""CONTRIBUTING: a row for every room, steps whose files exist, short cells."""

import re
from pathlib import Path

import trainmark

ROOT = Path(__file__).parents[2]
HOUSE = Path(trainmark.__file__).parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PLACEHOLDER = re.compile(r"[A-Z]{3,}|NNNN|…|\*")
LONGEST_CELL = 200
"""Two lines of a page."""


def section(heading: str) -> str:
    _, _, rest = TEXT.partition(f"\n## {heading}\n")
    assert rest, heading
    return rest.split("\n## ")[0]


def guides() -> dict[str, str]:
    names = re.findall(r"^## (How to add .*)$", TEXT, re.MULTILINE)
    return {name: section(name) for name in names}


def test_every_folder_has_a_row_and_every_row_a_folder() -> None:
    rows = re.findall(r"^\| `([a-z_]+)/` \|", section("Rooms"), re.MULTILINE)
    folders = {path.parent.name for path in HOUSE.glob("*/__init__.py")}

    assert len(rows) == len(set(rows))
    assert set(rows) == folders


def test_no_cell_is_longer_than_two_lines() -> None:
    cells = [
        cell.strip()
        for line in TEXT.splitlines()
        if line.startswith("|")
        for cell in line.strip("|").split("|")
    ]

    assert [cell for cell in cells if len(cell) > LONGEST_CELL] == []


def test_what_is_often_added_has_a_guide() -> None:
    wanted = (
        "log format",
        "axis value",
        "report section",
        "rule",
        "framework",
        "task",
        "kind of data set",
        "migration",
    )

    assert [
        what
        for what in wanted
        if f"How to add a {what}" not in guides() and f"How to add an {what}" not in guides()
    ] == []


def test_a_guide_is_a_numbered_list() -> None:
    for name, text in guides().items():
        for numbers in _lists(text):
            assert numbers == list(range(1, len(numbers) + 1)), name
            assert len(numbers) >= 3, name


def _lists(text: str) -> list[list[int]]:
    lists: list[list[int]] = []
    for number in map(int, re.findall(r"^(\d+)\. ", text, re.MULTILINE)):
        if number == 1:
            lists.append([])
        lists[-1].append(number)
    return lists


def test_the_files_of_the_steps_exist() -> None:
    """A name in capitals stands for what is added: then the folder before it must exist."""
    paths = re.findall(
        r"`((?:src|tests|docs|suites|scripts|benchmarks)/[^` ]*)`",
        "\n".join([*guides().values(), section("A change")]),
    )
    missing = []
    for path in paths:
        known = PLACEHOLDER.split(path)[0]
        target = ROOT / (known if known == path else known.rpartition("/")[0])
        if not target.exists():
            missing.append(path)

    assert paths
    assert missing == []


def test_the_names_that_the_steps_mention_are_in_their_files() -> None:
    named = re.findall(
        r"(?:to|In|from|Set) `([A-Z][A-Za-z_]+)`(?: [a-z ]*)? in `([^`]*\.py)`", "\n".join(guides().values())
    )

    assert len(named) > 8
    lost = []
    for name, file in named:
        pattern = file.replace("FRAMEWORK", "*").replace("TASK", "*").replace("NAME", "*")
        files = [path for base in (ROOT, HOUSE) for path in base.glob(pattern)]
        if not any(re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")) for path in files):
            lost.append((name, file))
    assert lost == []
