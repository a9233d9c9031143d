"""Programs: one file for each card and format, named like it; no folder for a single file."""

from pathlib import Path

import yaml

from trainmark import programs
from trainmark.programs import card_files, formats

ROOM = Path(programs.__file__).parent


def test_no_folder_has_a_single_file() -> None:
    folders = {file.parent for file in ROOM.rglob("*") if file.suffix in (".py", ".yaml")}
    assert [
        str(folder.relative_to(ROOM))
        for folder in sorted(folders)
        if len([file for file in folder.iterdir() if file.suffix in (".py", ".yaml")]) < 2
    ] == []


def test_a_format_is_named_like_its_file() -> None:
    files = {file.stem.replace("_", "-") for file in (ROOM / "log_formats").iterdir() if file.stem[0] != "_"}
    assert {known.name for known in formats()} == files


def test_a_card_is_named_like_its_file() -> None:
    assert [yaml.safe_load(file.read_text(encoding="utf-8"))["name"] for file in card_files()] == [
        file.stem for file in card_files()
    ]
