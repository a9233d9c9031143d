"""Documents of a family in one YAML file: found by name, with the file's line numbers in errors."""

from pathlib import Path

import pytest

from trainmark.documents import documents_of, parse_document, split_documents
from trainmark.errors import InputError
from trainmark.files import EXTENSIONS
from trainmark.logs.description import described_in, read_description

_FAMILY = """# Two of a kind.
name: two   # the first
title: Two
---
# The other.
name: "two-more"
title: More
list: [1
"""


def _written(folder: Path, text: str, name: str = "two.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_document_is_called_by_its_name_and_keeps_its_lines(tmp_path: Path) -> None:
    first, second = split_documents(_written(tmp_path, _FAMILY))

    assert (first.name, second.name) == ("two", "two-more")
    assert parse_document(first.text, first.path).values["title"] == "Two"
    with pytest.raises(InputError, match=r"two\.yaml:9: not valid YAML"):
        parse_document(second.text, second.path)


def test_one_document_needs_no_name_and_may_begin_with_a_separator(tmp_path: Path) -> None:
    (only,) = split_documents(_written(tmp_path, "# mine\n---\ntitle: One\n", "one.yaml"))

    assert only.name == "one"
    assert parse_document(only.text, only.path).lines["title",] == 3


def test_an_empty_file_is_one_document(tmp_path: Path) -> None:
    (only,) = split_documents(_written(tmp_path, "# nothing yet\n", "one.yaml"))
    with pytest.raises(InputError, match=r"one\.yaml: expected keys with values"):
        described_in(only)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: a\n---\nname: a\n",
            r"two\.yaml:3: a second document is called 'a': give each its own 'name'",
        ),
        ("title: a\n---\ntitle: b\n", r"two\.yaml:3: a second document is called 'two'"),
    ],
)
def test_two_documents_of_one_name_are_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        split_documents(_written(tmp_path, text))


def test_a_format_of_the_user_is_one_document(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"describes several formats \(a, b\): write each to a file of its own"
    ):
        read_description(_written(tmp_path, "name: a\n---\nname: b\n"))


def test_a_document_of_an_extension_is_found_and_does_not_replace_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "programs" / "cards"
    room.mkdir(parents=True)
    _written(room, "name: gluon-cv\n---\nname: mine\n", "mine.yaml")
    monkeypatch.setenv(EXTENSIONS, str(tmp_path))

    found = {document.name: document.path.name for document in documents_of("programs/cards")}

    assert found["mine"] == "mine.yaml"
    assert found["gluon-cv"] == "gluon-cv.yaml"
