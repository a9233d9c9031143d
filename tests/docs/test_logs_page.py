"""The page about logs names every format and every rule that there is, and what their rates are."""

import io
import re
from pathlib import Path

from trainmark.logs import Scope
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log, rules_for
from trainmark.programs import formats, read_stream, synthetic_log

PAGE = (Path(__file__).parents[2] / "docs" / "logs.md").read_text(encoding="utf-8")
OF = {Scope.GLOBAL: "all", Scope.NODE: "node", Scope.DEVICE: "device"}


def rows(heading: str) -> dict[str, list[str]]:
    """Return the rows of the table under a heading of columns by the names in their first cell."""
    _, _, rest = PAGE.partition(heading)
    lines = [line for line in rest.split("\n\n")[0].splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return {name: row for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


def _needs(name: str) -> tuple[str, ...]:
    """Return the flags that a whole log of the format wants."""
    log = read_stream(io.BytesIO(synthetic_log(name, SampleRun([0.5] * 60)).encode()))
    return measure_log(log).needs


def test_the_table_of_formats_says_what_the_formats_say() -> None:
    table = rows("| format | line (shortened) | of | averages over | traps | needs | truth |")

    assert set(table) == {known.name for known in formats()}
    for known in formats():
        _, _, of, over, _, needs, truth = table[known.name]
        assert of in (OF[known.scope], "no rate"), known.name
        assert re.split(r"[:(]", over)[0].strip() in (known.meaning, "time stamps"), known.name
        assert set(re.findall(r"--\w+", needs)) == set(_needs(known.name)), known.name
        assert re.search(r"\b(logs?|own runs?|excerpt|source)\b", truth), known.name


def test_the_table_of_rules_has_every_rule_by_which_somebody_publishes() -> None:
    table = rows("| rule | formula | who publishes by it |")
    published = {rule.name for known in formats() for rule in rules_for(known.name)}

    assert published - {"window"} <= set(table)
