"""YAML files of one document, or of several of a family: separated by ``---``, each with its ``name``.

A family's file is called as the names of its documents begin: ``oneflow.yaml`` has ``oneflow`` and ``oneflow-bert``.
"""

import re
from pathlib import Path
from typing import NamedTuple

from trainmark.errors import InputError
from trainmark.extensions import folders

_NAME = re.compile(r"""(?m)^name: *["']?([^\s"']+)["']?[ \t]*(?:#.*)?$""")
_CONTENT = re.compile(r"(?m)^[ \t]*[^#\s]")
_SEPARATOR = re.compile(r"(?m)^---[ \t]*\n")


class NamedText(NamedTuple):
    """One document: its name, its file, and its text, in which lines have the numbers that they have in the file."""

    name: str
    path: Path
    text: str


def split_documents(path: Path) -> tuple[NamedText, ...]:
    """Return the documents of a YAML file, at least one; one without a ``name`` is called like the file.

    What has nothing but comments, such as the lines before a first ``---``, is no document.
    Raises ``InputError`` if the file cannot be read, or if two have one name.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from None
    found: dict[str, NamedText] = {}
    line = 0
    for part in _SEPARATOR.split(text):
        named = _NAME.search(part)
        name = named[1] if named else path.stem
        if name in found:
            raise InputError(
                f"{path}:{line + 1}: a second document is called '{name}': give each its own 'name'"
            )
        if _CONTENT.search(part):
            found[name] = NamedText(name, path, "\n" * line + part)
        line += part.count("\n") + 1
    return tuple(found.values()) or (NamedText(path.stem, path, text),)


def documents_of(room: str) -> tuple[NamedText, ...]:
    """Return the documents of a folder, trainmark's own and those of extensions, sorted by name.

    Of two with the same name it is the first on the path. Raises ``InputError`` as ``split_documents`` does.
    """
    found: dict[str, NamedText] = {}
    for folder in (Path(__file__).parent / room, *folders(room)):
        for file in sorted(folder.glob("*.yaml")):
            for document in split_documents(file):
                found.setdefault(document.name, document)
    return tuple(found[name] for name in sorted(found))
