"""The page about logs names every format and every rule that there is, and what their rates are."""

import re
import subprocess
import sys
from pathlib import Path

from trainmark.measure.rules import rules_for
from trainmark.programs import formats

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "logs.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """Return the rows of the table under a heading of columns by the names in their first cell."""
    _, _, rest = PAGE.partition(heading)
    lines = [line for line in rest.split("\n\n")[0].splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return {name: row for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


def test_the_table_of_formats_is_what_the_formats_say() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "formats_page.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_table_of_rules_has_every_rule_by_which_somebody_publishes() -> None:
    table = rows("| rule | formula | publishers |")
    published = {rule.name for known in formats() for rule in rules_for(known.name)}

    assert published - {"window"} <= set(table)


def test_both_readmes_count_the_formats() -> None:
    counted = {
        name: re.search(r"trainmark parse LOG .*?(\d+)", (ROOT / name).read_text(encoding="utf-8"))
        for name in ("README.md", "README.zh-CN.md")
    }

    assert {name: found and int(found[1]) for name, found in counted.items()} == dict.fromkeys(
        counted, len(formats())
    )
