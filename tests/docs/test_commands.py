"""The commands of tutorials and how-to pages: those with an output are run, and the options of all others exist."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from trainmark.cli.command_tree import command_tree

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SESSIONS = sorted(
    page
    for folder in ("tutorials", "how-to")
    for page in (DOCS / folder).glob("*.md")
    # A Chinese page shows the commands of the English one.
    if ".zh" not in page.name and "```console" in page.read_text(encoding="utf-8")
)
BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<file>[\w.-]+)")?\n(?P<text>.*?)^```', re.MULTILINE | re.DOTALL
)
NUMBER = re.compile(r"[-+]?\d+(?:[.,\u202f]\d+)*(?:e[-+]?\d+)?")
INTERVAL_AND_RUNS = re.compile(r"(?:\[0, 0\]\s+)?0 runs?\b")
OF_A_BUSY_MACHINE = ("Other processes used ",)
"""Beginnings of lines that are printed only where other programs run."""
NO_VERBS = ("ended",)
"""The first word of a sentence in a record."""
LEFT_OUT = "…"
RARE = ("compare-two-versions", "my-numbers-scatter")
"""Pages whose programs run for longest; their verbs print the same on other pages and in ``tests/command``."""


class Command(NamedTuple):
    """A command of a page, and the lines that it prints according to the page."""

    words: str
    printed: list[str]


def commands(block: str) -> list[Command]:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [Command(lines[0], lines[1:]) for lines in (part.rstrip("\n").split("\n") for part in parts)]


def without_numbers(text: str) -> str:
    """Return a text with any number as 0, and the same for a median with an interval and without one.

    On a busy machine some runs, or all, are disturbed: fewer are counted, and fewer than three have no interval.
    """
    return INTERVAL_AND_RUNS.sub("0 runs", NUMBER.sub("0", text))


def pattern_of(line: str) -> str:
    """Return a pattern for a printed line: any numbers and spaces, and anything for what is left out."""
    parts = [without_numbers(part) for part in line.split(LEFT_OUT)]
    escaped = (re.sub(r"(?:\\ )+", r"\\s+", re.escape(part.strip())) for part in parts)
    return r"\s*" + r".*".join(escaped) + r"\s*"


def first_difference(expected: list[str], printed: list[str]) -> str | None:
    """Return the first expected line that is not printed at its place; None if all are."""
    expected, printed = (
        [line for line in lines if not line.startswith(OF_A_BUSY_MACHINE)] for lines in (expected, printed)
    )
    at, may_skip = 0, False
    for line in expected:
        if line.strip() == LEFT_OUT:
            may_skip = True
            continue
        pattern = re.compile(pattern_of(line))
        matching = (
            number
            for number in range(at, len(printed))
            if pattern.fullmatch(without_numbers(printed[number]))
        )
        found = next(matching, None)
        if found is None or (found > at and not may_skip):
            return line
        at, may_skip = found + 1, False
    return None if may_skip or at == len(printed) else f"the page lacks: {printed[at]}"


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a reader: trainmark and Python on the path, and a folder of their own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, target in (
        ("python", sys.executable),
        ("trainmark", str(Path(sys.executable).with_name("trainmark"))),
    ):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(target)} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "400"}


@pytest.mark.process
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.rare] if page.stem in RARE else [])
        for page in SESSIONS
    ],
)
def test_the_commands_of_a_page_print_what_the_page_shows(
    page: Path, shell: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"], encoding="utf-8")
        if block["kind"] != "console":
            continue
        for command in commands(block["text"]):
            done = subprocess.run(
                ["bash", "-c", command.words],
                cwd=folder, env=shell, capture_output=True, text=True, check=False,
            )  # fmt: skip
            context = f"{command.words}\n{done.stdout}\n{done.stderr}"
            # A busy machine puts runs in doubt, which is exit code 1 and not a mistake of the page.
            assert done.returncode in (0, 1), context
            assert "Traceback" not in done.stderr, context
            difference = first_difference(command.printed, done.stdout.splitlines())
            assert difference is None, f"{difference}\n--\n{context}"


@pytest.mark.parametrize(
    ("expected", "printed", "difference"),
    [
        (["images/s  1.5e+04  3 runs"], ["images/s    987   3 runs"], None),
        (["images/s  1.5e+04  3 runs"], ["images/s    987   [980, 1.1e+03]   3 runs"], None),
        (["images/s  87.1  [80, 91]   3 runs, 280 records"], ["images/s  91.2   1 run, 280 records"], None),
        (["images/s  1 runs"], ["tokens/s  1 runs"], "images/s  1 runs"),
        (["a", "…", "c"], ["a", "b", "b", "c"], None),
        (["a", "c"], ["a", "b", "c"], "c"),
        (["a"], ["a", "b"], "the page lacks: b"),
        (["a … z"], ["a anything z"], None),
        (["sha256:…"], ["sha256:9b9f"], None),
        (["a", "…"], ["a", "b"], None),
        (["a", "Other processes used 9% of the CPUs", "b"], ["a", "b"], None),
        (["a", "b"], ["a", "Other processes used 9% of the CPUs", "b"], None),
    ],
)
def test_a_printed_line_is_compared_but_for_numbers_and_what_is_left_out(
    expected: list[str], printed: list[str], difference: str | None
) -> None:
    assert first_difference(expected, printed) == difference


def shown_commands(text: str) -> Iterator[str]:
    """Yield every command of trainmark in code of a page, without comments."""
    fenced = re.findall(r"^```\w*[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(
        r"^(?:    |\t)(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.MULTILINE
    )
    for line in [*"\n".join(fenced).replace("\\\n", " ").splitlines(), *indented]:
        command = line.strip().removeprefix("$ ").partition("  #")[0]
        if re.match(r"(?:\.venv/bin/)?trainmark [a-z]+(?: |$)", command):
            yield command
    yield from re.findall(r"`(trainmark [a-z]+(?: [^`]*)?)`", text)


def words_of(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a sentence with an apostrophe
        return command.split()


def unknown_flags(command: str) -> list[str]:
    words = words_of(command.partition(" -- ")[0].partition(" | ")[0].partition(" && ")[0])
    at = next(number for number, word in enumerate(words) if word.endswith("trainmark")) + 1
    flags = {tree.words: set(tree.flags) for tree in command_tree()}
    verb = words[at]
    if (verb,) not in flags:
        return [] if verb in NO_VERBS else [verb]
    inner = next((key for key in flags if len(key) > 1 and key == tuple(words[at : at + 2])), (verb,))
    known = flags[inner] | flags[(verb,)]
    given = [re.split(r"[=\]]", word.lstrip("["))[0].rstrip(",.)") for word in words[at:]]
    return [word for word in given if re.fullmatch(r"--[a-z][a-z-]*", word) and word not in known]


PAGES = [
    page
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    if page.name != "CHANGELOG.md" and not {"adr", "results"} & set(page.parts)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_verbs_and_options_that_a_page_shows_exist(page: Path) -> None:
    shown = list(shown_commands(page.read_text(encoding="utf-8")))

    assert {command: found for command in shown if (found := unknown_flags(command))} == {}


def test_an_option_that_does_not_exist_is_found() -> None:
    assert unknown_flags("trainmark parse LOG --gpu 8") == ["--gpu"]
    assert unknown_flags("trainmark prase LOG") == ["prase"]
    assert unknown_flags("trainmark run --out DIR -- python train.py --anything") == []
    assert unknown_flags("trainmark env create pytorch --extra dali") == []
