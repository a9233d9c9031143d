"""Programs: a card or format is found by its name in the file whose name it begins with; no folder of a single file."""

from pathlib import Path

from trainmark import programs
from trainmark.documents import documents_of
from trainmark.programs import formats

ROOM = Path(programs.__file__).parent


def test_no_folder_has_a_single_file() -> None:
    folders = {file.parent for file in ROOM.rglob("*") if file.suffix in (".py", ".yaml")}
    assert [
        str(folder.relative_to(ROOM))
        for folder in sorted(folders)
        if len([file for file in folder.iterdir() if file.suffix in (".py", ".yaml")]) < 2
    ] == []


def test_a_name_begins_with_the_name_of_one_file() -> None:
    for folder, names in (
        ("log_formats", [known.name for known in formats()]),
        ("cards", [document.name for document in documents_of("programs/cards")]),
    ):
        files = {file.stem.replace("_", "-") for file in (ROOM / folder).iterdir() if file.stem[0] != "_"}
        of_file = {name: max((file for file in files if name.startswith(file)), key=len) for name in names}
        assert set(of_file.values()) == files


def test_a_card_is_in_the_file_that_its_name_begins_with() -> None:
    assert [
        document.name
        for document in documents_of("programs/cards")
        if not document.name.startswith(document.path.stem)
    ] == []
